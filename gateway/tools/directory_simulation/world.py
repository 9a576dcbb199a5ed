"""A fleet whose directories are looked at while gateways die, move and are cut off.

Checked as it runs, from outside: what a look-up names was registered where it says, and not longer
ago than it says (8; `ledger.AGE_S` without a mark); each answer is of the gateway that was asked,
and no write is carried out twice (10). After peace (9) all look-ups agree and are whole, and
nothing is waited for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import ClassVar, Final, Self

from gateway.tools.directory_simulation.ledger import RegistrationLedger, endpoint_of, owner_of
from gateway.tools.directory_simulation.node import ACTUATOR, DEVICE, OWN, DirectoryNode
from light_dataclasses import dataclass
from resource_directory.digest import AFTER_S, EVERY_S
from resource_directory.link_format import WebLink, parse
from resource_directory.registration import Registration
from resource_directory.scoped import STALE
from tree_handler.members.member import MemberRecord
from tree_handler.members.place import Place
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.simulation.checks import MAX_VIOLATIONS, Violation
from tree_handler.simulation.heads import DOMAINS, GROUPS, PATIENCE, HeadedFleet
from tree_handler.simulation.network import Edge
from tree_handler.simulation.report import Report
from tree_handler.spanning.parameters import Parameters

ENDPOINTS: Final = 4
"""Of each gateway in the beginning."""
KINDS: Final = 12
SETTLE_S: Final = 6.0
STORM_S: Final = 40.0
ASKING_S: Final = 15.0
"""All that is asked has ended by then."""
PEACE_S: Final = AFTER_S + EVERY_S + PATIENCE.last_hold_s + ASKING_S
LONG_S: Final = 100_000
STEPS_PER_S: Final = 4.0
ASKERS: Final = 8
"""So many are asked after peace, of a large fleet."""
DEGREE: Final = 4
_STEPS: Final = {
    "look up": 8,
    "register": 4,
    "remove": 2,
    "write": 4,
    "ask many": 2,
    "kill": 0.7,
    "cut": 0.7,
    "part": 0.15,
    "move": 0.5,
}
"""The events, and how often each comes beside the rest."""


@dataclass(frozen=True, slots=True)
class DirectoryOptions:
    """A run; see `tree_handler.simulation.report.ReportedOptions`.

    Attributes:
        seed: all chance follows from it.
        gateways: how many.

    """

    seed: int
    gateways: int

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed."""
        return cls(seed, gateways)

    @property
    def leaves(self) -> int:
        """Return how many gateways are leaves."""
        return 0

    @property
    def parameters(self) -> Parameters:
        """Of all trees."""
        return Parameters()

    @property
    def replay(self) -> str:
        """Return the command that runs this again."""
        same = f"--seed {self.seed} --gateways {self.gateways} --runs 1"
        return f"hedgerow simulate --subject directory {same}"


