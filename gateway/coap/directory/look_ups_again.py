"""Observed look-ups that have changed: made again one after the other, and told."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from coap_engine import codes
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.told_in_turns import TOLD_AT_ONCE
from resource_directory.exchange import GET, DirectoryAnswer, DirectoryRequest, SlowLookUp
from resource_directory.service import DirectoryService

_log = logging.getLogger(__name__)

AskedLookUp = tuple[tuple[str, ...], tuple[str, ...], int | None]
"""Path, query and Accept: who asks for the same is answered the same."""
TellWatch = Callable[[int, DirectoryAnswer], None]
"""Tells who has a watch."""
PassOn = Callable[[AskedLookUp, Iterable[int]], None]
"""Takes a look-up that takes several turns, and the watches that are to be told."""


class LookUpsAgain:
    """Look-ups that have changed, in the order in which they did; the first is under way.

    Args:
        service: the directory's.
        now: its time, seconds.
        turns: where it goes on.
        tell: tells one of those who observe.
        pass_on: takes what takes several turns; None to go on with it here.

    """

    def __init__(
        self,
        service: DirectoryService,
        now: Callable[[], float],
        turns: LookUpTurns,
        tell: TellWatch,
        pass_on: PassOn | None = None,
    ) -> None:
        self._service = service
        self._now = now
        self._turns = turns
        self._tell = tell
        self._pass_on = pass_on
        self._changed: dict[AskedLookUp, set[int]] = {}
        self._again: SlowLookUp | None = None
        """The first, if it takes several turns."""
        self._answer: DirectoryAnswer | None = None
        """Its answer, and the watches that are to be told of it."""
        self._telling: deque[int] = deque()
        self._failures = Failures(CountedLines(_log, time.monotonic))

    def add(self, look_up: AskedLookUp, watch: int) -> None:
        """Make a look-up again for one who observes it, from the next turn on."""
        is_idle = not self._changed
        self._changed.setdefault(look_up, set()).add(watch)
        if is_idle:
            self._turns.begin(self, self._go_on)

    def _go_on(self) -> bool:
        """Go on with the look-up that changed first; return whether there is no more to tell."""
        look_up = next(iter(self._changed))
        step = partial(self._tell_of, look_up)
        if not self._failures.tried("tell of a look-up", step, "/".join(look_up[0])):
            self._give_up(look_up)
        return not self._changed

    def _give_up(self, look_up: AskedLookUp) -> None:
        """End the observation of a look-up that can't be answered any more; the others go on."""
        failed = DirectoryAnswer(codes.INTERNAL_SERVER_ERROR)
        for watch in sorted(self._taken(look_up)):
            step = partial(self._tell, watch, failed)
            self._failures.tried("tell an observer of a look-up", step)

    def _taken(self, look_up: AskedLookUp) -> set[int]:
        """Return who is to be told of a look-up, which is left here."""
        watches = self._changed.pop(look_up, set()).union(self._telling)
        self._again = self._answer = None
        self._telling = deque()
        return watches

    def _tell_of(self, look_up: AskedLookUp) -> None:
        if self._answer is None:
            self._look_up(look_up)
        if self._answer is None:
            return
        for _ in range(min(TOLD_AT_ONCE, len(self._telling))):
            step = partial(self._tell, self._telling.popleft(), self._answer)
            self._failures.tried("tell an observer of a look-up", step)
        if not self._telling:
            self._answer = None
            changed_meanwhile = self._changed.pop(look_up)
            if changed_meanwhile:
                self._changed[look_up] = changed_meanwhile  # behind all others

    def _look_up(self, look_up: AskedLookUp) -> None:
        """Do a part of a look-up, or have its answer."""
        if self._again is None:
            # What changes from here on is told in another notification.
            self._telling = deque(sorted(self._changed[look_up]))
            self._changed[look_up] = set()
            path, query, accept = look_up
            asked = DirectoryRequest(GET, path, query, accept=accept)
            answer = self._service.answer(asked, self._now())
        else:
            answer = self._service.go_on(self._again) or self._again
        if isinstance(answer, SlowLookUp) and self._pass_on is not None:
            self._pass_on(look_up, self._taken(look_up))
            return
        self._again = answer if isinstance(answer, SlowLookUp) else None
        self._answer = answer if isinstance(answer, DirectoryAnswer) else None
