"""Answers that took work, kept for whoever asks the same while the tables stay as they are."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from gateway.web.ready_answer import ReadyAnswer

BYTES_MAX: Final = 32 << 20
"""Of all answers that are kept, and of their questions."""
WORK_MAX: Final = 64
"""Questions that wait for a thread, or are worked upon."""
_ENTRY_BYTES: Final = 400
"""The estimated size of an answer besides its texts, as Python keeps it."""

AnswerKey = tuple[str | int | None, ...]
"""A question, with how often the tables that it is asked of have changed."""


class TooManyQuestionsError(Exception):
    """More is asked than the threads get done; the message names the bound."""

    def __init__(self, many: int) -> None:
        super().__init__(f"{many} questions wait already")


class SharedAnswers:
    """Has each question worked out once, however many ask it. To be used on one event loop.

    Args:
        threads: where the work is done.
        bytes_max: the answers that were asked for longest ago go, so that no more is kept.
        work_max: see `WORK_MAX`.

    """

    def __init__(
        self, threads: Executor, bytes_max: int = BYTES_MAX, work_max: int = WORK_MAX
    ) -> None:
        self._threads = threads
        self._bytes_max = bytes_max
        self._work_max = work_max
        self._kept: OrderedDict[AnswerKey, ReadyAnswer] = OrderedDict()
        self._under_way: dict[AnswerKey, asyncio.Future[ReadyAnswer]] = {}
        self.size_bytes = 0
        """The size of what is kept."""

    async def answer(self, question: AnswerKey, work: Callable[[], ReadyAnswer]) -> ReadyAnswer:
        """Answer as before, or work it out. What fails is not kept.

        Args:
            question: has all that the answer depends on.
            work: makes the answer, in a thread.

        Raises:
            TooManyQuestionsError: too many others wait.

        """
        kept = self._kept.get(question)
        if kept is not None:
            self._kept.move_to_end(question)
            return kept
        waiting = self._under_way.get(question)
        if waiting is None:
            if len(self._under_way) >= self._work_max:
                raise TooManyQuestionsError(self._work_max)
            waiting = asyncio.get_running_loop().run_in_executor(self._threads, work)
            self._under_way[question] = waiting
            waiting.add_done_callback(lambda done: self._done(question, done))
        # Others wait for it too when the one who asked first has gone.
        return await asyncio.shield(waiting)

    def _done(self, question: AnswerKey, done: asyncio.Future[ReadyAnswer]) -> None:
        del self._under_way[question]
        if done.cancelled() or done.exception() is not None:
            return
        answer = done.result()
        self._kept[question] = answer
        self.size_bytes += _size(question, answer)
        while self.size_bytes > self._bytes_max:
            self.size_bytes -= _size(*self._kept.popitem(last=False))


def _size(question: AnswerKey, answer: ReadyAnswer) -> int:
    texts = sum(4 * len(each) for each in question if isinstance(each, str))
    return _ENTRY_BYTES + texts + len(answer.body) + len(answer.zipped)
