"""A set of sequence numbers, kept as ranges.

Replication, repair and the cloud's ledger all ask the same three questions of the numbers of
one origin: seen already? how far without a gap? what is missing? A run without gaps costs one
pair of integers, however long it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

_FEW_OF = 16
"""A set of so many times fewer ranges is taken out one by one."""


class Intervals:
    """Whole numbers as sorted, disjoint, closed ranges ``first..last``.

    >>> seen = Intervals([(1, 5), (8, 9)])
    >>> seen.add(6, 7)
    2
    >>> list(seen)
    [(1, 9)]
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int) -> int:
        """Add ``first..last`` and return how many of these numbers are new.

        Raises:
            ValueError: if ``first`` is greater than ``last``.

        """
        if first > last:
            raise ValueError(f"empty range {first}..{last}")
        firsts, lasts = self._firsts, self._lasts
        if lasts and first == lasts[-1] + 1:  # the next batch in order, nearly always
            lasts[-1] = last
            return last - first + 1
        # Ranges that touch first-1..last+1 melt into one.
        left = bisect_right(lasts, first - 2)
        right = bisect_right(firsts, last + 1)
        overlap = 0
        for i in range(left, right):
            overlap += max(0, min(lasts[i], last) - max(firsts[i], first) + 1)
        new = last - first + 1 - overlap
        if left < right:
            first = min(first, firsts[left])
            last = max(last, lasts[right - 1])
        firsts[left:right] = [first]
        lasts[left:right] = [last]
        return new

    def update(self, other: Intervals) -> None:
        """Add every number of ``other``."""
        for first, last in other:
            self.add(first, last)

    def forget_through(self, last: int) -> None:
        """Take out every number up to ``last``."""
        gone = bisect_right(self._lasts, last)
        del self._firsts[:gone], self._lasts[:gone]
        if self._firsts and self._firsts[0] <= last:
            self._firsts[0] = last + 1

    def covers(self, first: int, last: int) -> bool:
        """Return whether every number of ``first..last`` is in the set."""
        i = bisect_right(self._firsts, first) - 1
        return i >= 0 and last <= self._lasts[i]

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges of ``first..last`` that are not in the set, in order."""
        gaps: list[tuple[int, int]] = []
        at = first
        for i in range(bisect_right(self._lasts, first - 1), len(self._firsts)):
            if at > last or self._firsts[i] > last:
                break
            if self._firsts[i] > at:
                gaps.append((at, self._firsts[i] - 1))
            at = self._lasts[i] + 1
        if at <= last:
            gaps.append((at, last))
        return gaps

    def without(self, other: Intervals) -> Intervals:
        """Return what is in this set and not in ``other``."""
        left = Intervals()
        if len(other) * _FEW_OF < len(self):  # a batch of what a torn log lacks
            left._firsts, left._lasts = self._firsts[:], self._lasts[:]
            for first, last in other:
                left._take_out(first, last)
            return left
        for first, last in self:
            for gap in other.missing(first, last):
                left.add(*gap)
        return left

    def _take_out(self, first: int, last: int) -> None:
        """Take out every number of ``first..last``."""
        firsts, lasts = self._firsts, self._lasts
        left = bisect_right(lasts, first - 1)
        right = bisect_right(firsts, last)
        if left >= right:
            return
        lowest, highest = firsts[left], lasts[right - 1]
        stays: list[tuple[int, int]] = []
        if lowest < first:
            stays.append((lowest, first - 1))
        if highest > last:
            stays.append((last + 1, highest))
        firsts[left:right] = [one for one, _ in stays]
        lasts[left:right] = [one for _, one in stays]

    def may_meet(self, other: Intervals) -> bool:
        """Return whether a number may be in both sets, at a glance: neither is behind the other."""
        if not (self._firsts and other._firsts):
            return False
        return self._firsts[0] <= other._lasts[-1] and other._firsts[0] <= self._lasts[-1]

    def common(self, other: Intervals) -> Intervals:
        """Return what is in this set and in ``other``."""
        few, many = (self, other) if len(self) < len(other) else (other, self)
        found = Intervals()
        for first, last in few:
            for i in range(bisect_right(many._lasts, first - 1), len(many._firsts)):
                if many._firsts[i] > last:
                    break
                found.add(max(first, many._firsts[i]), min(last, many._lasts[i]))
        return found

    def contiguous_from(self, first: int) -> int:
        """Return the last number of the unbroken run that starts at ``first`` (``first - 1`` if
        none)."""
        i = bisect_right(self._firsts, first) - 1
        if i >= 0 and self._lasts[i] >= first:
            return self._lasts[i]
        return first - 1

    def before(self, number: int) -> int:
        """Return the greatest number of the set that is less than ``number``, 0 if there is
        none."""
        i = bisect_right(self._firsts, number - 1) - 1
        return min(self._lasts[i], number - 1) if i >= 0 else 0

    @property
    def last(self) -> int:
        """The greatest number, 0 for an empty set."""
        return self._lasts[-1] if self._lasts else 0

    def count(self) -> int:
        """Return how many numbers are in the set."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __contains__(self, number: int) -> bool:
        return self.covers(number, number)

    def __len__(self) -> int:
        """Return how many ranges the set is made of: what it costs."""
        return len(self._firsts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]  # mutable, as set is

    def __repr__(self) -> str:
        return f"Intervals({list(self)})"
