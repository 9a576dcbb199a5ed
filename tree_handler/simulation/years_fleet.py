"""A fleet that lives for years: its time, its clients, and who is there; see `years`."""

from __future__ import annotations

from typing import ClassVar, Final

from tree_handler.simulation.checks import StillWindow, component
from tree_handler.simulation.gateway import Gateway, MakeTree
from tree_handler.simulation.local_time import LocalClock, StillClock
from tree_handler.simulation.network import Edge
from tree_handler.simulation.runs import Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.simulation.years_traffic import YearsTraffic
from tree_handler.spanning.spanning_tree import SpanningTree

DAY_S: Final = 24 * 3600.0
AWAY_S: Final = (0.0, 60.0, 3600.0, 3 * DAY_S, 60 * DAY_S)
"""For so long a gateway may be away: some of it is longer than anything is kept for its sake."""
PEACE_S: Final = 240.0
"""Within this time after it ended everything that happened must be over."""
STILL_INTERVALS: Final = 6
"""Hello intervals without anything but HELLOs: more than two rounds of repairs."""
TOPICS: Final = 12
LOG_IS_TRIMMED: Final = 25
"""After so many messages a log has dropped all that was before."""


class YearsFleet(Simulation):
    """A fleet of which most time passes in leaps."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = YearsTraffic

    def __init__(self, options: Options, make_tree: MakeTree = SpanningTree) -> None:
        super().__init__(options, make_tree)
        traffic = self.traffic
        assert isinstance(traffic, YearsTraffic)
        self._writes = traffic
        self._topics = 0

    def tree_clock(self, local: LocalClock) -> LocalClock:
        """Return a clock that stands still while time leaps."""
        return StillClock(local.rate, local.ahead_s, self.clock)

    # -- time ----------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        """Live through a time in full."""
        self.clock.run(self.clock.now + seconds)

    def _leap(self, seconds: float) -> None:
        """Let a time pass that brings nothing; who sleeps sleeps on."""
        self.clock.leap(seconds)
        for gateway in self.gateways.values():
            if gateway.paused_until_s > self.clock.now - seconds:
                gateway.paused_until_s += seconds
        self._writes.expire(self.gateways)

    def _settle(self, after: str) -> None:
        """Check that all is over within `PEACE_S`, and then that nothing but HELLOs is sent."""
        checks, traffic = self.checks, self._writes
        still_s = STILL_INTERVALS * self.options.parameters.hello_s
        end_s = self.clock.now + PEACE_S
        while True:
            window, sent = StillWindow.begins(checks, self.gateways), traffic.sent
            self._pass(still_s)
            is_still = window.is_still(checks, self.gateways) and traffic.sent == sent
            if is_still and next(traffic.lacking(self.gateways, self.network), None) is None:
                break
            if self.clock.now >= end_s:
                for what in traffic.lacking(self.gateways, self.network):
                    checks.found(3, f"{what}, {PEACE_S:.0f} s after {after}")
                if traffic.sent != sent:
                    count = traffic.sent - sent
                    checks.found(7, f"{count} messages are sent, {PEACE_S:.0f} s after {after}")
                break
        self._check_one_tree()
        window.check_quiet(checks, self.gateways, STILL_INTERVALS)

    # -- what clients do -----------------------------------------------------------------------

    def _write_some(self, seconds: float, gateways: list[Gateway] | None = None) -> None:
        """Let clients of the fleet, or of some gateways, write every 2 to 4 s for a time."""
        chance, end_s = self._random, self.clock.now + seconds
        while self.clock.now < end_s:
            among = [g for g in gateways or list(self.gateways.values()) if self._is_awake(g)]
            if among:
                payload = b"" if chance.random() < 0.2 else b"%d" % self.traffic.published
                topic = f"t/{chance.randrange(TOPICS)}"
                self._writes.write(chance.choice(among), topic, payload)
            self._pass(chance.uniform(2.0, 4.0))

    def _write_once(self, gateway: Gateway, payload: bytes) -> str:
        """Let a client write a topic of its own; return which."""
        self._topics = (self._topics + 1) % TOPICS
        topic = f"once/{self._topics}"
        self._writes.write(gateway, topic, payload + b"%d" % self.traffic.published)
        return topic

    def _trim(self, gateway: Gateway) -> None:
        """Let a client write so much that all logs within reach drop what was before."""
        for _ in range(LOG_IS_TRIMMED):
            self._writes.write(gateway, "t/0", b"%d" % self.traffic.published)
        self._pass(2.0)

    # -- who is there --------------------------------------------------------------------------

    def _any(self) -> Gateway:
        return self.gateways[self._random.choice(sorted(self.gateways))]

    def _is_spare(self, gateway_id: str) -> bool:
        """Return whether the others reach each other without it."""
        others = set(self.gateways) - {gateway_id}
        seen = component(min(others), lambda one: self._neighbours(one) & others)
        return len(seen) == len(others)

    def _any_spare(self) -> Gateway:
        spare = [one for one in sorted(self.gateways) if self._is_spare(one)]
        return self.gateways[self._random.choice(spare)]

    def _is_awake(self, gateway: Gateway) -> bool:
        return gateway.alive and gateway.paused_until_s <= self.clock.now

    def _edges_of(self, gateway_id: str) -> list[Edge]:
        return [edge for edge in self.network.edges if gateway_id in edge.ids]

    def _neighbours(self, gateway_id: str) -> set[str]:
        return {one for edge in self._edges_of(gateway_id) for one in edge.ids} - {gateway_id}

    def _some_time_s(self) -> float:
        """Return a minute, an hour, some days, some weeks."""
        return self._random.choice(AWAY_S) * self._random.uniform(0.5, 1.5)

    def _cut_off(self, gateway_id: str) -> list[Edge]:
        edges = self._edges_of(gateway_id)
        for edge in edges:
            self.network.cut(edge)
        return edges

    def _heal(self, edges: list[Edge]) -> None:
        for edge in edges:
            self.network.heal(edge)

    def _stop(self, gateway: Gateway) -> None:
        self.gateways.pop(gateway.gateway_id).stop(silently=self._random.random() < 0.5)
