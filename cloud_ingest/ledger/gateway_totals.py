"""Totals of each gateway's rows in the tables, added up commit by commit."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cloud_ingest.bounded_counts import added


@dataclass(slots=True)
class GatewayTotals:
    """Of one gateway; times are microseconds since 1970.

    Attributes:
        messages: of its clients, each once.
        logged: those of them that stood in its log before they were acknowledged.
        control: messages of its own to other gateways.
        undecodable: messages of its clients whose payload holds no reading.
        duplicates: copies in the spool beyond the first, control messages included.
        first_us: the earliest origin time; None if it never had a usable clock.
        last_us: the latest origin time.
        latency_sum_ms: from readings to their acceptance, by the clocks of device and origin.
        latency_count: of how many readings.
        latency_max_ms: the longest; None if there is none.
        given_up: numbers of logged messages of its clients that are missing and looked for no
            longer.
        unsure: messages that went to quarantine since nobody knows whether a table has them.

    """

    messages: int = 0
    logged: int = 0
    control: int = 0
    undecodable: int = 0
    duplicates: int = 0
    first_us: int | None = None
    last_us: int | None = None
    latency_sum_ms: float = 0.0
    latency_count: int = 0
    latency_max_ms: float | None = None
    given_up: int = 0
    unsure: int = 0

    def seen_at(self, time_us: int) -> None:
        """Note a time at which it was heard of."""
        if self.first_us is None or time_us < self.first_us:
            self.first_us = time_us
        if self.last_us is None or time_us > self.last_us:
            self.last_us = time_us

    def add(self, other: GatewayTotals) -> None:
        """Add what came since."""
        for name in _COUNTS:
            setattr(self, name, added(getattr(self, name), getattr(other, name)))
        self.latency_sum_ms += other.latency_sum_ms
        for time_us in (other.first_us, other.last_us):
            if time_us is not None:
                self.seen_at(time_us)
        highest = (self.latency_max_ms, other.latency_max_ms)
        self.latency_max_ms = max((ms for ms in highest if ms is not None), default=None)


_COUNTS = tuple(
    field.name
    for field in fields(GatewayTotals)
    if field.name not in ("first_us", "last_us", "latency_sum_ms", "latency_max_ms")
)
