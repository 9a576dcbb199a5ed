"""Ids that stand in their order, gone through while some of them come and go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping


class ChangeCount:
    """A count of the changes to a collection that somebody iterates over.

    Attributes:
        count: raised by each change.

    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


def each_in_order(ids: Mapping[int, object], changes: ChangeCount) -> Iterator[int]:
    """Yield the ids; those that come meanwhile may be left out, and those that go given still.

    Args:
        ids: their order is that in which they stand.
        changes: counts when ids come or go.

    """
    before = changes.count
    for key in ids:
        yield key
        if changes.count != before:
            last = key
            break
    else:
        return
    rest = list(ids)
    yield from rest[bisect_right(rest, last) :]
