"""The same work for a simulated fleet whose gateways are asked, and one whose heads keep digests.

Changes, look-ups, a mix of both, the death of heads, and whether all agree after peace. What is
done, where and when follows from the seed and the size alone, so both ways do the same.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from benchmarks.digest_deaths import Death, die
from benchmarks.digest_keepers import WHOLE, Keepers, Scope, scopes_of
from benchmarks.digest_node import DigestNode
from gateway.coap.fleet_directory.kept import FRESH_S
from gateway.tools.directory_simulation.ledger import endpoint_of
from gateway.tools.directory_simulation.node import DirectoryNode
from gateway.tools.directory_simulation.world import (
    KINDS,
    LONG_S,
    PEACE_S,
    SETTLE_S,
    DirectoryOptions,
    DirectoryWorld,
)
from resource_directory.digest import AFTER_S, EVERY_S
from resource_directory.link_format import WebLink
from resource_directory.scoped import GATEWAY
from tree_handler.simulation.growth import deep_bytes

ASKED, DIGESTS = "asked", "digests"
STEP_S: Final = 0.005
PATIENCE_S: Final = 30.0
TOLD_S: Final = AFTER_S + 2.0
"""So long after a change all are told of it that are to be."""
LOOK_UPS: Final = {
    "group": ("scope=group",),
    "domain": ("scope=domain",),
    "all": ("scope=all",),
    "all, one has it": ("scope=all", "rt=new-kind-0"),
    "all, a twelfth has it": ("scope=all", "rt=kind-3"),
}
MIX: Final = {"group": 5, "domain": 2, "all, a twelfth has it": 2, "all": 1}
"""Look-ups of the mix, beside each other."""


class DigestWorld(DirectoryWorld):
    """A fleet whose heads keep digests."""

    node_type: ClassVar[type[DirectoryNode]] = DigestNode
    tells_ways: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The amount of work that is measured.

    Attributes:
        changes: registrations that come, and go.
        askers: gateways that look up each kind.
        mix_s: virtual seconds of the mix.
        per_change: look-ups of it for each change.
        hourly: changes at each gateway in an hour.

    """

    changes: int
    askers: int
    mix_s: float
    per_change: int = 3
    hourly: float = 1.0


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of some work.

    Attributes:
        messages: over links, each counted on each link.
        octets: of them.
        seconds: of virtual time.
        busiest: messages that the busiest gateway put on links.

    """

    messages: float
    octets: float
    seconds: float = 0.0
    busiest: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """All of one way at one size.

    Attributes:
        way: `ASKED` or `DIGESTS`.
        gateways: their number.
        start: until all is told that there is in the beginning.
        coming: one registration that is new.
        going: one that is removed.
        look_ups: one, by kind, in the mean.
        named: the endpoints that each look-up found, and their gateways.
        mix: all of the mix.
        mixed_s: virtual seconds of the mix.
        characters: of digests at the gateway with most of them, of others than itself.
        memory: bytes of these there.
        deaths: of heads.
        wrong: faults that were there after peace.

    """

    way: str
    gateways: int
    start: Spent
    coming: Spent
    going: Spent
    look_ups: dict[str, Spent]
    named: dict[str, list[frozenset[tuple[str, str]]]]
    mix: Spent
    mixed_s: float
    characters: int
    memory: int
    deaths: list[Death]
    wrong: list[str]


def measure(way: str, gateways: int, seed: int, plan: Plan) -> Figures:
    """Let one fleet do the work in one way."""
    options = DirectoryOptions(seed, gateways)
    work = _Work((DigestWorld if way == DIGESTS else DirectoryWorld)(options), plan)
    start = work.spent(lambda: work.world.fleet.run(SETTLE_S + AFTER_S + EVERY_S + TOLD_S))
    coming, going = work.changes()
    look_ups, named = work.look_ups()
    mix = work.mix()
    characters, memory = work.memory()
    deaths = work.deaths()
    return Figures(
        *(way, gateways, start, coming, going, look_ups, named, mix, plan.mix_s),
        *(characters, memory, deaths, work.peace()),
    )


class _Work:
    def __init__(self, world: DirectoryWorld, plan: Plan) -> None:
        self.world = world
        self._plan = plan
        self._chance = random.Random(f"work {world.options.seed} {len(world.nodes)}")
        self._able = sorted(n for n, node in world.nodes.items() if node.record.capability > 0)
        self._changers = self._sample(self._able, plan.changes)
        self._askers = self._sample(sorted(world.nodes), plan.askers)
        self._new = 0

    def _sample(self, names: list[str], most: int) -> list[str]:
        return self._chance.sample(names, min(most, len(names)))

    def spent(self, do: Callable[[], object], parts: int = 1) -> Spent:
        """Do something; return its cost, in the mean of its parts."""
        world = self.world
        messages, octets, began_s = world.messages.total(), world.octets.total(), world.now
        load = Counter(world.load)
        do()
        return Spent(
            (world.messages.total() - messages) / parts,
            (world.octets.total() - octets) / parts,
            (world.now - began_s) / parts,
            max((world.load - load).values(), default=0),
        )

    # -- changes and look-ups, one at a time -----------------------------------------------------

    def changes(self) -> tuple[Spent, Spent]:
        """Register once at each of some gateways, and remove it later."""
        world, placed = self.world, list[tuple[str, str]]()

        def come() -> None:
            for name in self._changers:
                placed.append((name, self.register(name, f"new-kind-{len(placed)}")))
                world.fleet.run(TOLD_S)

        def go() -> None:
            for name, endpoint in placed[1:]:  # the first is looked up later
                self.remove(name, endpoint)
                world.fleet.run(TOLD_S)

        coming = self.spent(come, len(self._changers))
        world.fleet.run(AFTER_S + EVERY_S)
        return coming, self.spent(go, max(1, len(self._changers) - 1))

    def register(self, name: str, kind: str) -> str:
        """Register a device; return its endpoint."""
        self._new += 1
        endpoint = f"{name}.{KINDS * (10**6 + self._new) + 1}"  # never of kind 0, nor 3
        links = [WebLink(f"/{endpoint}", (("rt", kind),))]
        self.world.nodes[name].register(endpoint, links, LONG_S)
        self.world.ledger.registered(name, endpoint, self.world.now, self.world.now + LONG_S)
        return endpoint

    def remove(self, name: str, endpoint: str) -> None:
        """A device is there no more."""
        registry = self.world.nodes[name].registry
        (location,) = [o.location for o in registry.registrations() if o.endpoint == endpoint]
        registry.remove(location, self.world.now)
        self.world.ledger.removed(name, endpoint, self.world.now)

    def look_ups(self) -> tuple[dict[str, Spent], dict[str, list[frozenset[tuple[str, str]]]]]:
        """Return each kind of look-up, from each asker."""
        costs, named = dict[str, Spent](), dict[str, list[frozenset[tuple[str, str]]]]()
        for kind, asked in LOOK_UPS.items():
            found: list[list[WebLink]] = []
            each = [self.spent(partial(self._look_up, a, asked, found)) for a in self._askers]
            count = len(each)
            costs[kind] = Spent(
                sum(one.messages for one in each) / count,
                sum(one.octets for one in each) / count,
                sum(one.seconds for one in each) / count,
                max(one.busiest for one in each),
            )
            named[kind] = [
                frozenset((endpoint_of(link), link.get(GATEWAY) or "") for link in links)
                for links in found
            ]
        return costs, named

    def _look_up(self, name: str, asked: tuple[str, ...], found: list[list[WebLink]]) -> None:
        world, before = self.world, len(found)
        world.look_up(world.nodes[name], *asked, told=found.append)
        until_s = world.now + PATIENCE_S
        while len(found) == before and world.now < until_s:
            world.fleet.run(STEP_S)

    # -- many at a time --------------------------------------------------------------------------

    def mix(self) -> Spent:
        """Changes and look-ups at drawn times; half of the changes are of what came before."""
        world, plan, draw = self.world, self._plan, self._chance
        world.fleet.run(FRESH_S + STEP_S)
        changes = max(2, round(len(world.nodes) * plan.hourly * plan.mix_s / 3600))
        placed: list[tuple[str, str]] = []

        def change(name: str, is_new: bool) -> None:
            if is_new or not placed:
                placed.append((name, self.register(name, f"kind-{1 + self._new % 2}")))
            else:
                self.remove(*placed.pop(0))

        def look_up(name: str, kind: str) -> None:
            world.look_up(world.nodes[name], *LOOK_UPS[kind], told=lambda _: None)

        for number in range(changes):
            at_s, name = world.now + draw.uniform(0, plan.mix_s), draw.choice(self._able)
            world.fleet.clock.at(at_s, partial(change, name, number % 2 == 0))
        kinds = [kind for kind, share in MIX.items() for _ in range(share)]
        names = sorted(world.nodes)
        for number in range(changes * plan.per_change):
            at_s, name = world.now + draw.uniform(0, plan.mix_s), draw.choice(names)
            kind = kinds[number % len(kinds)]
            world.fleet.clock.at(at_s, partial(look_up, name, kind))
        return self.spent(lambda: world.fleet.run(plan.mix_s + TOLD_S))

    def memory(self) -> tuple[int, int]:
        """Return characters and bytes of digests at the gateway that has most."""
        most = (0, 0)
        for node in self.world.nodes.values():
            if isinstance(node, DigestNode):
                characters, kept = node.copies.weighed(node.keeps())
                if characters > most[0]:
                    most = characters, deep_bytes(kept)
        if most == (0, 0):
            node = self.world.nodes[self._able[0]]
            digests = [record.offers for record in node.members]
            most = sum(map(len, digests)), deep_bytes(digests)
        return most

    # -- what goes wrong -------------------------------------------------------------------------

    def deaths(self) -> list[Death]:
        """Return the head of the largest group, or domain, and that of all die, and come back."""
        found: list[Death] = []
        view = self.world.nodes[self._able[0]].members
        keepers = Keepers.seen_by(view)
        sizes: Counter[Scope] = Counter()
        for record in view:
            if record.capability > 0:
                sizes.update(scopes_of(record.place))
        scopes = [scope for scope, size in sizes.items() if size > 2]
        narrow = max(scopes, key=lambda s: (s[1] != "", s != WHOLE, sizes[s], s))
        for scope in (narrow, WHOLE):
            what = "group" if scope[1] else "domain" if scope[0] else "all"
            found.append(die(self.world, what, scope, keepers.of_scope[scope][0], self._chance))
        return found

    def peace(self) -> list[str]:
        """Let nothing happen for a while; return what is wrong then."""
        self.world.fleet.run(PEACE_S)
        self.world.violations.clear()  # of the storm: what is told late is measured, not forbidden
        return [str(one) for one in self.world.after_peace()]
