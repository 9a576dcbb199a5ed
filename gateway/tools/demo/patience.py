"""Patience of the demo: no machine is too slow for it, but a process that does nothing is.

What counts is time in which none of the processes waited for a processor: Linux tells how long each
did (``/proc/PID/schedstat``, second number, in nanoseconds). On a machine with sixty busy programs
beside two cores thirty such seconds take minutes; on a quiet one they are thirty seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

PATIENCE_S = 30.0
"""For one step, in seconds in which nobody waited for a processor."""
AT_MOST_S = 900.0
"""For one step, whatever the processes wait for."""
LOOK_AGAIN_S = 0.02


class StalledError(Exception):
    """The event that was waited for did not come about.

    Args:
        quiet_s: seconds in which the processes had the processor whenever they wanted it.
        took_s: seconds in all.

    """

    def __init__(self, quiet_s: float, took_s: float) -> None:
        waited_s = took_s - quiet_s
        slow = f", beside {waited_s:.0f} s of waiting for a processor" if waited_s >= 1 else ""
        super().__init__(f"within {quiet_s:.0f} s{slow}")


class QuietClock:
    """Counts the time in which processes could have done something.

    Args:
        delay_s: how long one of them has waited for a processor since it began; see
            `processor_delay_s`. It may be another process from one call to the next.
        clock: in seconds.
        budget_s: after so many seconds without such waiting it is over.

    """

    def __init__(
        self,
        delay_s: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        budget_s: float = PATIENCE_S,
    ) -> None:
        self._delay_s, self._clock, self._budget_s = delay_s, clock, budget_s
        self._begun_s = self._looked_s = clock()
        self._delayed_s = delay_s()
        self._quiet_s = 0.0

    def check(self) -> None:
        """Take a look.

        Raises:
            StalledError: it is over.

        """
        now_s, delayed_s = self._clock(), self._delay_s()
        waited_s = max(0.0, delayed_s - self._delayed_s)
        self._quiet_s += max(0.0, now_s - self._looked_s - waited_s)
        self._looked_s, self._delayed_s = now_s, delayed_s
        took_s = now_s - self._begun_s
        if self._quiet_s > self._budget_s or took_s > AT_MOST_S:
            raise StalledError(self._quiet_s, took_s)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Ask again and again until something holds.

        Raises:
            StalledError: it does not, and this is over.

        """
        while not await holds():
            self.check()
            await asyncio.sleep(LOOK_AGAIN_S)


def processor_delay_s(processes: Iterable[int]) -> float:
    """Return how long that process waited for a processor which did so the longest.

    A process that has ended, or a kernel that does not tell, counts as none: what is left then is
    the plain time.

    Args:
        processes: their numbers.

    """
    return max(map(_delay_s, processes), default=0.0)


def _delay_s(process: int) -> float:
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
