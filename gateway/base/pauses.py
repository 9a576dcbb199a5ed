"""Pauses before what failed is tried again."""

from __future__ import annotations


class GrowingPause:
    """Grows with each failure in a row: twice as long each time.

    Args:
        first_s: the first one.
        longest_s: it grows to this.

    Attributes:
        until_s: when it is over, on the clock that `failed` was told; what has not failed yet may
            be tried at any time.

    """

    __slots__ = ("_first_s", "_longest_s", "_next_s", "until_s")

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = first_s
        self.until_s = 0.0

    def failed(self, now_s: float) -> float:
        """Begin the next one; return how long it is."""
        pause_s = self._next_s
        self.until_s = now_s + pause_s
        self._next_s = min(self._longest_s, 2.0 * pause_s)
        return pause_s

    def worked(self) -> None:
        """Begin small again."""
        self._next_s = self._first_s
        self.until_s = 0.0
