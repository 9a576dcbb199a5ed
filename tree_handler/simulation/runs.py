"""A network of gateways in virtual time, and the proof that the tree keeps its invariants.

`run` drives the very classes that run in production (here `SpanningTree` and `Replication`; other
subjects add theirs) through starts, delays, crashes, restarts with and without a disk, cuts, loss,
full links, full disks, clocks that run wrong and repairs that all follow from one seed. Invariant 1
(no ring of live links) is checked at each instant at which a link starts to forward, 4 and 5
(nothing twice, each origin's messages in its order) at each message that is handed out, 6 (bounded)
after each event of a gateway; 2 (one tree with the right root), 3 (nothing lost) and 7 (a still
network sends only HELLOs) after a quiet time.

This is the only module family of the package that draws random numbers, and only from the
``random.Random`` that it seeds. A run that fails is replayed by its seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial
from typing import ClassVar, Self

from mypy_extensions import mypyc_attr

from light_dataclasses import dataclass
from tree_handler import boot_epoch
from tree_handler.simulation.checks import Checks, StillWindow, astray, usable_paths
from tree_handler.simulation.faults import FaultOptions, Faults
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.local_time import LocalClock
from tree_handler.simulation.network import Clock, Edge, Network
from tree_handler.simulation.replaying import replay_call
from tree_handler.simulation.report import Report
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.spanning_tree import Identity, Parameters, SpanningTree

FULL_MESH_AT_MOST = 12
"""Larger networks are drawn with a few neighbours for each gateway only."""
STILL_INTERVALS = 4
"""Hello intervals at the end of a run in which nothing but HELLOs may be sent: long enough for
two summaries of replication."""
BATCHES_PER_S = 10.0
"""Batches that a large network accepts in a second, all gateways together."""
HASTY = 0.75
"""So many of the drawn runs end early; the others would see what comes late."""
TRIMS = 0.25
"""So many of the drawn runs have logs that drop their oldest; the others lose nothing."""
SOUGHT_S = 80.0
"""Within this time what such logs have dropped was sought, and given up."""
LOG_BATCHES = 12
"""The number of batches that such a log keeps."""
LONGEST_UP_S = 1e6
"""A gateway's monotonic clock shows at most this when it starts."""


