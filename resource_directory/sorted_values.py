"""Distinct values in order, found by prefix: in blocks, so that one more moves few others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

BLOCK: Final = 256
"""A block is split when it has twice as many values."""
_LAST: Final = "\U0010ffff"


class SortedValues:
    """A sorted set of strings."""

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._last: list[str] = []
        """The last value of each block."""

    def add(self, value: str) -> None:
        """Put in a value that is not there."""
        if not self._blocks:
            self._blocks.append([value])
            self._last.append(value)
            return
        at = min(bisect_left(self._last, value), len(self._blocks) - 1)
        block = self._blocks[at]
        if value > block[-1]:
            block.append(value)
            self._last[at] = value
        else:
            insort(block, value)
        if len(block) > 2 * BLOCK:
            half = block[BLOCK:]
            del block[BLOCK:]
            self._last[at] = block[-1]
            self._blocks.insert(at + 1, half)
            self._last.insert(at + 1, half[-1])

    def discard(self, value: str) -> None:
        """Take out a value that is there."""
        at = bisect_left(self._last, value)
        block = self._blocks[at]
        del block[bisect_left(block, value)]
        if block:
            self._last[at] = block[-1]
        else:
            del self._blocks[at], self._last[at]

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the values that start with a prefix, in order; others may come and go meanwhile."""
        at = bisect_left(self._last, prefix)
        if at == len(self._blocks):
            return
        block = self._blocks[at]
        block = block[bisect_left(block, prefix) :]
        while block:
            for value in block:
                if not value.startswith(prefix):
                    return
                yield value
            block = self._behind(block[-1])

    def _behind(self, value: str) -> list[str]:
        """Return some values behind one that is or was there."""
        at = bisect_right(self._last, value)
        if at == len(self._blocks):
            return []
        block = self._blocks[at]
        return block[bisect_right(block, value) :]

    def count(self, prefix: str) -> int:
        """Estimate how many start with a prefix, without going through them."""
        begin = bisect_left(self._last, prefix)
        if begin == len(self._blocks):
            return 0
        after = prefix + _LAST
        end = bisect_left(self._last, after)
        first = bisect_left(self._blocks[begin], prefix)
        if end < len(self._blocks):
            last = bisect_left(self._blocks[end], after)
        else:
            end, last = end - 1, len(self._blocks[-1])
        return sum(map(len, self._blocks[begin:end])) + last - first
