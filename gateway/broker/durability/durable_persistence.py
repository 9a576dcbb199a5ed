"""Keeps durable sessions over a crash: the journal, and what waits for it.

At the end of each loop turn what happened to durable sessions goes into the log as one frame
(`journal`). Nothing that stands on a frame leaves before the frame is safe: a client must not be
told, or sent, what a restart would not know. With durability ``write`` a frame is safe when the
log has it and nobody waits; with ``sync`` the output of the connections concerned waits for
`fdatasync`, in its order. Time is the caller's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.base.lasting_clock import STEP_S, LastingClock
from gateway.broker.durability.changes import Changes
from gateway.broker.durability.history import History
from gateway.broker.durability.journal import Journal, SessionRecord
from gateway.broker.durability.persistence import Persistence
from gateway.broker.durability.queue_log_reader import QueueLogReader
from gateway.broker.durability.standing_wills import RestoredWills, SavedWill, StandingWills
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client
from gateway.broker.inbound.accepted_message import AcceptedMessage
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions.session import Session
from gateway.mqtt import Will
from tree_handler.batch import Epoch
from tree_handler.holders import SharedGroup
from tree_handler.origin_clocks import OriginClocks, stamp
from tree_handler.retained.message import Retained

MARK_S: Final = 60.0
"""The journal is told the time so often while the log grows: a start knows no better when a
neighbour's message came."""
QUIET_MARK_S: Final = 3600.0
"""And so often while it does not: what a power cut may add to the time that a session lasts."""
RETRY_WRITE_S: Final = 0.05
"""A frame that the log did not take is tried again after so long."""

_log = logging.getLogger(__name__)


