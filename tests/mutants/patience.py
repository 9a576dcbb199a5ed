"""The time that the tests of a change have, on a machine that others use."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

SLICE_S = 0.5
"""So long is waited at a time."""
_NOTHING_S = 0.001
"""So little is left of the time when it is over: a clock might not see so short a wait."""


class Patience:
    """Seconds in which this process could go on.

    Where others have the machine, or have stopped all processes to measure something, the tests do
    not go on either. So a wait that took longer than it was to take counts for twice that at most.

    Args:
        seconds: how many there are.
        clock: one that never goes back.

    Attributes:
        left_s: how many are left.

    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.left_s = seconds
        self._clock = clock

    def output_of(self, running: subprocess.Popen[str]) -> str | None:
        """Wait for the end of a process; return what it wrote, None if it has no end in time."""
        while self.left_s > _NOTHING_S:
            wait_s, before = min(SLICE_S, self.left_s), self._clock()
            try:
                return running.communicate(timeout=wait_s)[0]
            except subprocess.TimeoutExpired:
                continue
            finally:
                self.left_s -= min(self._clock() - before, 2 * wait_s)
        return None
