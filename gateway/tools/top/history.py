"""History of samples: how fast, how late, since when, and that a gateway has started anew.

Counters only grow while a gateway runs. So a rate is the difference of two samples; where a
counter has become less, or the boot epoch is another, the gateway has started in between, and there
is no rate until the next sample.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from gateway.tools.top.sample import ClientSample, GatewaySample, NeighbourSample, Totals
from light_dataclasses import dataclass

POINTS: Final = 120
"""So many rates are kept for the picture of the last minutes."""


@dataclass(frozen=True, slots=True)
class TrafficRates:
    """A second, each."""

    messages_in: float
    messages_out: float
    dropped: float
    bytes_in: float
    bytes_out: float


@dataclass(frozen=True, slots=True)
class DelayPercentiles:
    """Of acknowledgements between two samples, in seconds; None where there were none."""

    count: int = 0
    p50_s: float | None = None
    p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClientRate:
    """Of one client: bytes and packets a second, both ways; None where that is not known yet."""

    bytes_s: float | None
    packets_s: float | None


class GatewayHistory:
    """The last samples of one gateway.

    Attributes:
        last: the newest sample; None before the first.
        rates: between the last two; None where there are none, or it has started in between.
        delays: likewise.
        points: messages a second, in and out together, the newest last.
        failure: why it does not answer; empty if it does.
        failed_at_s: when it did not answer for the first time, on a steady clock.
        starts: how often it has started while one looked.

    """

    def __init__(self) -> None:
        self.last: GatewaySample | None = None
        self._before: GatewaySample | None = None
        self.rates: TrafficRates | None = None
        self.delays = DelayPercentiles()
        self.points: deque[float] = deque(maxlen=POINTS)
        self.failure = ""
        self.failed_at_s = 0.0
        self.starts = 0

    def take(self, sample: GatewaySample) -> None:
        """Take the newest sample; one that is no newer than the last is left out."""
        before = self.last
        if before is not None and sample.at_s <= before.at_s:
            return
        self.failure = ""
        has_started = before is not None and _has_started(before, sample)
        if has_started:
            self.starts += 1
        self._before = None if has_started else before
        self.last = sample
        self.rates = None if self._before is None else _rates(self._before, sample)
        self.delays = DelayPercentiles() if self._before is None else _delays(self._before, sample)
        if self.rates is not None:
            self.points.append(self.rates.messages_in + self.rates.messages_out)

    def missed(self, why: str, at_s: float) -> None:
        """It did not answer, or not with a status."""
        if not self.failure:
            self.failed_at_s = at_s
        self.failure = why
        self.rates = None
        self.delays = DelayPercentiles()

    def of_client(self, client: ClientSample) -> ClientRate:
        """Return how much passes to and from a client of the newest sample."""
        before, last = self._before, self.last
        if before is None or last is None or self.failure:
            return ClientRate(None, None)
        passed_s = last.at_s - before.at_s
        for one in before.clients:
            if one.id == client.id and abs(one.since_s - client.since_s) < 1:
                passed = client.bytes_read + client.bytes_sent - one.bytes_read - one.bytes_sent
                packets = client.packets_read + client.packets_sent
                packets -= one.packets_read + one.packets_sent
                return ClientRate(max(0, passed) / passed_s, max(0, packets) / passed_s)
        if client.since_s >= before.time_s:  # it has connected in between
            passed = client.bytes_read + client.bytes_sent
            packets = client.packets_read + client.packets_sent
            return ClientRate(passed / passed_s, packets / passed_s)
        return ClientRate(None, None)

    def of_link(self, neighbour: NeighbourSample) -> float | None:
        """Return the bytes a second over the link to a neighbour, both ways."""
        before, last = self._before, self.last
        if before is None or last is None or self.failure:
            return None
        now = neighbour.sent_bytes + neighbour.received_bytes
        for one in before.neighbours:
            if one.id == neighbour.id and (then := one.sent_bytes + one.received_bytes) <= now:
                return (now - then) / (last.at_s - before.at_s)
        return None


def percentile(
    bounds_s: tuple[float, ...], counts: tuple[float, ...], share: float
) -> float | None:
    """Return the delay that a share of all does not pass, by linear interpolation in its bucket.

    Args:
        bounds_s: the upper bound of each bucket but the last, which has none.
        counts: how many are in each.
        share: from 0 to 1.

    Returns:
        None if there are none; the last bound for what passes it.

    """
    total = sum(counts)
    if total <= 0 or len(counts) != len(bounds_s) + 1 or not bounds_s:
        return None
    wanted, seen = share * total, 0.0
    for number, count in enumerate(counts[:-1]):
        if count > 0 and seen + count >= wanted:
            low_s = bounds_s[number - 1] if number else 0.0
            return low_s + (bounds_s[number] - low_s) * (wanted - seen) / count
        seen += count
    return bounds_s[-1]


def _has_started(before: GatewaySample, now: GatewaySample) -> bool:
    if (before.id, before.boot) != (now.id, now.boot):
        return True
    then, told = before.totals, now.totals
    is_less = told.bytes_in < then.bytes_in or told.messages_in < then.messages_in
    return is_less or (before.up_s or 0.0) > (now.up_s or 0.0) + 1


def _rates(before: GatewaySample, now: GatewaySample) -> TrafficRates:
    passed_s = now.at_s - before.at_s

    def rate(then: int, told: int) -> float:
        return max(0, told - then) / passed_s

    a: Totals = before.totals
    b: Totals = now.totals
    return TrafficRates(
        messages_in=rate(a.messages_in, b.messages_in),
        messages_out=rate(a.messages_out, b.messages_out),
        dropped=rate(a.dropped, b.dropped),
        bytes_in=rate(a.bytes_in, b.bytes_in),
        bytes_out=rate(a.bytes_out, b.bytes_out),
    )


def _delays(before: GatewaySample, now: GatewaySample) -> DelayPercentiles:
    bounds_s, counts = now.delay_bounds_s, now.delay_counts
    if before.delay_bounds_s != bounds_s or len(before.delay_counts) != len(counts):
        return DelayPercentiles()
    between = tuple(
        max(0.0, told - then) for then, told in zip(before.delay_counts, counts, strict=True)
    )
    found = (percentile(bounds_s, between, share) for share in (0.5, 0.99))
    return DelayPercentiles(int(sum(between)), *found)
