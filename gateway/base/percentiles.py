"""Percentiles of values that are all at hand; of many see `gateway.base.duration_histogram`."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the least of the values that ``percent`` of 100 do not pass (nearest rank).

    Args:
        values: at least one.
        percent: above 0, up to 100.

    Raises:
        ValueError: there are no values.

    """
    if not values:
        raise ValueError("no values")
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]
