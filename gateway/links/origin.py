"""What this gateway publishes: gathered into batches, logged, settled, and sent on its way."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gateway.broker.hooks import Committed
from gateway.broker.message_log import Done, LogError, MessageLog
from gateway.links.commit import GroupCommit
from gateway.links.outbox import Outbox
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Row
from tree_handler.replication import Action, Append, Replication

_NO_FLAGS = Flags(0)

_log = logging.getLogger(__name__)


class Origin:
    """This gateway as the origin of batches.

    Args:
        log: the open message log.
        replication: numbers the batches and says where they go.
        commit: tells who waits when the log has them.
        replicate: carries out what replication decides.

    """

    def __init__(
        self,
        log: MessageLog,
        replication: Replication,
        commit: GroupCommit,
        replicate: Callable[[Iterable[Action]], None],
    ) -> None:
        self._log = log
        self._replication = replication
        self._commit = commit
        self._replicate = replicate
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self.flush)

    def publish(self, entry: Entry, *, control: bool) -> asyncio.Future[None] | None:
        """See `TreeNode.publish`."""
        return self._outbox.add(entry, control=control)

    def publish_all(
        self, logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None
    ) -> None:
        """See `TreeNode.publish_all`."""
        self.flush()
        first = self._replication.next_logged if logged else 0
        waiting: list[Done] = [] if done is None else [partial(_tell, done, first)]
        self._accept(((Flags.LOGGED, logged), (_NO_FLAGS, unlogged)), waiting)

    def flush(self) -> None:
        """Make batches of what `publish` has gathered."""
        if not self._outbox.is_empty:
            gathered, waiting = self._outbox.take()
            self._accept(gathered.items(), waiting)

    def _accept(self, gathered: Iterable[tuple[Flags, Sequence[Row]]], waiting: list[Done]) -> None:
        now_us = time.time_ns() // 1000
        sends: list[Action] = []
        try:
            for flags, rows in gathered:
                for part in batch.cut(rows):
                    for action in self._replication.publish(part, flags, now_us):
                        if isinstance(action, Append):
                            self._log.append(action.frame, action.header)
                            sends += self._replication.appended(action)
                        else:
                            sends.append(action)
        except LogError as error:
            _log.error("%s", error)
            self._commit.refuse(waiting, error)
        else:
            self._commit.settle(waiting)
        if sends:  # when this turn has written: local clients do not wait for links
            self._loop.call_soon(self._replicate, sends)


def _tell(done: Committed, first: int, error: OSError | None) -> None:
    done(first if error is None else 0, error)
