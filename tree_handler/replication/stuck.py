"""The times since which each number is missing that no neighbour can send.

Numbers of one stream may be missing for very different times: what was lost a day ago says nothing
of what was cut off a second ago. So each is counted by itself, in steps: those that came to be
missing within one step of time count from the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

STEPS: Final = 64
"""In the time after which the origin counts as gone: so many sets of numbers a stream has at most,
and one of those that are missing for longer."""


@dataclass(slots=True)
class _Step:
    """Numbers that came to be missing within one step of time, the last of them then."""

    number: int
    last_at: float
    numbers: Intervals


@dataclass(slots=True)
class StuckSince:
    """A record of the missing numbers, and since when each is missing.

    What is missing for ``long_s`` seconds is missing for long, and that is all that is known of it.
    """

    _steps: dict[Epoch, list[_Step]] = field(default_factory=dict)
    """Of each stream, the earliest first."""
    _seen: dict[Epoch, Intervals] = field(default_factory=dict)
    """The numbers that were missing at the last look."""

    def follow(self, missing: Mapping[Epoch, Intervals], now: float, long_s: float) -> bool:
        """So much is missing now; return whether any of it was not before.

        What is given is kept: it must not change any more.
        """
        found: dict[Epoch, list[_Step]] = {}
        is_new = False
        seen, self._seen = self._seen, dict(missing)
        for stream, numbers in missing.items():
            if seen.get(stream) == numbers:  # as nearly always
                found[stream] = self._steps[stream]
                continue
            steps, new = self._still(stream, numbers, now - long_s)
            if len(new):
                is_new = True
                self._add(steps, new, now, long_s)
            found[stream] = steps
        self._steps = found
        return is_new

    def since(self, stream: Epoch) -> float:
        """Return since when a stream is missing something, in any case; infinity if it is not."""
        steps = self._steps.get(stream)
        return steps[0].last_at if steps else math.inf

    def for_long(self, stream: Epoch, now: float, long_s: float) -> Intervals:
        """Return the numbers that are missing for long."""
        found = Intervals()
        for step in self._steps.get(stream, ()):
            if now - step.last_at >= long_s:
                found.update(step.numbers)
        return found

    def _still(
        self, stream: Epoch, numbers: Intervals, long_ago: float
    ) -> tuple[list[_Step], Intervals]:
        """Return the steps of what is missing still, and what is so for the first time."""
        steps: list[_Step] = []
        new = numbers
        for step in self._steps.get(stream, ()):
            new = new.without(step.numbers)
            left = step.numbers.common(numbers)
            if not len(left):
                continue
            if steps and step.last_at <= long_ago:  # then the one before is, too
                steps[-1].numbers.update(left)
                steps[-1].last_at = step.last_at
            else:
                steps.append(_Step(step.number, step.last_at, left))
        return steps, new

    def _add(self, steps: list[_Step], new: Intervals, now: float, long_s: float) -> None:
        number = math.floor(now * STEPS / long_s) if long_s else 0
        if not steps or steps[-1].number != number:
            steps.append(_Step(number, now, Intervals()))
        steps[-1].numbers.update(new)
        steps[-1].last_at = now
