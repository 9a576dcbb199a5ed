"""A history that all gateways share: the one that has the most gives room first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def newest_of_each(
    rows: Sequence[_T], gateway_of: Callable[[_T], str], *, most: int, most_of_one: int
) -> list[_T]:
    """Return the newest rows of each gateway, in their order.

    A quiet gateway keeps all of its rows while noisy ones give up their oldest, so that however
    many are noisy, none pushes out another's.

    Args:
        rows: the oldest first.
        gateway_of: whose a row is.
        most: rows that are kept.
        most_of_one: likewise, of one gateway.

    """
    counts = Counter(gateway_of(row) for row in rows)
    quota = min(most_of_one, _equal_quota(list(counts.values()), most))
    kept: list[_T] = []
    met: Counter[str] = Counter()
    for row in reversed(rows):
        name = gateway_of(row)
        met[name] += 1
        if met[name] <= quota:
            kept.append(row)
    # With more gateways than room even one row of each is too much: the newest stay.
    return kept[:most][::-1]


def _equal_quota(counts: Sequence[int], most: int) -> int:
    """Return how many rows each may have at most, one or more, so that all have `most` together."""
    left = most
    for position, count in enumerate(ordered := sorted(counts)):
        share = left // (len(ordered) - position)
        if count > share:
            return max(1, share)
        left -= count
    return max(counts, default=1)
