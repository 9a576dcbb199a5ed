"""Delays of messages, by gateway, minute and stage: merged histograms, and what a table says.

Buckets are a fourth of an octave wide (`evidence.facts.Delays`), so a percentile is right
within a fifth. A minute is told once it is over, and once more for what came of it late: rows of
one part of it replace each other, parts add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from cloud_ingest.evidence.facts import Delays

MINUTE_US: Final = 60_000_000
GRACE_US: Final = 10_000_000
"""So long after its end a minute is told."""
KEPT_US: Final = 3 * MINUTE_US
"""A part of a minute that comes later than this is told by itself."""
LOWEST: Final = -16

LatencyKey = tuple[str, str]
"""Gateway and stage."""


class Histogram(msgspec.Struct, array_like=True):
    """Delays of one gateway and stage in one minute.

    Attributes:
        counts: messages by bucket.
        told: how many messages a row has been told of.

    """

    counts: dict[int, int]
    told: int = 0


def percentile_ms(counts: Mapping[int, int], share: float) -> float:
    """Return the delay that this share of messages did not pass, by the middle of its bucket.

    Args:
        counts: messages by bucket; at least one.
        share: from 0 to 1.

    """
    wanted = share * sum(counts.values())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted:
            break
    return 0.0 if bucket <= LOWEST else float(2 ** ((bucket + 0.5) / 4))


def most_ms(counts: Mapping[int, int]) -> float:
    """Return the end of the last bucket: no delay was longer."""
    return float(2 ** ((max(counts) + 1) / 4))


class Minute(msgspec.Struct, array_like=True):
    """One minute.

    Attributes:
        histograms: by `Key`.
        has_news: something came of which no row has been told.
        part: which part of the minute it is; 0 unless it came after the minute was forgotten.

    """

    histograms: dict[LatencyKey, Histogram] = {}
    has_news: bool = False
    part: int = 0


class Minutes(msgspec.Struct):
    """The last minutes.

    Attributes:
        open: by their beginning.
        told_us: the latest time that minutes were told at.
        parts: how many came after their minute was forgotten.

    """

    open: dict[int, Minute] = {}
    told_us: int | None = None
    parts: int = 0

    def take(self, delays: Delays) -> None:
        """Add what a batch says."""
        minute = self.open.get(delays.minute_us)
        if minute is None:
            minute = self.open[delays.minute_us] = Minute()
            if self.told_us is not None and delays.minute_us + KEPT_US <= self.told_us:
                self.parts += 1
                minute.part = self.parts
        minute.has_news = True
        key = (delays.gateway, delays.stage)
        histogram = minute.histograms.get(key)
        if histogram is None:
            histogram = minute.histograms[key] = Histogram({})
        counts = histogram.counts
        for bucket, count in delays.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count

    def due(self, now_us: int) -> Iterator[tuple[int, int, LatencyKey, Mapping[int, int]]]:
        """Give what is to be told now, by minute, part and key, and forget what is old.

        Args:
            now_us: the collector's clock.

        """
        self.told_us = now_us if self.told_us is None else max(now_us, self.told_us)
        for minute_us in sorted(self.open):
            if minute_us + MINUTE_US + GRACE_US > now_us:
                break
            minute = self.open[minute_us]
            for key in sorted(minute.histograms) if minute.has_news else ():
                histogram = minute.histograms[key]
                count = sum(histogram.counts.values())
                if count > histogram.told:
                    histogram.told = count
                    yield minute_us, minute.part, key, histogram.counts
            minute.has_news = False
            if minute_us + KEPT_US <= now_us:
                del self.open[minute_us]