@dataclass(frozen=True, slots=True)
class Options:
    """One run; each subject of simulation has a class of its own.

    Attributes:
        subject: what `hedgerow simulate` calls what is simulated.
        seed: all chance of the run follows from it.
        gateways: how many are drawn; a test may add some of its own.
        leaves: how many of them are leaves, as a collector is.
        degree: mean number of neighbours; 0 for a full mesh.
        delay_ms: usual one-way delay.
        jitter_ms: standard deviation of a delay on such an edge.
        spread: an edge may be this many times nearer or farther than usual.
        redial_s: mean time until a gateway dials a neighbour to which it has no link.
        start_s: the gateways start within this time.
        faults_s: how long things break.
        quiet_s: nothing breaks afterwards, and within this time the network must be still.
        traffic_per_s: batches of messages that each gateway accepts in a second.
        log_batches: a log is trimmed when it has more; 0 for never, or where a subject trims.
        hasty: end as soon as the network has found its peace, well before ``settle_hellos``.
        skew: a gateway's clock is wrong by this fraction at most.
        settle_hellos: invariant 2 must hold within so many hello intervals of the quiet time.
        faults: what breaks.
        parameters: of all gateways.

    """

    seed: int
    gateways: int = 5
    leaves: int = 0
    degree: float = 0.0
    delay_ms: float = 2.0
    jitter_ms: float = 0.5
    spread: float = 1.5
    redial_s: float = 0.25
    start_s: float = 0.2
    faults_s: float = 4.0
    quiet_s: float = 40.0
    traffic_per_s: float = 2.0
    log_batches: int = 0
    hasty: bool = False
    skew: float = 0.0
    settle_hellos: int = 14
    faults: FaultOptions = field(default_factory=FaultOptions)
    parameters: Parameters = field(default_factory=Parameters)

    @property
    def subject(self) -> str:
        """Return what is simulated, as `hedgerow simulate --subject` has it."""
        return "tree"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed: sparse or dense, near or far, calm or stormy."""
        return cls.any_network(seed, gateways)

    @classmethod
    def any_network(cls, seed: int, gateways: int) -> Self:
        """Return what is drawn alike for subjects that do not draw all of it themselves."""
        chance = random.Random(f"options {seed} {gateways}")  # a seed, no secret
        delay_ms = chance.choice((0.2, 2.0, 10.0, 30.0))
        disks = random.Random(f"disks {seed} {gateways}") if cls is Options else None
        mesh = gateways <= FULL_MESH_AT_MOST and chance.random() < 0.5
        drawn = cls(
            seed,
            gateways,
            leaves=1 if gateways > 2 and chance.random() < 0.3 else 0,
            degree=0.0 if mesh else chance.choice((2.2, 3.0, 4.0)),
            delay_ms=delay_ms,
            jitter_ms=delay_ms * chance.choice((0.0, 0.1, 0.25)),
            spread=chance.choice((1.0, 1.5, 5.0)),
            traffic_per_s=min(2.0, BATCHES_PER_S / max(1, gateways)),
            hasty=chance.random() < HASTY,
            skew=chance.choice((0.0, 0.0003, 0.01)),
            faults=FaultOptions.drawn(chance, disks),
            log_batches=LOG_BATCHES if cls is Options and chance.random() < TRIMS else 0,
        )
        return replace(drawn, quiet_s=SOUGHT_S) if drawn.log_batches else drawn

    def simulation(self, make_tree: MakeTree = SpanningTree) -> Simulation:
        """Return the network that they describe."""
        return Simulation(self, make_tree)

    @property
    def replay(self) -> str:
        """Return how to run this again: a command if the options are those drawn from the seed."""
        if self == self.drawn(self.seed, self.gateways):
            subject = "" if self.subject == "tree" else f" --subject {self.subject}"
            same = f"--seed {self.seed} --gateways {self.gateways} --runs 1"
            return f"hedgerow simulate{subject} {same}"
        return replay_call(self, self.seed)


def run(options: Options, make_tree: MakeTree = SpanningTree) -> Report:
    """Run one network from start to quiet.

    Args:
        options: the run.
        make_tree: makes the tree of each life of a gateway.

    """
    simulation = options.simulation(make_tree)
    simulation.start_all()
    simulation.storm()
    return simulation.calm()


def drawn_size(seed: int, fewest: int, most: int) -> int:
    """Return how many gateways a seed's network has.

    As many small networks as large ones per octave.
    """
    if fewest >= most:
        return fewest
    octaves = random.Random(f"size {seed}").uniform(math.log(fewest), math.log(most + 1))
    return min(most, int(math.exp(octaves)))


def run_many(
    runs: int, gateways: int, seed: int, subject: type[Options] = Options
) -> Iterator[Report]:
    """Run the options drawn from the seeds ``seed``, ``seed + 1``, ... one after the other."""
    for number in range(seed, seed + runs):
        yield run(subject.drawn(number, gateways))


@mypyc_attr(allow_interpreted_subclasses=True)
class Simulation:
    """One network; `run` goes through its phases, a test may do other things in between.

    Another subject has a subclass, which makes other traffic or other gateways and checks more.

    Args:
        options: the run.
        make_tree: makes the tree of each life of a gateway.

    """

    traffic_of: ClassVar[type[SimulatedTraffic]] = SimulatedTraffic
    """The class of the network's messages."""

    def __init__(self, options: Options, make_tree: MakeTree = SpanningTree) -> None:
        self.options = options
        self.clock = Clock()
        self._random = random.Random(options.seed)
        self.network = Network(self.clock, self._random)
        self.checks = self.make_checks()
        self.gateways: dict[str, Gateway] = {}
        """The present lives, by id; a gateway that is down is not in it."""
        self._make_tree = make_tree
        self._rates: dict[str, float] = {}
        self.traffic = self.traffic_of(self.clock, self.checks, options.traffic_per_s, self._random)
        self.traffic.log_batches = options.log_batches
        self._identities = self._draw_identities()
        self.network.edges = self._draw_edges()
        self.faults = Faults(
            options.faults,
            self.clock,
            self.network,
            self.gateways,
            start=self.start,
            traffic=self.traffic,
            random_=self._random,
        )

    def make_checks(self) -> Checks:
        """Return what looks whether the invariants hold."""
        return Checks(self.clock, self.options.replay)

    def add(
        self, gateway_id: str, capability: float, address: str, *, transit: bool = True
    ) -> None:
        """Add a gateway that is down; its edges are the caller's to add to ``network.edges``."""
        identity = Identity(gateway_id, 0, capability, address, transit=transit)
        self._identities[gateway_id] = identity

    def start_all(self) -> None:
        """Start all gateways, one after the other, and let them dial."""
        for gateway_id in self._identities:
            start_s = self._random.uniform(0, self.options.start_s)
            self.clock.at(start_s, partial(self.start, gateway_id))
        for edge in self.network.edges:
            self._redial(edge)
        self.clock.run(self.options.start_s)

    def storm(self) -> None:
        """Let things break for a while."""
        end_s = self.clock.now + self.options.faults_s
        self.faults.begin(end_s)
        self.traffic.begin(self.gateways, end_s)
        self.clock.run(end_s)
        self.faults.end()

    def calm(self) -> Report:
        """Let nothing break any more, and see whether the network finds its peace.

        Delays stand still from here on: whether jitter is borne is asked before.
        """
        clock, checks, options = self.clock, self.checks, self.options
        for edge in self.network.edges:
            edge.jitter_s = 0.0
        hello_s = options.parameters.hello_s
        settled_s = clock.now + options.settle_hellos * hello_s
        end_s = clock.now + options.quiet_s
        still_s = STILL_INTERVALS * hello_s
        while True:
            window, sent_before = StillWindow.begins(checks, self.gateways), self.traffic.sent
            clock.run(clock.now + still_s)
            is_still = window.is_still(checks, self.gateways) and not self.network.is_carrying()
            is_still = is_still and self.traffic.sent == sent_before
            if options.hasty and is_still and self._is_at_peace():
                break
            if clock.now >= settled_s:
                self._check_one_tree()
            if clock.now >= end_s:
                break
            # What a slow edge has held up may wait for the next round of repairs.
            is_over = is_still and clock.now >= settled_s
            if is_over and not self.traffic.missing(self.gateways, self.network):
                break
        window.check_quiet(checks, self.gateways, STILL_INTERVALS)
        self.traffic.check_quiet(sent_before)
        self.traffic.check_nothing_open(self.gateways)
        self.traffic.check_all_arrived(self.gateways, self.network)
        self.check_more()
        return Report(
            options,
            tuple(checks.violations),
            max(0.0, checks.last_change_s - self.faults.last_s),
            checks.said[Kind.HELLO],
            checks.said.total(),
            clock.events,
            self.faults.kinds.total(),
            self.traffic.published,
            self.traffic.forgotten,
        )

    def check_more(self) -> None:
        """Check what else a subject promises of a network that has found its peace."""

    def _is_at_peace(self) -> bool:
        """Return whether nothing is left to come but HELLOs, as far as can be told from outside."""
        paths = usable_paths(self.gateways, self.network)
        linked: dict[str, set[str]] = {gateway_id: set() for gateway_id in self.gateways}
        for connection in self.network.connections:
            if not all(end.open for end in connection.ends):
                return False
            for end in connection.ends:
                linked[end.host.gateway_id].add(end.peer.host.gateway_id)
        return (
            linked == paths
            and not astray(self.gateways, self.network)
            and not self.traffic.missing(self.gateways, self.network)
        )

    def _check_one_tree(self) -> None:
        for what in astray(self.gateways, self.network):
            self.checks.found(2, what)

    def start(self, gateway_id: str) -> None:
        """Start the next life of a gateway that is down, as its disk has it."""
        chance, disk = self._random, self.traffic.disks[gateway_id]
        if disk.boot_epoch is None:
            disk.boot_epoch = boot_epoch.first(chance.getrandbits(64))
        else:
            disk.boot_epoch += 1
        own = replace(self._identities[gateway_id], boot_epoch=disk.boot_epoch)
        identity = self.traffic.standing(own)
        rate = self._rates.setdefault(gateway_id, 1 + self.options.skew * chance.uniform(-1, 1))
        local = LocalClock(rate, chance.uniform(0, LONGEST_UP_S) if self.options.skew else 0.0)
        by = self.tree_clock(local)
        tree = self._make_tree(identity, self.options.parameters, by.reading(self.clock.now))
        start = Start(tree, self.clock, self.network, self.checks, local, self._outlived, by)
        gateway = self.make_gateway(start)
        gateway.begin()
        self.gateways[gateway_id] = gateway

    def tree_clock(self, local: LocalClock) -> LocalClock:
        """Return what the tree of a gateway goes by."""
        return local

    def make_gateway(self, start: Start) -> Gateway:
        """Return what runs around the tree of a gateway that starts."""
        return self.traffic.gateway(start)

    def _outlived(self, gateway: Gateway, epoch: int) -> None:
        """Start a gateway again that lost its disk and took an epoch that is not its latest."""
        disk = self.traffic.disks[gateway.gateway_id]
        later = max(epoch, disk.boot_epoch or 0)
        disk.boot_epoch = boot_epoch.behind(later, self._random.getrandbits(64)) - 1
        self.clock.at(self.clock.now, partial(self._start_again, gateway))

    def _start_again(self, gateway: Gateway) -> None:
        if gateway.alive:
            gateway.stop(silently=False)
            self.start(gateway.gateway_id)

    def _draw_identities(self) -> dict[str, Identity]:
        options, chance = self.options, self._random
        identities = {}
        for number in range(options.gateways):
            leaf = number >= options.gateways - options.leaves
            identities[f"gw-{number}"] = Identity(
                f"gw-{number}",
                0,
                0.0 if leaf else float(chance.choice((1, 2, 2, 3, 5))),
                f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}",
                transit=not leaf,
            )
        return identities

    def _draw_edges(self) -> list[Edge]:
        options, chance = self.options, self._random
        ids = list(self._identities)
        if options.degree == 0:
            pairs = {(a, b) for i, a in enumerate(ids) for b in ids[i + 1 :]}
        else:
            pairs = {(chance.choice(ids[:i]), ids[i]) for i in range(1, len(ids))}
            most = len(ids) * (len(ids) - 1) // 2
            while len(pairs) < min(most, options.degree * len(ids) / 2):
                first, second = sorted(chance.sample(range(len(ids)), 2))
                pairs.add((ids[first], ids[second]))
        delay_s, jitter_s = options.delay_ms / 1000, options.jitter_ms / 1000
        edges = []
        for pair in sorted(pairs):
            near_or_far = options.spread ** chance.uniform(-1, 1)
            edges.append(Edge(pair, delay_s * near_or_far, jitter_s * near_or_far))
        return edges

    def _redial(self, edge: Edge) -> None:
        """Dial over an edge from either side now and then, where a gateway misses a link; no more
        when it was taken out."""
        if edge not in self.network.edges:
            return
        dialler_id, other_id = edge.ids if self._random.random() < 0.5 else edge.ids[::-1]
        dialler = self.gateways.get(dialler_id)
        if (
            dialler is not None
            and dialler.paused_until_s <= self.clock.now
            and not dialler.is_linked(edge)
        ):
            self.network.dial(edge, dialler, lambda: self.gateways.get(other_id))
        wait_s = self._random.uniform(0.5, 1.5) * self.options.redial_s
        self.clock.at(self.clock.now + wait_s, lambda: self._redial(edge))