class DirectoryWorld:
    """The fleet; see `node.Surroundings`.

    Args:
        options: the run.

    Attributes:
        violations: what should not have been, at most `MAX_VIOLATIONS`.
        messages: that crossed a link, by kind.
        octets: of them.
        load: messages that each gateway put on links.
        work: requests that each executed.
        done: what was looked up and asked, and has its answer.

    """

    node_type: ClassVar[type[DirectoryNode]] = DirectoryNode
    """The class of each life of a gateway; an experiment puts another way here."""
    tells_ways: ClassVar[bool] = True
    """True if what a gateway serves itself is told with the way to it: not in each experiment."""

    def __init__(self, options: DirectoryOptions) -> None:
        self.options = options
        self.ledger = RegistrationLedger()
        self.written: set[bytes] = set()
        self.violations: list[Violation] = []
        self.messages: Counter[str] = Counter()
        self.octets: Counter[str] = Counter()
        self.load: Counter[str] = Counter()
        self.work: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.nodes: dict[str, DirectoryNode] = {}
        self._disks: dict[str, tuple[list[Registration], list[MemberRecord]]] = {}
        self._open: Counter[DirectoryNode] = Counter()
        self._count = 0
        self.chance = random.Random(f"directory {options.seed} {options.gateways}")
        self.fleet = HeadedFleet(options.gateways, options.seed, DEGREE, tenant_of=self._tenant_of)
        self.fleet.start_all()
        for node in self.nodes.values():
            for _ in range(ENDPOINTS):
                self.register(node, LONG_S)
            node.tell()
        records = [node.record for node in self.nodes.values()]
        for node in self.nodes.values():  # it is not the first start of a fleet that is asked about
            for record in records:
                node.members.update(record)

    @property
    def now(self) -> float:
        """Virtual time, seconds."""
        return self.fleet.clock.now

    # -- of the nodes ----------------------------------------------------------------------------

    def _tenant_of(self, gateway_id: str) -> DirectoryNode:
        registrations, known = self._disks.get(gateway_id, ([], []))
        record = self.fleet.records[gateway_id]
        node = self.nodes[gateway_id] = self.node_type(self, record, registrations, known)
        return node

    def crossed(self, gateway_id: str, kind: str, octets: int) -> None:
        """Count a message that a gateway puts on a link."""
        self.messages[kind] += 1
        self.octets[kind] += octets
        self.load[gateway_id] += 1

    def worked(self, gateway_id: str) -> None:
        """Count a request that a gateway executes."""
        self.work[gateway_id] += 1

    def violated(self, invariant: int, what: str) -> None:
        """Note a violation."""
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(Violation(invariant, self.now, what, self.options.replay))

    # -- what clients and devices do -------------------------------------------------------------

    def register(self, node: DirectoryNode, lifetime_s: int) -> str:
        """Register a new device; return its endpoint."""
        self._count += 1
        own = node.record.id
        endpoint = f"{own}.{self._count}"
        kind = f"kind-{kind_of(endpoint)}"
        links = [WebLink(f"/{endpoint}", (("rt", kind),))]
        node.register(endpoint, links, lifetime_s, base=base_of(endpoint))
        self.ledger.registered(own, endpoint, self.now, self.now + lifetime_s)
        return endpoint

    def look_up(
        self, node: DirectoryNode, *parameters: str, told: Callable[[list[WebLink]], None]
    ) -> None:
        """Somebody looks up resources, and the answer is checked."""
        own = node.record.id

        def came(text: str) -> None:
            self._open[node] -= 1
            self.done["look-ups"] += 1
            links = parse(text.encode())
            for invariant, what in self.ledger.wrong(links, self.now):
                self.violated(invariant, f"{own} asked {parameters}: {what}")
            told(links)

        self._count += 1
        if node.look_up(list(parameters), came, host=f"client {self._count}"):
            self._open[node] += 1

    def write(self, node: DirectoryNode, target: str) -> None:
        """Somebody writes to an actuator, and the answer is checked."""
        self._count += 1
        body = b"%d" % self._count

        def told(response: ResourceResponse | None) -> None:
            self._open[node] -= 1
            self._answered(target, response)

        self._open[node] += 1
        node.ask(target, ResourceRequest("PUT", ACTUATOR, payload=body), told)

    def ask_many(self, node: DirectoryNode, place: tuple[str, str]) -> None:
        """Somebody asks all gateways of a place, and the answers are checked."""

        def done(answers: list[tuple[str, ResourceResponse | None]]) -> None:
            self._open[node] -= 1
            for target, response in answers:
                self._answered(target, response)

        self._open[node] += 1
        node.ask_many(place, ResourceRequest("GET", ACTUATOR), done)

    def _answered(self, target: str, response: ResourceResponse | None) -> None:
        self.done["no answers" if response is None else "answers"] += 1
        if response is not None and response.is_success and response.payload != target.encode():
            self.violated(10, f"{target} was asked, and {response.payload!r} came")

    # -- what goes wrong -------------------------------------------------------------------------

    def kill(self, gateway_id: str) -> None:
        """Let a gateway's power fail; what it had on disk it has when it comes back."""
        node = self.nodes.pop(gateway_id)
        self._open.pop(node, None)  # who waited there is gone with it
        self._disks[gateway_id] = (list(node.registry.registrations()), list(node.members))
        self.fleet.records[gateway_id] = node.record
        self.fleet.kill(gateway_id)

    def start(self, gateway_id: str) -> None:
        """Let it come back."""
        if gateway_id not in self.nodes:
            self.fleet.start(gateway_id)

    def _cut(self, edges: list[Edge], for_s: float) -> None:
        for edge in edges:
            self.fleet.network.cut(edge)
            self._later(for_s, partial(self.fleet.network.heal, edge))

    def _later(self, delay_s: float, what: Callable[[], None]) -> None:
        self.fleet.clock.at(self.now + delay_s, what)

    # -- a run -----------------------------------------------------------------------------------

    def run(self) -> Report:
        """Settle, let things happen, and see whether all agree when nothing happens any more."""
        self.fleet.run(SETTLE_S)
        end_s = self.now + STORM_S
        self._storm(end_s)
        self.fleet.run(STORM_S)
        for edge in self.fleet.network.edges:
            self.fleet.network.heal(edge)
        for gateway_id in self.fleet.records:
            self.start(gateway_id)
        self.fleet.run(PEACE_S)
        if waiting := self._open.total():
            self.violated(9, f"{waiting} wait for ever")
        return Report(
            self.options,
            tuple(self.after_peace()),
            0.0,
            0,
            self.messages.total(),
            self.fleet.clock.events,
            self.faults.total(),
            self.done.total(),
        )

    def _storm(self, end_s: float) -> None:
        if self.now >= end_s:
            return
        self._step()
        self._later(self.chance.expovariate(STEPS_PER_S), partial(self._storm, end_s))

    def _step(self) -> None:
        draw = self.chance
        node = self.nodes[draw.choice(sorted(self.nodes))]
        (step,) = draw.choices(tuple(_STEPS), tuple(_STEPS.values()))
        match step:
            case "look up":
                scope = draw.choice(("group", "domain", "all", "all"))
                kind = [f"rt=kind-{draw.randrange(KINDS)}"] if draw.random() < 0.5 else []
                part = ["count=5", "page=1"] if draw.random() < 0.2 else []
                asked = (f"scope={scope}", *kind, *part)
                self.look_up(node, *asked, told=lambda _links: None)
            case "register":
                self.register(node, draw.choice((60, LONG_S)))
            case "remove":
                self._remove(node)
            case "write":
                self.write(node, draw.choice(sorted(self.fleet.records)))
            case "ask many":
                self.ask_many(node, (f"d{draw.randrange(DOMAINS)}", "*"))
            case _:
                self.faults[step] += 1
                self._fail(step, node)

    def _remove(self, node: DirectoryNode) -> None:
        there = sorted(node.registry.registrations(), key=lambda one: one.location)
        if there:
            gone = self.chance.choice(there)
            node.registry.remove(gone.location, self.now)
            self.ledger.removed(node.record.id, gone.endpoint, self.now)

    def _fail(self, step: str, node: DirectoryNode) -> None:
        draw, gateway_id = self.chance, node.record.id
        match step:
            case "kill" if len(self.nodes) > 2:
                self.kill(gateway_id)
                self._later(draw.uniform(0.5, 20.0), partial(self.start, gateway_id))
            case "cut":
                self._cut([draw.choice(self.fleet.network.edges)], draw.uniform(0.1, 15.0))
            case "part":
                one_side = set(draw.sample(sorted(self.fleet.records), len(self.nodes) // 2))
                between = [
                    edge
                    for edge in self.fleet.network.edges
                    if (edge.ids[0] in one_side) != (edge.ids[1] in one_side)
                ]
                self._cut(between, draw.uniform(3.0, 12.0))
            case "move":
                place = Place(f"d{draw.randrange(DOMAINS)}", f"g{draw.randrange(GROUPS)}")
                node.move(place)
                self.fleet.records[gateway_id] = replace(
                    self.fleet.records[gateway_id], domain=place.domain, group=place.group
                )

    # -- after peace -----------------------------------------------------------------------------

    def after_peace(self) -> list[Violation]:
        """Return all violations, with those that are found now that nothing happens any more."""
        self._check_peace()
        return self.violations

    def _check_peace(self) -> None:
        askers = sorted(self.nodes)
        if len(askers) > ASKERS:
            askers = self.chance.sample(askers, ASKERS)
        records = {one.record.id: one.record for one in self.nodes.values()}
        able = {name: one for name, one in records.items() if one.capability > 0}
        checks: list[_Expected] = []
        for gateway_id in askers:
            node, place = self.nodes[gateway_id], records[gateway_id].place
            ways = {name: f"/q/{of.prefix}" for name, of in records.items()} | {gateway_id: ""}
            if not self.tells_ways:
                ways = dict.fromkeys(records, "")
            if {record.id: record for record in node.members} != records:
                self.violated(9, f"{gateway_id} has other records than their gateways")
            in_domain = [one for one, of in able.items() if of.domain == place.domain]
            in_group = [one for one in in_domain if able[one].group == place.group]
            for asked, within in (
                (("scope=all",), list(able)),
                (("scope=domain",), in_domain),
                (("scope=group",), in_group),
                (("scope=all", "rt=kind-0"), list(able)),
            ):
                kinds = {0} if len(asked) > 1 else set(range(KINDS))
                due, may = (
                    {one for one in self.ledger.at(within, self.now, s) if kind_of(one) in kinds}
                    for s in (ASKING_S, 0.0)
                )
                checks.append(_Expected(f"{gateway_id} asked {asked}", ways, due, may))
                self.look_up(node, *asked, told=checks[-1].found.append)
        self.fleet.run(ASKING_S)
        for expected in checks:
            for what in expected.wrong():
                self.violated(9, f"{expected.who}: {what}")


@dataclass(frozen=True, slots=True)
class _Expected:
    """A look-up after peace: what it has to find, what may be expiring, and what came.

    Each link of a gateway's own has to begin with the way to it, by its id in `ways`.
    """

    who: str
    ways: dict[str, str]
    due: set[str]
    may: set[str]
    found: list[list[WebLink]] = field(default_factory=list)

    def wrong(self) -> Iterator[str]:
        """Yield what is wrong with it."""
        if not self.found:
            yield "no answer"
            return
        told = [endpoint_of(link) for link in self.found[0]]
        if len(told) != len(set(told)):
            yield "something is told twice"
        lacks, extra = sorted(self.due - set(told))[:3], sorted(set(told) - self.may)[:3]
        if lacks or extra:
            yield f"it lacks {lacks} and has {extra} too much"
        if any(link.get(STALE) for link in self.found[0]):
            yield "something is stale"
        for link, endpoint in zip(self.found[0], told, strict=True):
            if endpoint not in self.may or base_of(endpoint) != OWN:
                continue
            if link.href != f"{self.ways[owner_of(endpoint)]}/{endpoint}":
                yield f"the way to {endpoint} is {link.href}"


def kind_of(endpoint: str) -> int:
    """Return the number of an endpoint's kind."""
    return int(endpoint.rpartition(".")[2]) % KINDS


def base_of(endpoint: str) -> str:
    """Return where an endpoint is served: one of three by its gateway."""
    return DEVICE if int(endpoint.rpartition(".")[2]) % 3 else OWN


def run(options: DirectoryOptions) -> Report:
    """Run one fleet."""
    return DirectoryWorld(options).run()
