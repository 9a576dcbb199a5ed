"""Writes checkpoints now and then: a start reads little of the log, which is trimmed behind them.

Time is the caller's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.history import History
from gateway.broker.durability.offline_spill import OfflineSpill
from gateway.broker.durability.queue_losses import QueueLosses
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.snapshot import PendingCheckpoint, Snapshots
from gateway.broker.durability.store import Store
from tree_handler.batch import Epoch

CHECKPOINT_BYTES: Final = 8 << 20
"""A checkpoint is made when the log has grown by so much: what a start reads at most, about."""
PARTS_OF_A_LOG: Final = 4
"""A checkpoint is also due when the log has grown by one such part of its size: what stands behind
the last checkpoint is not trimmed."""
CHECKPOINT_S: Final = 300.0
"""A checkpoint is also due when something has changed and so much time has passed."""
WAIT_S: Final = 60.0
"""So long one waits at most for what only the journal tells."""
RETRY_S: Final = 10.0
"""A checkpoint that failed is tried again after so long."""

_log = logging.getLogger(__name__)


class Checkpoints:
    """Those of one broker.

    Args:
        durable: its journal.
        history: its log.
        store: where they are written.
        snapshots: what they say.
        spill: finds what is put by with them.
        commit: hands in what the log is to have before one.
        now: the loop's clock, in seconds.

    Attributes:
        position: up to where the last one knows the log.
        losses: tells of what the log lets go, since a checkpoint allows it, and is waited for.

    """

    def __init__(
        self,
        durable: DurablePersistence,
        history: History,
        store: Store,
        snapshots: Snapshots,
        spill: OfflineSpill,
        commit: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._durable = durable
        self._history = history
        self._store = store
        self._snapshots = snapshots
        self._spill = spill
        self._commit = commit
        self.position = 0
        self.losses = QueueLosses(spill.sessions, history, store)
        self._due_at_s = now()
        self._has_failed = False
        self._saving: asyncio.Task[None] | None = None
        self._waits_since_s = now()

    def go_on_from(self, saved: Checkpoint) -> None:
        """Go on behind the last checkpoint.

        Raises:
            StoreError: the log ends before it, and a new one can't be written.

        """
        self.position = saved.position
        self._spill.behind = min(saved.spared_until, self._history.position)
        self._may_trim(saved.delivered)
        if saved.position > self._history.position:
            self._history.ends_early(saved.position - self._history.position)
            # The log has lost its end. What comes now must not stand where nobody will look.
            taken = self._snapshots.take(self._history.position)
            self._store.save(taken.checkpoint())
            self._has_saved(taken)

    def sweep(self, now_s: float, *, waits: bool = False) -> None:
        """Make a checkpoint if one is due; called twice a second with the loop's clock.

        Args:
            now_s: the time.
            waits: rather not yet, for there is something that only the journal tells.

        """
        self.losses.sweep(now_s)
        if not waits:
            self._waits_since_s = now_s
        if self._saving is not None or now_s < self._due_at_s:
            return
        if now_s - self._waits_since_s < WAIT_S and waits:
            return
        grown = self._history.position - self.position
        due_bytes = min(CHECKPOINT_BYTES, self._history.max_bytes // PARTS_OF_A_LOG)
        aged = now_s - self._due_at_s >= CHECKPOINT_S and grown > 0
        if grown >= due_bytes or aged or self._has_failed:
            self._saving = asyncio.ensure_future(self._save(now_s))

    async def _save(self, now_s: float) -> None:
        self._has_failed = True
        self._due_at_s = now_s + RETRY_S
        try:
            await self.checkpoint()
            self._has_failed = False
            self._due_at_s = now_s
        except Exception as error:  # whatever it is, there must be another one
            is_foreseen = isinstance(error, OSError)
            told = "checkpoint: %s: tried again in %.0f s"
            _log.error(told, error, RETRY_S, exc_info=None if is_foreseen else error)
        finally:
            self._saving = None

    async def settle(self) -> None:
        """Wait until what `sweep` began to write is written, or has failed."""
        while self._saving is not None:
            await asyncio.wait({self._saving})

    async def checkpoint(self) -> None:
        """Write one now.

        Raises:
            LogError, StoreError: disk full or failing; the one before it holds.

        """
        await self._snapshots.prepare()
        await self._spill.prepare(has_any=self._store.has_spared)
        self._commit()
        error = self._durable.write()
        if error is not None:
            raise error
        self._durable.forget(self._history.is_over)
        taken = self._snapshots.take(self._history.position)
        try:
            spared_until = await self._write(taken)
        except BaseException:
            self._snapshots.failed(taken)
            raise
        self._spill.behind = spared_until
        self._has_saved(taken)

    async def _write(self, taken: PendingCheckpoint) -> int:
        """Write a checkpoint, and put by what goes; up to where that is done then."""
        needed = self._spill.look(has_any=self._store.has_spared)
        spared_until = self._spill.behind
        if needed is not None:
            spared_until = min(needed.going.behind, self._owed_from(taken.plain.delivered))
        sync = self._history.start_sync()

        def save() -> None:
            # A checkpoint that knows more than the disk would leave a hole in the history.
            sync()
            self._store.save(replace(taken.checkpoint(), spared_until=spared_until), needed)

        await asyncio.to_thread(save)
        return spared_until

    def _has_saved(self, taken: PendingCheckpoint) -> None:
        self._snapshots.saved(taken)
        self.position = taken.plain.position
        self._may_trim(taken.plain.delivered)

    def _may_trim(self, delivered: Mapping[Epoch, int]) -> None:
        """Let go of what stands before the checkpoint, and had reached the sessions by then.

        What waited for its sync had not: a start gives it to them. What waits for them is put by
        before it goes.
        """
        owed_from = self._owed_from(delivered)
        self._history.may_trim(min(self.position, self._spill.behind, owed_from))

    def _owed_from(self, delivered: Mapping[Epoch, int]) -> int:
        """Return the place from which the log has what had not reached the sessions."""
        history, origin = self._history, self._history.own[0]
        lives = {key for key in (*history.due(), history.own) if key[0] == origin}
        return min(history.where(key, delivered.get(key, 0) + 1) for key in lives)

    async def stop(self) -> None:
        """Make a last checkpoint, so that the next start reads nothing of the log."""
        await self.settle()
        await self.losses.stop()
        try:
            await self.checkpoint()
        except OSError as error:
            _log.error("checkpoint: %s: the next start reads the log instead", error)
        finally:
            self._store.close()
