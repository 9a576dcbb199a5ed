"""Times to ask neighbours again for what was refused and may be believed later.

Whether a certificate, a statement or a list counts depends on the wall clock, and on what else is
known. A gateway whose clock was wrong at its start refuses what is right, and neighbours offer it
when a link begins and not again. So its name is kept, and asked for again: at once when the wall
clock was set, else ever more rarely, for most of it will never be believed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

FIRST_S: Final = 60.0
LAST_S: Final = 86_400.0
"""It is asked for again so long after, and twice as long after that, up to a day."""
MAX_NAMES: Final = 1_000
"""That are kept; of more, the oldest is not asked for again."""
STEP_S: Final = 10.0
"""By so much a wall clock has to part from the other one to have been set."""

Name = TypeVar("Name", bound=Hashable)


class RetrySchedule(Generic[Name]):
    """A schedule by which refused items are asked for again.

    Times are in seconds, of a clock that never goes back, but for those of the wall clock.

    Args:
        wall_s: the wall clock.
        now: the other one.

    """

    def __init__(self, wall_s: float, now: float) -> None:
        self._refused: dict[Name, None] = {}
        self._wait_s = FIRST_S
        self._due = math.inf
        self._offset_s = wall_s - now

    def __len__(self) -> int:
        """Return how many refused items are to be asked for again."""
        return len(self._refused)

    def refused(self, name: Name, now: float) -> None:
        """Something was refused."""
        self._refused[name] = None
        if len(self._refused) > MAX_NAMES:
            del self._refused[next(iter(self._refused))]
        self._due = min(self._due, now + self._wait_s)

    def follow_clock(self, wall_s: float, now: float) -> bool:
        """Look at the wall clock, and return whether it was set since the last look."""
        offset_s = wall_s - now
        was_set = abs(offset_s - self._offset_s) > STEP_S
        self._offset_s = offset_s
        if was_set:
            self.more_is_known(now)
        return was_set

    def more_is_known(self, now: float) -> None:
        """Ask again at once: what was refused may be believed now."""
        self._wait_s = FIRST_S
        if self._refused:
            self._due = now

    def next_timer(self) -> float:
        """Return when `take` has something; infinity while there is nothing."""
        return self._due

    def take(self, now: float) -> list[Name]:
        """Return what is to be asked for now; it is forgotten, until it is refused again."""
        if now < self._due:
            return []
        names = list(self._refused)
        self._refused.clear()
        self._due = math.inf
        self._wait_s = min(2 * self._wait_s, LAST_S)
        return names
