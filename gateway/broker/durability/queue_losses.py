"""Tells what the log has let go that sessions still wait for, as soon as it is gone.

Beyond what is put by for them (`offline_spill`) it is lost, and an operator is to hear of it then,
not when the client comes back. What is looked at is ranges of numbers, and of those only what
begins before the log does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from gateway.broker.durability.history import History
from gateway.broker.durability.slices import others, slice_ends_s
from gateway.broker.durability.store import Store
from gateway.broker.sessions.places import Places
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals

RETRY_S: Final = 10.0
"""If what is put by can't be read, it is looked again after so long."""

_log = logging.getLogger(__name__)


class QueueLosses:
    """Those of one broker.

    Args:
        sessions: who waits.
        log: what they wait for.
        put_by: what of it is put by.

    """

    def __init__(self, sessions: Sessions, log: History, put_by: Store) -> None:
        self._sessions = sessions
        self._log = log
        self._put_by = put_by
        self._looked_at = -1
        """The number of trims that was seen last. The life before may have ended before it told of
        its last."""
        self._due_at_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    def sweep(self, now_s: float) -> None:
        """Look if the log has let go of anything; called with the loop's clock, now and then."""
        if self._looking is None and self._looked_at != self._log.trims and now_s >= self._due_at_s:
            self._looking = asyncio.ensure_future(self._look(now_s))

    async def _look(self, now_s: float) -> None:
        try:
            await self.look()
        except Exception as error:  # whatever it is, it is looked again
            self._due_at_s = now_s + RETRY_S
            is_foreseen = isinstance(error, OSError)
            told = "what the log has let go is not told yet: %s: looked again in %.0f s"
            _log.error(told, error, RETRY_S, exc_info=None if is_foreseen else error)
        finally:
            self._looking = None

    async def look(self) -> None:
        """Drop what waits and is gone, and count it.

        Raises:
            OSError: what is put by can't be read.

        """
        trims, kept_from = self._log.trims, self._log.kept_from()
        waiting: list[tuple[Session, list[Places]]] = []
        until_s = slice_ends_s()
        for session in list(self._sessions.values()):
            places = session.outgoing.backlog.places_before(kept_from)
            if places:
                waiting.append((session, places))
            until_s = await others(until_s)
        if waiting:
            for session, lost in await asyncio.to_thread(self._lost, waiting, kept_from):
                for _ in session.outgoing.backlog.forget(lost):
                    until_s = await others(until_s)
        self._looked_at = trims

    def _lost(
        self, waiting: list[tuple[Session, list[Places]]], kept_from: Mapping[Epoch, int]
    ) -> list[tuple[Session, dict[Epoch, Intervals]]]:
        """Work out what is gone, by whose it is; in a thread."""
        spared: dict[Epoch, Intervals] = {}
        found: list[tuple[Session, dict[Epoch, Intervals]]] = []
        for session, pieces in waiting:
            lost: defaultdict[Epoch, Intervals] = defaultdict(Intervals)
            for places in pieces:
                for run in places.runs():
                    key = run.way[0]
                    last = min(run.last, kept_from.get(key, run.last + 1) - 1)
                    if last < run.first:
                        continue
                    if key not in spared:
                        spared[key] = self._put_by.spared_numbers(key)
                    for first, until in spared[key].missing(run.first, last):
                        lost[key].add(first, until)
            if lost:
                found.append((session, dict(lost)))
        return found

    async def stop(self) -> None:
        """Look no more."""
        if self._looking is not None:
            await asyncio.wait({self._looking})
