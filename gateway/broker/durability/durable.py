"""Keeps durable sessions over a crash: journal, what waits for it, and checkpoints.

At the end of each loop turn what happened to durable sessions goes into the log as one frame
(`journal`). Nothing that stands on a frame leaves before the frame is safe: a client must not be
told, or sent, what a restart would not know. With durability ``write`` a frame is safe when the
log has it and nobody waits; with ``sync`` the output of the connections concerned waits for
`fdatasync`, in its order.

Now and then a checkpoint is written to SQLite, so that a start reads little of the log and the
log may be trimmed behind it. Time is the caller's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from gateway.broker.durability.lasting_clock import STEP_S, LastingClock
from gateway.broker.durability.snapshot import Snapshots, Taken
from gateway.broker.durability.standing_wills import StandingWills
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.inbound.runs import one_by_one
from gateway.broker.outbound.outgoing import flush
from gateway.log.message_log import Done
from tree_handler.batch import Epoch, Header
from tree_handler.retained.message import Retained

if TYPE_CHECKING:
    from gateway.broker.durability.recovery import Recovered
    from gateway.broker.durability.saved import Checkpoint
    from gateway.broker.hooks import Client
    from gateway.broker.inbound.runs import Run, Together
    from gateway.broker.outbound.message import Message
    from gateway.broker.outbound.outgoing import Outgoing
    from gateway.broker.server import BrokerCore
    from gateway.broker.sessions.session import Session

CHECKPOINT_BYTES = 8 << 20
"""A checkpoint is made when the log has grown by so much: what a start reads at most, about."""
CHECKPOINT_S = 300.0
"""And when something has changed and so much time has passed."""
MARK_S = 60.0
"""The journal is told the time so often while the log grows: a start knows no better when a
neighbour's message came."""
QUIET_MARK_S = 3600.0
"""And so often while it does not: what a power cut may add to the time that a session lasts."""
RETRY_WRITE_S = 0.05
"""A frame that the log did not take is tried again after so long."""
RETRY_S = 10.0
"""A checkpoint that failed is tried again after so long."""

_log = logging.getLogger(__name__)


class History(Protocol):
    """The log as the broker sees it."""

    own: Epoch
    """This gateway's id and boot epoch, under which its frames stand in the log."""

    @property
    def position(self) -> int:
        """Where the next frame will stand."""

    def remember(self, frame: bytes, done: Done) -> None:
        """Append a journal frame; ``done`` is told when it is safe, perhaps at once.

        Raises:
            LogError: the log did not take it; ``done`` is not called.

        """

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        """All frames of the log from a position on."""

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        """The batches of one stream that hold any of these numbers, in sequence."""

    def where(self, key: Epoch, number: int) -> int:
        """A position before a message of a stream; that of the end if it is not there."""

    def due(self) -> dict[Epoch, int]:
        """Up to which number clients have, or are due, the messages of each stream of clients."""

    def start_sync(self) -> Callable[[], None]:
        """Force to the disk all that the log has; a call for a thread."""

    def may_trim(self, before: int) -> None:
        """What stands before this position is in a checkpoint."""


