"""How much of a long piece of work is done at a time, so that others have their turn.

To look at the clock after each of many small steps would cost more than the steps. So they are
done in portions: the clock is looked at after each, and the next one is twice as large while less
than half of the turn is used. Sans-I/O: the clock is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class Pace:
    """The portions of one piece of work after another, each with a turn of its own.

    Args:
        now: the clock, in seconds.
        turn_s: a turn ends with the first portion that ends later than so many seconds after its
            beginning.
        portion: steps (or bytes) before the first look at the clock, from 1.
        portion_max: so many at most between two looks; a portion is doubled while it is smaller.

    Attributes:
        left: steps to do before the next look at the clock, at least 1.
        ends_s: when the turn ends, on that clock; infinity if it does not.

    """

    __slots__ = ("_first", "_max", "_now", "_portion", "_turn_s", "ends_s", "left")

    def __init__(
        self, now: Callable[[], float], turn_s: float, portion: int, portion_max: int = 1 << 30
    ) -> None:
        self._now = now
        self._turn_s = turn_s
        self._first = self._portion = portion
        self._max = portion_max
        self.left = portion
        self.ends_s = -math.inf

    def begin(self, now_s: float) -> None:
        """Begin a turn.

        Args:
            now_s: what the clock says, which the caller often knows; infinity for a turn that
                does not end.

        """
        self._portion = self.left = self._first
        self.ends_s = now_s + self._turn_s

    def goes_on(self, steps: int) -> bool:
        """Count what was done, and look at the clock if that was the rest of a portion.

        Args:
            steps: how many were done; more than `left` is well.

        Returns:
            whether there is time for more.

        """
        self.left -= steps
        if self.left > 0:
            return True
        left_s = self.ends_s - self._now()
        if left_s > self._turn_s / 2 and self._portion < self._max:
            self._portion *= 2
        self.left = self._portion
        return left_s >= 0

    @property
    def is_over(self) -> bool:
        """Whether others have to wait already too long; nothing is counted by asking."""
        return self._now() > self.ends_s
