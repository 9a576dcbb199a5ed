"""Years of a fleet in hours: what only time brings (`hedgerow simulate --subject years`).

Most of a year is still, so most of it is leapt over (`network.Clock.leap`): no tree sees that
time, for a tree in a still network is after any number of its hellos as it was before; all else
does, as if its timers had gone off late. Each week something happens, and is seen in full: gateways
restart, sleep, are cut off or off for days or months, renew their keys, leave for good and are
replaced; the power fails; clocks are wrong, and set right; disks cannot be read, or answer late;
lines carry 50 kB/s; everybody writes all the time.

What is checked, each week: in a still network nothing but HELLOs is sent, before and after what
happens (7); within a stated time all have what any of them has accepted, and retain the same, what
was deleted included (3); nobody gives up what somebody in reach has, readable or not (3); what was
lacking is asked for when a neighbour had been late (3). Each quarter, when all has been still for
two days, that tables are bounded by who there is (6, `years_tables`). And at every instant, that no
links form a ring (1) and that nothing is given to clients twice (4). Two things are not asked:

- What a gateway has that linked less than `years_traffic.LINKED_S` before another gave it up: the
  news that it is there was on its way.
- Whether what is kept of gateways that have gone for good is forgotten: some rows of each stay,
  for nobody knows that it will not come back (`years_tables.BY_STREAM`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Self

from light_dataclasses import dataclass
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.gateway import Gateway, MakeTree
from tree_handler.simulation.network import Edge
from tree_handler.simulation.replaying import replay_call
from tree_handler.simulation.report import Report
from tree_handler.simulation.retained import NOW_US
from tree_handler.simulation.runs import Options, Simulation
from tree_handler.simulation.years_fleet import AWAY_S, DAY_S, YearsFleet
from tree_handler.simulation.years_gateway import ORIGIN_GONE_S, YearsGateway
from tree_handler.simulation.years_traffic import LARGE
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.parameters import Parameters
from tree_handler.spanning.spanning_tree import SpanningTree

YEAR_S: Final = 365 * DAY_S
WEEKS: Final = 52
TABLES_EVERY: Final = 13
"""So many weeks apart all tables are looked at."""
FORGOTTEN_S: Final = 2 * ORIGIN_GONE_S
"""Before they are, nothing has happened for so long: what neighbours cannot prove is sought for a
day, and how much that is follows from how many lives of others they remember."""
RETAINED_HOP_S: Final = 45.0
"""Within this time a retained message must be one link farther, however much is written."""
SLOW_BYTES_PER_S: Final = 50_000.0
SLOW_S: Final = 300.0
"""Within this time a large message must have come over such a line."""
HAPPENINGS: Final = {
    "still": 14.0,
    "restart": 8.0,
    "power_cut": 2.0,
    "part": 8.0,
    "sleep": 5.0,
    "long_away": 2.0,
    "renew": 4.0,
    "come_and_go": 3.0,
    "unreadable": 3.0,
    "stalled": 3.0,
    "busy": 1.5,
    "slow": 1.5,
}
"""The events of a week, and how often each comes beside the rest."""


@dataclass(frozen=True, slots=True)
class YearsOptions(Options):
    """A run over years.

    Attributes:
        years: how many.
        weeks: so many of each year bring something; a test has fewer, with longer still ones
            between them.
        happening: what happens each week, in place of what is drawn.

    """

    years: int = 1
    weeks: int = WEEKS
    happening: str = ""

    @property
    def subject(self) -> str:
        """Return ``years``."""
        return "years"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Return the options of a seed: a calm network with a slow hello."""
        return cls(
            seed,
            gateways,
            degree=2.6,
            delay_ms=5.0,
            redial_s=2.0,
            start_s=4.0,
            traffic_per_s=0.0,
            faults=FaultOptions(rate_per_s=0.0),
            parameters=Parameters(hello_s=2.0),
        )

    @property
    def replay(self) -> str:
        """Return the command that runs this again."""
        if self == replace(self.drawn(self.seed, self.gateways), years=self.years):
            same = f"--seed {self.seed} --gateways {self.gateways} --runs 1 --years {self.years}"
            return f"hedgerow simulate --subject years {same}"
        return replay_call(self, self.seed)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> Simulation:
        """Return a simulation of years."""
        return YearsSimulation(self, make_tree)