class DurablePersistence(Persistence):
    """The durable side of one broker.

    Args:
        history: its log.
        clock: goes on over restarts.
        now: the loop's clock, in seconds.
        origins: the clocks of those whose messages come, counted by that clock; none are known if
            not given.

    Attributes:
        journal: what is to be written.
        wills: those that stand.
        changes: what the next checkpoint has to say.
        clock: as given.

    """

    def __init__(
        self,
        history: History,
        clock: LastingClock,
        now: Callable[[], float],
        origins: OriginClocks | None = None,
    ) -> None:
        self._origins = OriginClocks(history.own) if origins is None else origins
        self._reading = QueueLogReader(history, now)
        super().__init__(history.own, self._reading)
        self.journal = Journal(history.own)
        self._nobody = SessionRecord(0, self.journal)
        self.changes = Changes()
        self.wills = StandingWills(self.journal, self.changes)
        self.clock = clock
        self._history = history
        self._now = now
        self._safe = 0
        self._held: deque[tuple[int, Channel, bytes]] = deque()
        self._failure: OSError | None = None
        """The reason why the log did not take the last frame."""
        self._retry_at_s = 0.0
        self._told_early: tuple[int, OSError | None] | None = None
        self._wall_ahead_s = 0.0
        self._marked = (0.0, 0)
        """The mark's time on the loop's clock and its place in the log, below 0 if unknown."""

    def reads_too(self, spared: Store) -> None:
        """Queues read from there what the log has let go."""
        self._reading.spared = spared

    def go_on(self, changes: Changes, wills: RestoredWills) -> None:
        """The journal goes on from the life before.

        Args:
            changes: what has changed since the last checkpoint.
            wills: those that stand.

        """
        self._reading.waits = True
        self.numbers_messages = self.journal.next_session > 1  # there was one in a life before
        self.changes.take()  # what was restored is no change
        self.changes.again(changes)
        self.wills.go_on(wills)
        self._tell_time()

    # -- what happens to sessions ----------------------------------------------------------------

    def session_opened(self, session: Session) -> None:
        """Note that a session has a client, if it is to outlive its channel."""
        record, known = session.record, (session.client, session.expiry_s)
        if record is None:
            if not session.expiry_s:
                return
            record = self.journal.open()
            self.numbers_messages = True
            session.keep_record(record)
        elif record.away_us is None and record.known == known:
            return
        record.known = known
        self.journal.opened(record, session.client, session.expiry_s)

    def takes(self, session: Session, client: Client, expiry_s: int) -> bool:
        """Ask the log whether a session can be kept that gets a client."""
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
        """Note when the session's client has gone."""
        if session.record is not None:
            self.journal.away(session.record, self.clock.now_us())

    def session_ended(self, session: Session) -> None:
        """Note that the session has ended."""
        if session.record is not None:
            self.journal.ended(session.record)
            self.lacking.ended(session.record.number)
            self.changes.ended.append(session.record.number)
            session.keep_record(None)

    def session_leaves(self, session: Session, groups: Mapping[int, SharedGroup]) -> bool:
        """Note that others go on with what waits for the session, if its end is kept."""
        if session.record is not None:
            session.record.leaves(groups)
        return session.record is not None

    def taken(self, key: Epoch, ranges: Sequence[int], mark: int) -> None:
        """Note that somebody goes on with what a session left."""
        self._nobody.taken(key, ranges, mark)

    def will_stands(self, client: Client, will: Will | None) -> None:
        """Note the will of a client that has come, or that it has none."""
        self.wills.connected(client, will)

    def will_ended(self, client_id: str) -> None:
        """Note that a client's will is not to be published."""
        self.wills.ended(client_id)

    def will_published(self, client_id: str) -> SavedWill | None:
        """Note that a client's will goes into the log, and return it."""
        return self.wills.published(client_id)

    def will_refused(self, saved: SavedWill) -> None:
        """Let a will stand again that the log refused."""
        self.wills.refused(saved)

    def will_tried_again(self, saved: SavedWill) -> None:
        """Note that a refused will goes into the log once more."""
        self.wills.tried_again(saved)

    def will_given_up(self, saved: SavedWill) -> None:
        """Give up a will that was to be published."""
        self.wills.given_up(saved)

    def retained_changed(self, topic: str) -> None:
        """Have the next checkpoint note the topic's retained message."""
        self.changes.retained.add(topic)

    def retained_learnt(self, retained: Retained, *, is_news: bool) -> None:
        """Note a retained message that a neighbour told of."""
        self.journal.learnt(retained.row(), is_news=is_news)

    @property
    def is_refused(self) -> bool:
        """Return whether the log did not take what was last noted."""
        return self._failure is not None

    def was_refused(self) -> None:
        """Note again what the log refused with its batch."""
        self.journal.was_refused()

    def has_delivered(self, stream: Epoch, last: int) -> None:
        """Note up to which number of a stream local sessions were given messages."""
        self.journal.has_delivered(stream, last)

    def delivered(self, stream: Epoch) -> int:
        """Return the last number of a stream that local sessions were given; 0 if none."""
        return self.journal.delivered.get(stream, 0)

    def forget(self, is_over: Callable[[Epoch], bool]) -> None:
        """Forget what was given of streams of which no more can come."""
        self.journal.forget(is_over)
        self.lacking.forget([stream for stream in self.lacking.streams if is_over(stream)])

    # -- how long messages have waited -----------------------------------------------------------

    def lasting_ahead_s(self) -> float:
        """Return the lasting clock less the loop's."""
        return self.clock.now_us() / 1_000_000 - self._now()

    def accepted_us(self) -> int:
        """Return the stamp of a message that is accepted now."""
        return stamp(self.clock.now_us())

    def waited_s(self, stream: Epoch, accepted_us: int) -> float:
        """Return for how long a message has waited, as far as is certain."""
        if not accepted_us:
            return 0.0
        now_us = self.clock.now_us()
        self._origins.accepted(stream, accepted_us, now_us)
        return self._origins.waited_us(stream, accepted_us, now_us) / 1_000_000

    # -- frames --------------------------------------------------------------------------------

    def precede(self, accepted: Sequence[AcceptedMessage]) -> OSError | None:
        """Write what must be in the log before a batch of these messages.

        A QoS 2 message and the identifier under which its publisher sent it must survive
        together, and so must a will and that it is published; a No Local subscription must know
        whose a message was.
        """
        journal = self.journal
        self._look_at_clock()
        index = 0
        for one in accepted:
            if one.message is None:
                continue
            session = one.session
            if one.will is not None and one.will.number:
                journal.publishes_will(one.will.number, index)
            if session is not None and (record := session.outgoing.record) is not None:
                packet_id = one.packet_id if one.message.qos == 2 else 0
                if packet_id or session.no_local:
                    journal.publishes(record, index, packet_id)
            index += 1
        return self.write() if journal.precedes else None

    def write(self) -> OSError | None:
        """Write a frame, if there is anything to say; return the error if the log refuses it."""
        journal = self.journal
        if journal.is_empty:
            return None
        self._look_at_clock()
        if self._failure is not None and self._now() < self._retry_at_s:
            journal.was_refused()
            return self._failure
        ticket = journal.written + 1
        try:
            self._history.remember(journal.frame(), lambda error: self._told(ticket, error))
        except OSError as error:
            journal.was_refused()
            self._failure = error
            self._retry_at_s = self._now() + RETRY_WRITE_S
            return error
        journal.has_written()
        if self._marked[1] < 0:
            self._marked = (self._marked[0], self._history.position)
        self._failure = None
        if self._told_early is not None:
            told, self._told_early = self._told_early, None
            self._told(*told)
        return None

    @property
    def last_frame(self) -> int:
        """Return the number of the frame that was written last."""
        return self.journal.written

    def is_safe(self, frame: int) -> bool:
        """Return whether no crash can take back a frame."""
        return frame <= self._safe

    def hold_back(self, channels: Sequence[Channel]) -> None:
        """Write a frame, and hold back the packets that stand on frames not safe yet."""
        journal = self.journal
        is_left = False
        if not journal.is_empty:
            self.write()
            is_left = not journal.is_empty
        if self._safe < journal.written or is_left:
            ticket = journal.written + is_left
            for channel in channels:
                if channel.stands_on() > self._safe and (packets := channel.take(ticket)):
                    self._held.append((ticket, channel, packets))

    def may_leave(self, channel: Channel) -> bool:
        """Write a frame, and return whether all that a channel stands on is safe."""
        self.write()
        return channel.stands_on() <= self._safe

    def sweep(self, now_s: float) -> None:
        """Write what the log did not take, and the time now and then."""
        marked_at_s, position = self._marked
        has_grown = 0 <= position < self._history.position
        if now_s - marked_at_s >= (MARK_S if has_grown else QUIET_MARK_S):
            self._tell_time()
        self.write()

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
            _, channel, packets = held.popleft()
            channel.let_go(packets)

    def _look_at_clock(self) -> None:
        if abs(self.clock.wall_ahead_s() - self._wall_ahead_s) > STEP_S:
            self._tell_time()  # what follows has the new time in its headers

    def _tell_time(self) -> None:
        self._wall_ahead_s = self.clock.wall_ahead_s()
        self._marked = (self._now(), -1)
        self.journal.marked(self.clock.mark())
