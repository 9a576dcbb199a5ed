"""Look-ups that take long: a slice of one in each turn of the event loop, askers by turns.

Between slices as much time is left to all others as the last one took, and never less than a thread
needs to have its turn (`gateway.base.in_turns`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.in_turns import SHORT_PAUSE_S

_log = logging.getLogger(__name__)

_Asker = tuple[bool, Hashable]
"""True of a stranger; and for whom."""
LookupStep = Callable[[], bool]
"""Does a slice, and says whether that was the last one."""

PER_ASKER: Final = 8
OF_STRANGERS: Final = 64
UNDER_WAY: Final = 128
"""Look-ups of one asker, of all strangers and of all that are gone on with; others are refused
meanwhile. Who is known has a part that no number of strangers' addresses takes."""


class LookUpTurns:
    """Goes on with what takes long.

    Args:
        call_later: has a function called by the event loop, after so many seconds.
        clock: in seconds.

    """

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call_later = call_later
        self._clock = clock
        self._by_asker: dict[_Asker, deque[LookupStep]] = {}
        self._is_called = False
        self._failures = Failures(CountedLines(_log, clock))

    def has_room(self, asker: Hashable, *, is_stranger: bool = False) -> bool:
        """Return whether one more may begin for somebody."""
        if len(self._by_asker.get((is_stranger, asker), ())) >= PER_ASKER:
            return False
        by_strangers = [len(steps) for of, steps in self._by_asker.items() if of[0]]
        if is_stranger and sum(by_strangers) >= OF_STRANGERS:
            return False
        return sum(map(len, self._by_asker.values())) < UNDER_WAY

    def begin(
        self, asker: Hashable, step: LookupStep, *, is_stranger: bool = False
    ) -> Callable[[], None]:
        """Go on with something from the next turn on.

        Args:
            asker: for whom; each has a slice in turn.
            step: does a slice.
            is_stranger: nobody knows who that is.

        Returns:
            What ends it before its end.

        """
        of = (is_stranger, asker)
        steps = self._by_asker.setdefault(of, deque())
        steps.append(step)
        self._wake(0.0)

        def end() -> None:
            if step in steps:
                steps.remove(step)
                self._leave(of)

        return end

    def _wake(self, pause_s: float) -> None:
        if self._by_asker and not self._is_called:
            self._is_called = True
            self._call_later(pause_s, self._turn)

    def _turn(self) -> None:
        self._is_called = False
        if not self._by_asker:
            return
        asker = next(iter(self._by_asker))
        steps = self._by_asker.pop(asker)
        self._by_asker[asker] = steps  # behind all others
        step = steps[0]
        began = self._clock()
        is_done = True
        try:
            is_done = self._is_over(step)
        finally:
            if is_done and steps and steps[0] is step:
                steps.popleft()
            self._leave(asker)
            self._wake(max(SHORT_PAUSE_S, self._clock() - began))

    def _is_over(self, step: LookupStep) -> bool:
        """Do a slice; one that fails is the last, and keeps no other look-up waiting."""
        try:
            return step()
        except Exception as error:  # nobody foresaw it, or the asker was told
            self._failures.failed("look-up", error)
            return True

    def _leave(self, asker: _Asker) -> None:
        if not self._by_asker.get(asker, True):
            del self._by_asker[asker]