class YearsSimulation(YearsFleet):
    """A simulation of years, week by week, with one happening in each."""

    def __init__(self, options: YearsOptions, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        self._weeks = options.years * options.weeks
        self._apart_s = YEAR_S / options.weeks
        self._only = options.happening
        self._newcomers = 0
        self._happenings: dict[str, Callable[[], None]] = {
            "still": lambda: None,
            "restart": self._restart,
            "power_cut": self._power_cut,
            "part": self._part,
            "sleep": self._sleep,
            "long_away": self._long_away,
            "renew": self._renew,
            "come_and_go": self._come_and_go,
            "unreadable": self._unreadable,
            "stalled": self._stalled,
            "busy": self._busy,
            "slow": self._slow,
        }

    def storm(self) -> None:
        """Live through the years, week by week."""
        self.traffic.begin(self.gateways, self.clock.now)
        self._settle("the first start")
        for gateway_id in sorted(self.gateways):  # what nobody ever writes again
            self._writes.write(
                self.gateways[gateway_id], f"for-years/{gateway_id}", b"written once"
            )
        self._pass(10.0)
        kinds, weights = list(HAPPENINGS), list(HAPPENINGS.values())
        for week in range(1, self._weeks + 1):
            kind = self._only or self._random.choices(kinds, weights)[0]
            self.faults.kinds[kind] += kind != "still"
            self._happenings[kind]()
            self._settle(kind)
            are_looked_at = week % TABLES_EVERY == 0 or week == self._weeks
            left_s = week * self._apart_s - self.clock.now
            self.clock.leap(max(FORGOTTEN_S if are_looked_at else 0.0, left_s))
            self._writes.expire(self.gateways)
            self._settle("a still week")
            if are_looked_at:
                self._writes.check_tables(self.gateways)

    def calm(self) -> Report:
        """Report; each week found its peace by itself."""
        checks, options = self.checks, self.options
        return Report(
            options,
            tuple(checks.violations),
            0.0,
            checks.said[Kind.HELLO],
            checks.said.total(),
            self.clock.events,
            self.faults.kinds.total(),
            self.traffic.published,
            self.traffic.forgotten,
        )

    # -- what happens --------------------------------------------------------------------------

    def _restart(self) -> None:
        """One gateway is off for a while, and the wall clock of its next life may be wrong, until
        it is set."""
        stopped = self._any()
        self._stop(stopped)
        self._write_some(self._random.uniform(0, 40))
        self._leap(self._some_time_s())
        self.start(stopped.gateway_id)
        self._write_some(5.0)
        gateway = self.gateways[stopped.gateway_id]
        assert isinstance(gateway, YearsGateway)
        gateway.set_clock(NOW_US)
        self._write_some(5.0)

    def _power_cut(self) -> None:
        stopped = sorted(self.gateways)
        self._write_some(5.0)
        for gateway_id in stopped:
            self.gateways.pop(gateway_id).stop(silently=True)
        self._leap(self._some_time_s())
        for gateway_id in stopped:
            self.start(gateway_id)
        self._pass(20.0)
        self._write_some(5.0)

    def _part(self) -> None:
        """One gateway is cut off, and on both sides clients go on."""
        gateway = self._any()
        cut = self._cut_off(gateway.gateway_id)
        self._write_some(10.0, [gateway])
        self._write_some(10.0)
        self._leap(self._some_time_s())
        self._heal(cut)
        self._write_some(5.0)

    def _sleep(self) -> None:
        """One machine is suspended, and the others find that it does not answer."""
        gateway = self._any()
        gateway.paused_until_s = self.clock.now + 20.0
        self._write_some(15.0)
        self._leap(self._some_time_s())
        self._pass(20.0)
        self._write_some(5.0)

    def _long_away(self) -> None:
        """One gateway is away for longer than all deletions are kept, and lacks one of them."""
        gateway, other = self._random.sample(
            [self.gateways[one] for one in sorted(self.gateways)], 2
        )
        topic = self._write_once(other, b"before")
        self._pass(10.0)
        cut = self._cut_off(gateway.gateway_id)
        is_off = self._random.random() < 0.5
        if is_off:
            self._stop(gateway)
        self._pass(10.0)
        self._writes.write(other, topic, b"")
        self._trim(other)
        self._leap(AWAY_S[-1])
        self._heal(cut)
        if is_off:
            self.start(gateway.gateway_id)
        self._write_some(5.0)

    def _renew(self) -> None:
        """Some have other keys from now on, while one is away that renews its own as well."""
        gateway = self._any()
        assert isinstance(gateway, YearsGateway)
        cut = self._cut_off(gateway.gateway_id)
        self._write_some(10.0)
        gateway.renew_key()
        for one in self._random.sample(sorted(self.gateways), len(self.gateways) // 2):
            other = self.gateways[one]
            assert isinstance(other, YearsGateway)
            other.renew_key()
            self._write_some(2.0, [other])
        self._write_some(5.0, [gateway])
        self._leap(self._some_time_s())
        self._heal(cut)
        self._write_some(5.0)

    def _come_and_go(self) -> None:
        """One gateway leaves for good, and another one comes in another place."""
        self._newcomers += 1
        name = f"new-{self._newcomers}"
        octets = f"10.99.{self._newcomers >> 8}.{self._newcomers & 255}"
        self.add(name, float(self._random.choice((1, 2, 3))), octets)
        for other in self._random.sample(sorted(self.gateways), min(3, len(self.gateways))):
            edge = Edge((other, name), 0.005, 0.0)
            self.network.edges.append(edge)
            self._redial(edge)
        self.start(name)
        self._write_some(20.0)
        for gateway_id in self._random.sample(sorted(self.gateways), len(self.gateways)):
            if self._is_spare(gateway_id):
                self._settle("the arrival")
                self._stop(self.gateways[gateway_id])
                self._identities.pop(gateway_id)
                self._writes.leave(gateway_id)
                self.network.edges = [e for e in self.network.edges if gateway_id not in e.ids]
                break
        self._write_some(10.0)

    def _unreadable(self) -> None:
        """Let a gateway come back that can't read what it accepted while it was alone."""
        gateway = self._any()
        disk = self._writes.years_disk(gateway.gateway_id)
        cut = self._cut_off(gateway.gateway_id)
        self._pass(10.0)
        for _ in range(3):
            self._write_once(gateway, b"alone")
        self._leap(self._random.choice((0.0, DAY_S)))
        self._heal(cut)
        disk.unreadable_until_s = self.clock.now + 60.0
        self._pass(15.0)
        self._write_once(gateway, b"back")
        self._pass(45.0)

    def _stalled(self) -> None:
        """The neighbours of one gateway answer late; then it lacks something again."""
        gateway = self._any()
        assert isinstance(gateway, YearsGateway)
        disk = self._writes.years_disk(gateway.gateway_id)
        neighbours = sorted(self._neighbours(gateway.gateway_id) & self.gateways.keys())
        others = [one for one in self.gateways.values() if one is not gateway]
        for one in neighbours:
            self._writes.years_disk(one).stalled_until_s = self.clock.now + 60.0
        disk.full_until_s = self.clock.now + 10.0
        self._write_some(10.0, others)
        self._pass(60.0)
        self._settle("late answers")
        asked = gateway.requests
        disk.full_until_s = self.clock.now + 10.0
        self._write_some(10.0, others)
        self._settle("a full disk")
        if gateway.alive and gateway.requests == asked:
            what = f"{gateway.gateway_id} asks nobody for what it lacks: all were late once"
            self.checks.found(3, what)

    def _busy(self) -> None:
        """Let what only one gateway retains go from link to link while everybody writes."""
        gateway = self._any_spare()
        cut = self._cut_off(gateway.gateway_id)
        self._pass(10.0)
        topic = self._write_once(gateway, b"alone")
        self._trim(gateway)
        self._heal(cut[:1])
        self._write_some(RETAINED_HOP_S * self._depth(gateway.gateway_id, cut[1:]))
        state = self._state(gateway)
        for gateway_id in sorted(self.gateways):
            if self._state(self.gateways[gateway_id]).get(topic) != state[topic]:
                self.checks.found(3, f"{gateway_id} lacks {topic} in a busy fleet")
        self._heal(cut)

    def _state(self, gateway: Gateway) -> dict[str, object]:
        assert isinstance(gateway, YearsGateway)
        return {**gateway.store.versions.state()}

    def _depth(self, gateway_id: str, without: list[Edge]) -> int:
        """Return how many links the farthest gateway is away."""
        depth, seen, front = 0, {gateway_id}, {gateway_id}
        edges = [edge for edge in self.network.edges if edge not in without]
        while front:
            near = {one for edge in edges if not front.isdisjoint(edge.ids) for one in edge.ids}
            front = (near & self.gateways.keys()) - seen
            seen |= front
            depth += bool(front)
        return depth

    def _slow(self) -> None:
        """One gateway comes back over slow lines and lacks large messages that no log has."""
        gateway = self._any()
        gateway_id = gateway.gateway_id
        self._stop(gateway)
        self._pass(10.0)
        other = self._any()
        topics = [self._write_once(other, LARGE) for _ in range(2)]
        self._pass(5.0)
        self._trim(other)
        edges = self._edges_of(gateway_id)
        for edge in edges:
            edge.bytes_per_s = SLOW_BYTES_PER_S
        self.start(gateway_id)
        self._pass(SLOW_S)
        state, has = self._state(other), self._state(self.gateways[gateway_id])
        for topic in topics:
            if has.get(topic) != state[topic]:
                self.checks.found(3, f"{gateway_id} lacks {topic} after {SLOW_S:.0f} s")
            self._writes.write(other, topic, b"")
        for edge in edges:
            edge.bytes_per_s = 0.0
