"""Turns of the event loop: what one turn gathers is committed and written at its end.

One commit and one write for each connection serve all that a turn brings, however much that is.
To wait for the turn's end costs a single message a round of the loop, though. So while a turn has
but one read, the next few reads end their turns themselves; then one waits again, to see whether
it is still alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

READS_ALONE: Final = 8
"""So many reads end their turn themselves, after one that was alone in its own."""


class Turns:
    """Ends turns.

    Args:
        end: commits and writes what is due; called at the end of a turn that needs it. It returns
            whether it left anything that is due at the end of the next turn.

    """

    __slots__ = ("_end", "_is_needed", "_is_open", "_is_reading", "_loop", "_reads", "_reads_alone")

    def __init__(self, end: Callable[[], bool]) -> None:
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._is_open = False
        """True if an end of this turn is already to come."""
        self._is_reading = False
        self._is_needed = False
        """True if the read that is being dealt with ends its turn itself."""
        self._reads = 0
        """In this turn."""
        self._reads_alone = 0
        """So many more of the next reads end their turns themselves."""

    def need(self) -> None:
        """Something has become due: let this turn have an end."""
        if self._is_open:
            return
        if self._is_reading and self._reads_alone:
            self._is_needed = True
        else:
            self._is_open = True
            self._reads = self._reads_alone = 0
            self._loop.call_soon(self._finish)

    def read_begins(self) -> None:
        """A connection's read is being dealt with: `read_ends` decides when its turn ends."""
        self._is_reading = True

    def read_ends(self) -> None:
        """End a read: what it brought is due now if reads come alone, with the others if not."""
        self._is_reading = False
        if self._is_needed:
            self._is_needed = False
            self._reads_alone -= 1
            self._finish()
        elif self._is_open:
            self._reads += 1
            self._reads_alone = READS_ALONE if self._reads == 1 else 0

    def _finish(self) -> None:
        self._is_open = True  # what the end itself makes due, it also deals with
        is_more_due = True
        try:
            is_more_due = self._end()
        finally:
            self._is_open = False
            if is_more_due:
                self.need()