class Durable:
    """The durable side of one broker.

    Args:
        core: the broker.
        history: its log.
        store: its checkpoints.
        found: what recovery found.

    """

    def __init__(self, core: BrokerCore, history: History, store: Store, found: Recovered) -> None:
        self.journal = found.journal
        self.logged = found.logged
        """From which the queues of sessions read."""
        self._clock: LastingClock = found.clock
        self.wills = StandingWills(found.journal, found.wills)
        self._core = core
        self._history = history
        self._store = store
        self._snapshots = Snapshots(core, found, self.wills)
        self._safe = 0
        self._held: deque[tuple[int, Outgoing, bytes]] = deque()
        self._failure: OSError | None = None
        """Why the log did not take the last frame."""
        self._retry_at_s = 0.0
        self._told_early: tuple[int, OSError | None] | None = None
        self._position = 0
        self._checkpoint_at_s = core.now()
        self._saving: asyncio.Task[None] | None = None
        self._wall_ahead_s: float
        self._marked = (0.0, 0)
        """When on the loop's clock, and about where in the log; less than 0 if not yet there."""
        self._tell_time()

    def start(self, saved: Checkpoint) -> None:
        """Go on behind the last checkpoint.

        Raises:
            StoreError: the log ends before it, and a new one can't be written.

        """
        self._position = saved.position
        self._may_trim(saved.delivered)
        if saved.position > self._history.position:
            # The log has lost its end. What comes now must not stand where nobody will look.
            taken = self._snapshots.take(self._history.position)
            self._store.save(taken.checkpoint())
            self._has_saved(taken)

    # -- what happens to sessions ----------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """A session has a client, an expiry: if it is to outlive its connection, note it."""
        if session.record is None:
            if not session.expiry_s:
                return
            session.record = self.journal.open()
        elif session.record.away_us is None and session.record.known == (
            session.client,
            session.expiry_s,
        ):
            return
        session.record.known = (session.client, session.expiry_s)
        self.journal.opened(session.record, session.client, session.expiry_s)

    def takes(self, session: Session, client: Client, expiry_s: int) -> bool:
        """Whether the log takes it that a session has a client; nothing has changed if it doesn't.

        Args:
            session: new, or without a connection.
            client: who is about to be served.
            expiry_s: how long the session is to be kept without a connection.

        """
        record = session.record
        if record is None and not expiry_s:
            return True  # it ends with its connection
        before = session.client, session.expiry_s
        session.client, session.expiry_s = client, expiry_s
        self.session_opened(session)
        if self.write() is None:
            return True
        session.client, session.expiry_s = before
        if record is None:
            self.session_ended(session)
        else:
            self.session_opened(session)
            self.session_away(session)
        return False

    def session_away(self, session: Session) -> None:
        """A session's client has gone."""
        if session.record is not None:
            self.journal.away(session.record, self._clock.now_us())

    def session_ended(self, session: Session) -> None:
        """A session is no more."""
        if session.record is not None:
            self.journal.ended(session.record)
            self._snapshots.ended(session.record)
            session.record = None

    def retained_changed(self, topic: str) -> None:
        """A topic has another retained message, or none."""
        self._snapshots.retained_changed(topic)

    def retained_placed(self, message: Message) -> None:
        """A message of QoS 0 that was retained before the log had it has its place there now."""
        self._core.retention.placed(message)
        self._snapshots.retained_changed(message.topic)

    def retained_learnt(self, retained: Retained, *, is_news: bool) -> None:
        """A neighbour told of a retained message, and it is taken."""
        self.journal.learnt(retained.row(), is_news=is_news)

    @property
    def is_refused(self) -> bool:
        """Whether the log did not take what was last noted."""
        return self._failure is not None

    # -- frames --------------------------------------------------------------------------------

    def precede(self, runs: Sequence[Run | Together]) -> OSError | None:
        """Write what must be in the log before a batch of these messages; the error if it can't.

        A QoS 2 message and the identifier under which its publisher sent it must survive
        together, and so must a will and that it is published; a No Local subscription must know
        whose a message was.
        """
        journal = self.journal
        self._look_at_clock()
        index = 0
        matters = journal.has_sessions or any(run.will for run in runs)
        for run in one_by_one(runs) if matters else ():
            session = run.session
            if run.will:
                journal.publishes_will(run.will, index)
            if session is not None and session.record is not None:
                for at in range(len(run.messages)):
                    packet_id = run.packet_id_of_2(at)
                    if packet_id or session.no_local:
                        journal.publishes(session.record, index + at, packet_id)
            index += len(run.messages)
        return self.write() if journal.precedes else None

    def write(self) -> OSError | None:
        """Write a frame if there is anything to say; the error if the log does not take it."""
        journal = self.journal
        if journal.is_empty:
            return None
        self._look_at_clock()
        if self._failure is not None and self._core.now() < self._retry_at_s:
            journal.was_refused()
            return self._failure
        ticket = journal.written + 1
        try:
            self._history.remember(journal.frame(), partial(self._told, ticket))
        except OSError as error:
            journal.was_refused()
            self._failure = error
            self._retry_at_s = self._core.now() + RETRY_WRITE_S
            return error
        journal.has_written()
        if self._marked[1] < 0:
            self._marked = (self._marked[0], self._history.position)
        self._failure = None
        if self._told_early is not None:
            told, self._told_early = self._told_early, None
            self._told(*told)
        return None

    def flush(self, dirty: Sequence[Outgoing]) -> None:
        """At the end of a turn: write the frame, then the output of those who need not wait."""
        self.write()
        if self._safe < self.journal.written or not self.journal.is_empty:
            for connection in dirty:
                session = connection.session
                if session is not None and session.record is not None:
                    self._hold_back(connection)
        flush(dirty, self._core.traffic)

    def _hold_back(self, connection: Outgoing) -> None:
        """Keep the output of a connection if it stands on what is not safe yet."""
        if self._stands_on(connection) > self._safe and (packets := connection.take()):
            ticket = self.journal.written + (not self.journal.is_empty)
            connection.held_ticket = ticket
            connection.hold(len(packets))
            self._held.append((ticket, connection, packets))

    def may_leave(self, connection: Outgoing) -> bool:
        """Whether a connection's output stands on nothing that a crash could take back."""
        self.write()
        return self._stands_on(connection) <= self._safe

    @staticmethod
    def _stands_on(connection: Outgoing) -> int:
        session = connection.session
        record = None if session is None else session.record
        return (
            connection.held_ticket if record is None else max(record.ticket, connection.held_ticket)
        )

    def _told(self, ticket: int, error: OSError | None) -> None:
        if ticket > self.journal.written:
            # Within the append. What this lets go may note something more: in the next frame.
            self._told_early = ticket, error
            return
        if error is not None:
            _log.error("journal: %s", error)
            self.journal.precedes = True  # another frame, whose sync may fare better
            return
        self._safe = ticket
        held = self._held
        while held and held[0][0] <= ticket:
            _, connection, packets = held.popleft()
            connection.let_go(packets)

    def _look_at_clock(self) -> None:
        if abs(self._clock.wall_ahead_s() - self._wall_ahead_s) > STEP_S:
            self._tell_time()  # what follows has the new time in its headers

    def _tell_time(self) -> None:
        self._wall_ahead_s = self._clock.wall_ahead_s()
        self._marked = (self._core.now(), -1)
        self.journal.marked(self._clock.mark())

    # -- checkpoints -----------------------------------------------------------------------------

    def sweep(self, now_s: float) -> None:
        """Twice a second: write what the log did not take, make a checkpoint if one is due."""
        marked_at_s, position = self._marked
        has_grown = 0 <= position < self._history.position
        if now_s - marked_at_s >= (MARK_S if has_grown else QUIET_MARK_S):
            self._tell_time()
        self.write()
        if self._saving is not None or now_s < self._checkpoint_at_s:
            return
        grown = self._history.position - self._position
        aged = now_s - self._checkpoint_at_s >= CHECKPOINT_S and grown > 0
        if grown >= CHECKPOINT_BYTES or aged:
            self._saving = asyncio.ensure_future(self._save(now_s))

    async def _save(self, now_s: float) -> None:
        try:
            await self.checkpoint()
            self._checkpoint_at_s = now_s
        except OSError as error:
            _log.error("checkpoint: %s", error)
            self._checkpoint_at_s = now_s + RETRY_S
        finally:
            self._saving = None

    async def checkpoint(self) -> None:
        """Write one now.

        Raises:
            LogError, StoreError: disk full or failing; the one before it holds.

        """
        self._core.acceptance.commit()
        error = self.write()
        if error is not None:
            raise error
        taken = self._snapshots.take(self._history.position)
        sync = self._history.start_sync()

        def save() -> None:
            # A checkpoint that knows more than the disk would leave a hole in the history.
            sync()
            self._store.save(taken.checkpoint())

        try:
            await asyncio.to_thread(save)
        except BaseException:
            self._snapshots.failed(taken)
            raise
        self._has_saved(taken)

    def _has_saved(self, taken: Taken) -> None:
        self._snapshots.saved(taken)
        self._position = taken.position
        self._may_trim(taken.delivered)

    def _may_trim(self, delivered: Mapping[Epoch, int]) -> None:
        """Let go of what stands before the checkpoint, and had reached the sessions by then.

        What waited for its sync had not: a start gives it to them.
        """
        history, origin = self._history, self._history.own[0]
        lives = {key for key in (*history.due(), history.own) if key[0] == origin}
        owed_from = [history.where(key, delivered.get(key, 0) + 1) for key in lives]
        history.may_trim(min(self._position, *owed_from))

    async def stop(self) -> None:
        """Make a last checkpoint, so that the next start reads nothing of the log."""
        while self._saving is not None:
            await asyncio.wait({self._saving})
        try:
            await self.checkpoint()
        except (OSError, StoreError) as error:
            _log.error("checkpoint: %s", error)
        self._store.close()
