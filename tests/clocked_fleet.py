"""A watched fleet in which one clock of the system goes wrong: for a minute, or from then on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from watched_fleet import WatchedFleet

from cloud_ingest.evidence.facts import Activity, BatchFacts, Statement

DAY_S = 86_400
Clock = Literal["collector", "one of two collectors", "job", "gateway", "device"]
CLOCKS: tuple[Clock, ...] = ("collector", "one of two collectors", "job", "gateway", "device")
OFF_S = {"a minute": 60, "a day": DAY_S, "40 years": 40 * 365 * DAY_S}


@dataclass(frozen=True)
class Fault:
    """An error of one clock, for a time.

    Attributes:
        clock: whose.
        off_s: by how much it is ahead; negative: behind.
        since_s: from when on.
        until_s: until when.

    """

    clock: Clock
    off_s: float
    since_s: float
    until_s: float

    def us(self, second: float) -> int:
        """Return how far the clock is ahead at a second of the run, in microseconds."""
        return round(self.off_s * 1e6) if self.since_s <= second < self.until_s else 0


class ClockedFleet(WatchedFleet):
    """A fleet, its collectors and its job, of which one has a wrong clock.

    Every second gateway is heard by the second collector, if there are two.
    """

    def __init__(self, count: int, fault: Fault, seed: int = 1) -> None:
        super().__init__(count, seed)
        self.fault = fault
        if fault.clock == "gateway":
            self[0].ahead_us = fault.us

    def clocked(self, until_s: float) -> Iterator[BatchFacts]:
        """The facts of each batch, by the clocks that there are."""
        for facts in self.batches(until_s):
            yield self._by_clocks(facts)

    def _by_clocks(self, facts: BatchFacts) -> BatchFacts:
        off_us, clock = self.fault.us(self.second - self.batch_s), self.fault.clock
        if clock == "job":
            return replace(facts, committed_us=facts.committed_us + off_us)
        if clock == "device":
            spans = [
                replace(one, first_us=one.first_us + off_us, last_us=one.last_us + off_us)
                for one in facts.sensors
            ]
            return replace(facts, sensors=tuple(spans))
        if clock == "gateway":
            return facts
        return replace(
            facts,
            statements=tuple(map(self._stamped, facts.statements)),
            activity=tuple(map(self._active, facts.activity)),
            delays=tuple(
                replace(one, minute_us=one.minute_us + self._off_us(one.gateway))
                for one in facts.delays
            ),
        )

    def _stamped(self, one: Statement) -> Statement:
        return replace(one, collected_us=one.collected_us + self._off_us(one.gateway))

    def _active(self, one: Activity) -> Activity:
        return replace(one, collected_us=one.collected_us + self._off_us(one.gateway))

    def _off_us(self, gateway: str) -> int:
        if self.fault.clock == "one of two collectors" and int(gateway[-1]) % 2:
            return 0
        return self.fault.us(self.second - self.batch_s) // 60_000_000 * 60_000_000
