"""Looks through segments of the log in which damage was met, beside what the event loop does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import MessageLog
from gateway.log.segment import Segment
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

NOT_LOOKED_THROUGH: Final = "damaged segment that can't be looked through"
REFUSED_S: Final = 60.0
"""A range that the disk refuses to read may come again: it is lost when refused for so long."""


class Surveys:
    """The looks through damaged segments, one at a time.

    Args:
        log: the open log.
        lost: is told what a segment has not any more.
        refusals: is told of a segment that can't be read; it is tried again.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        log: MessageLog,
        lost: Callable[[Mapping[Epoch, Intervals]], None],
        refusals: CountedLines,
        now: Callable[[], float],
    ) -> None:
        self._log = log
        self._lost = lost
        self._refusals = refusals
        self._now = now
        self._refused: dict[Path, float] = {}
        """The times since which blocks of a segment are refused."""
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look through the next damaged segment, if there is one and none is looked through."""
        if self._looking is None and (look := self._log.start_survey()) is not None:
            self._looking = asyncio.create_task(self._look(look), name="survey of the log")

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self, look: Callable[[], Segment]) -> None:
        try:
            found = await asyncio.to_thread(look)
            if self._may_come_again(found.path):
                self._log.survey_again(found.path)
                self._refusals.count(NOT_LOOKED_THROUGH, f"{found.path}: the disk refuses blocks")
            else:
                self._lost(self._log.end_survey(found))
        except Exception as error:  # the next round tries again
            if isinstance(error, FileNotFoundError) and self._log.has_trimmed(error.filename):
                return
            self._refusals.count(NOT_LOOKED_THROUGH, str(error), level=logging.ERROR)
        finally:
            self._looking = None

    def _may_come_again(self, path: Path) -> bool:
        since = self._refused.pop(path, self._now())
        if not self._log.is_refused(path):
            return False
        self._refused[path] = since
        return self._now() - since < REFUSED_S
