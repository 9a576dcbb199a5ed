"""Delays counted in buckets: four to the octave for the tables, sixteen while one end is open.

A task knows when a message was collected and not yet when its row will be in the table. It counts
the time up to the plan in fine buckets; the driver adds the rest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

PER_OCTAVE = 4
LOWEST = -16
FINE_PER_OCTAVE = 16
_FINE_LOWEST = LOWEST * FINE_PER_OCTAVE // PER_OCTAVE


def bucket(delay_us: int) -> int:
    """Return the bucket of a delay, as `cloud_ingest.evidence.facts.Delays` counts."""
    return _bucket(delay_us / 1_000, PER_OCTAVE, LOWEST)


def fine_bucket(delay_us: int) -> int:
    """Return the bucket of a delay, of sixteen to the octave."""
    return _bucket(delay_us / 1_000, FINE_PER_OCTAVE, _FINE_LOWEST)


def shifted(fine: Mapping[int, int], added_us: int) -> dict[int, int]:
    """Fine buckets of delays that have grown by as much, in the tables' buckets.

    What is off is at most a fine bucket's width, 4 %.
    """
    counts: Counter[int] = Counter()
    for number, count in fine.items():
        middle_us = 1_000 * 2 ** ((number + 0.5) / FINE_PER_OCTAVE)
        counts[bucket(round(middle_us) + added_us)] += count
    return dict(counts)


def _bucket(delay_ms: float, per_octave: int, lowest: int) -> int:
    if delay_ms <= 0.0625:
        return lowest
    return max(lowest, math.floor(per_octave * math.log2(delay_ms)))
