"""Arrives at the durable state of a broker again: the last checkpoint, and the log behind it.

The history is read in the order in which it was written. A batch is given to sessions with the
broker's own routes when the journal says that it had been delivered by then: before a change of
subscriptions that follows it, or before a message of it was sent; and in the end what is left.
So each message reaches the sessions that had subscribed when it was accepted, once. What a
journal frame then says of its exchange is done to the session by the same calls as in life. Nothing
is connected yet, so every message goes to a queue.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from gateway.base.lasting_clock import Dating
from gateway.broker.durability.changes import Changes
from gateway.broker.durability.durable_persistence import MARK_S, QUIET_MARK_S, DurablePersistence
from gateway.broker.durability.history import History
from gateway.broker.durability.journal import Event, Operation
from gateway.broker.durability.journal_frame import Frame, JournalError, Move
from gateway.broker.durability.lives import Lives
from gateway.broker.durability.lost_places import take_out
from gateway.broker.durability.recovered import RecoveryCounts
from gateway.broker.durability.replayed_delivery import ReplayedDelivery
from gateway.broker.durability.restored_batches import ReadBatch, RestoredBatches
from gateway.broker.durability.restored_retained import NeighbourRetained, unearthed
from gateway.broker.durability.restored_sessions import RestoredSessions, RestoreTargets
from gateway.broker.durability.saved import Checkpoint, SavedMessage
from gateway.broker.durability.standing_wills import RestoredWills, SavedWill
from gateway.broker.outbound.message import EXPIRY, LearntMessage, Message
from gateway.broker.sessions.estates import Estate
from gateway.broker.sessions.session import Session
from gateway.mqtt import PacketError
from tree_handler import batch
from tree_handler.batch import MAX_NUMBER, Entry, Epoch, Header, Ref
from tree_handler.errors import BatchError, ProtocolError

_log = logging.getLogger(__name__)


class Recovery:
    """Restores one broker that has no connections yet.

    Args:
        parts: what is restored, empty.
        history: its log.
        durable: goes on with what was found; its clock not yet from the life before.
        now_s: on the loop's clock.

    """

    def __init__(
        self, parts: RestoreTargets, history: History, durable: DurablePersistence, now_s: float
    ) -> None:
        self._parts = parts
        self._history = history
        self._durable = durable
        self._now_s = now_s
        self._clock = clock = durable.clock
        self._dating = Dating(clock, None)
        self._undated: list[ReadBatch] = []
        self._lacking = lacking = durable.lacking
        self._batches = RestoredBatches(history, lacking, self._strange)
        self._lives = Lives(history.own[0])
        self._changes = Changes()
        self._wills = RestoredWills((), self._changes)
        self._expected: dict[int, tuple[Session, int]] = {}
        """The publisher of each number of the batch to come, and the packet identifier."""
        self._publishers: dict[Ref, Session] = {}
        self._delivery = ReplayedDelivery(parts.groups)
        self._sessions = RestoredSessions(
            parts, self._delivery, lacking, self._changes, self._strange, durable.logged, now_s
        )
        self._odd = self._had_before = self._left_out = 0
        self._read_at_us: int | None = None
        """The time when the journal frame was written that is being read."""

    @property
    def estates(self) -> list[Estate]:
        """Return what sessions had left that nobody had gone on with."""
        return self._sessions.estates.rest()

    @property
    def wills_standing(self) -> list[SavedWill]:
        """The wills of clients that were there, or away with a delay, when the process ended."""
        return list(self._wills.standing.values())

    def run(self, saved: Checkpoint) -> RecoveryCounts:
        """Restore; ``saved`` is the last checkpoint."""
        standing = [one for one in saved.wills.values() if one is not None]
        self._wills = RestoredWills(standing, self._changes)
        if saved.mark is not None:
            self._clock.go_on_from(saved.mark)
            self._dating = Dating(self._clock, saved.mark)
            self._life = saved.mark.epoch
        self._batches.begin(saved.position, self._dating.begin_us)
        self._load(saved)
        for frame, header in self._history.read_from(saved.position):
            if header.local and not header.numbered:
                self._frame(frame, header)
            elif header.clients:
                self._batch(frame, header)
            else:
                self._lives.noted(header)
        self._life_ended()
        due = self._history.due()
        for key in self._lives.in_order(due):
            self._return(key)
            self._advance(key, due[key])
        return self._finish(saved)

    # -- the checkpoint --------------------------------------------------------------------------

    def _load(self, saved: Checkpoint) -> None:
        self._sessions.next_number = saved.next_session
        self._lacking.load(saved.lacking)
        for key, last in saved.delivered.items():
            self._batches.load(key, last)
            self._lives.was_given(key)
        messages: dict[Ref, Message] = {}
        for one in saved.messages():
            if one.ref not in messages:
                messages[one.ref] = self._message(one)
        for session in take_out(saved.sessions, self._history, self._lacking):
            self._sessions.load(session, messages, self._clock.now_us())
        for retained in saved.retained.values():
            if retained is not None:
                self._parts.retention.retain(messages[retained.ref], is_again=True)
        self._left_out = saved.left_out + self._parts.retention.without_room
        for topic, grave in saved.tombstones.items():
            if grave is not None:
                buried = unearthed(grave, self._now_s, self._clock.now_us())
                self._parts.retention.bury(topic, buried)
        self._parts.retention.versions.load_proofs(saved.proofs)

    def _message(self, saved: SavedMessage) -> Message:
        message = LearntMessage.of(saved.entry, self._now_s)
        message.ref = saved.ref
        if saved.expires_us is not None:
            self._expire(message, -self._waited_s(saved.expires_us))
        return message

    def _expire(self, message: Message, left_s: float) -> None:
        """Take off what it waited before."""
        if message.expires_at_s is not None:
            whole_s = float(message.properties[EXPIRY])
            message.expires_at_s = self._now_s + max(0.0, min(whole_s, left_s))

    def _waited_s(self, since_us: int | None) -> float:
        """Return how long, up to now, something has waited; less than 0 if it is to come."""
        return 0.0 if since_us is None else (self._clock.now_us() - since_us) / 1_000_000

    def _waited_since_s(self, entry: Entry, stream: Epoch) -> float:
        """Return how long a message has waited since its origin accepted it."""
        if not self._clock.goes_on:  # what was known of the origin's clock was counted by another
            return 0.0
        return self._durable.waited_s(stream, entry.accepted_us)

    # -- batches ---------------------------------------------------------------------------------

    def _batch(self, frame: bytes, header: Header) -> None:
        key = header.stream
        self._lives.came(key, self._life)
        if key == self._frames_key:
            self._wills.batch(header.first, header.last)
            for number in range(header.first, header.last + 1) if self._expected else ():
                publisher = self._expected.pop(number, None)
                if publisher is not None:
                    session, packet_id = publisher
                    self._publishers[(key, number)] = session
                    if packet_id:
                        session.incoming.restore((packet_id,))
        self._undated.append(self._batches.came(frame, header))
        if key[0] == self._history.own[0]:
            self._date(header)

    def _date(self, header: Header) -> None:
        """This gateway wrote this: what stands before it had come by then."""
        written_us = self._dating.written_us(header.epoch, header.origin_time_us)
        for one in self._undated:
            one.came_us = written_us
        self._undated.clear()
        self._read_at_us = written_us

    def _advance(self, key: Epoch, last: int) -> None:
        """Give local sessions an origin's messages up to this number."""
        if last > self._batches.delivered(key):
            self._lives.was_given(key)
            for one, first, end in self._batches.due(key, last):
                self._give(key, one, first, end)

    def _return(self, key: Epoch) -> None:
        """Give local sessions what had been lost and came back."""
        if key in self._lacking.streams:
            for one, first, end in self._batches.returned(key):
                self._give(key, one, first, end)

    def _give(self, key: Epoch, one: ReadBatch, first: int, last: int) -> None:
        begin = one.header.first
        entries = self._batches.entries(one)[first - begin : last + 1 - begin]
        for number, entry in enumerate(entries, first):
            self._deliver(entry, (key, number), one.came_us)

    def _deliver(self, entry: Entry, ref: Ref, came_us: int | None) -> None:
        publisher = self._publishers.pop(ref, None)
        try:
            message = Message.of(entry, self._now_s)
            route = self._parts.routes.of(message.key)
        except PacketError as error:
            self._strange(f"{ref}: {error}")
            return
        if route.closed:  # another gateway's: nobody here publishes there
            return
        message.ref, message.sharing = ref, (ref[0][0], entry.holders)
        if message.expires_at_s is not None:
            waited_s = max(self._waited_s(came_us), self._waited_since_s(entry, ref[0]))
            self._expire(message, float(message.properties[EXPIRY]) - waited_s)
        if message.retain:
            if self._parts.retention.retain(message) and message.qos:
                self._parts.retained_backlogs.replaced(message.topic)
            self._retained_changed(message.topic)
        if message.qos == 2 and ref[0] in self._lacking.streams:
            had = {self._sessions.get(number) for number in self._lacking.had(*ref)}
            route, count = route.without(had.__contains__)
            self._had_before += count
        self._delivery.deliver(message, route, publisher, self._now_s)

    # -- journal frames --------------------------------------------------------------------------

    _frames_key: Epoch = ("", 0)
    """The origin and epoch of the last journal frame."""
    _life: int = 0
    """The life of this gateway in which it was written that is being read; 0 if not known."""
    _numbered: int = 0
    """The last number in that life when the last frame was written."""

    def _frame(self, frame: bytes, header: Header) -> None:
        try:
            [entry] = batch.decode(frame, header)
            said = Frame.decode(entry.payload)
        except (BatchError, JournalError, ValueError) as broken:
            self._strange(f"{header}: {broken}")
            return
        for mark in said.marks():
            self._dating.marked(mark)
        self._date(header)
        self._sessions.frame_begins()
        if header.stream != self._frames_key:
            self._life_ended()
        self._frames_key = header.stream
        self._life, self._numbered = header.epoch, header.first - 1
        # What the frame before announced and no batch brought never will be.
        self._expected.clear()
        self._wills.no_batch_came()
        self._happened(said)
        for number, operations in said.operations:
            self._operations(number, operations)
        for number, index, packet_id in said.publishers:
            if number < 0:
                self._wills.announced(header.first + index, -number)
            session = self._sessions.get(number)
            if session is not None:
                self._expected[header.first + index] = (session, packet_id)

    def _happened(self, said: Frame) -> None:
        moves = deque(said.moves())
        for at, (kind, *fields) in enumerate(said.events):
            while moves and moves[0].before <= at:
                self._move(moves.popleft(), said)
            if kind is Event.LEARNT:
                self._learnt(fields)
            elif kind in {Event.WILL, Event.WILL_ENDED}:
                self._wills.event(kind, fields)
            elif kind is not Event.CLOCK:
                self._event(kind, fields)
        for move in moves:
            self._move(move, said)

    def _move(self, move: Move, said: Frame) -> None:
        if move.kind is Operation.LEAVES:  # it ends, and what it was sent it was sent before
            self._operations(move.number, said.take_operations(move.number))
        self._sessions.move(move, self._clock.now_us())

    def _life_ended(self) -> None:
        """The record of a life breaks off; what of its end the log has lost may come back."""
        key = self._frames_key
        if key[0]:
            last = max(self._numbered, self._batches.last(key))
            self._lacking.has_had_end(self._sessions.up_to_date(), key, last + 1)

    def _event(self, kind: Event, fields: list[Any]) -> None:
        match kind:
            case Event.DELIVERED:
                origin, epoch, last = fields
                self._return((origin, epoch))
                self._advance((origin, epoch), last)
            case Event.SHARED:
                share, topic_filter, origin, epoch, number, member = fields
                ref = ((origin, epoch), number)
                self._reach(ref)
                chosen = self._sessions.get(member)
                self._delivery.chosen((share, topic_filter), ref, chosen, self._now_s)
            case _:
                self._sessions.event(kind, fields)

    def _learnt(self, fields: list[Any]) -> None:
        try:
            learnt = NeighbourRetained.of(fields, self._waited_s(self._read_at_us), self._now_s)
            route = self._parts.routes.of(learnt.message.key)
        except (ProtocolError, PacketError) as error:
            self._strange(f"{fields}: {error}")
            return
        learnt.retain(self._parts.retention)
        self._retained_changed(learnt.message.topic)
        if learnt.is_news:
            if learnt.message.qos:
                self._parts.retained_backlogs.replaced(learnt.message.topic)
            self._delivery.deliver(learnt.message, route, None, self._now_s)

    def _retained_changed(self, topic: str) -> None:
        """The next checkpoint tells of a topic, but not of one that was left out and still is."""
        retention = self._parts.retention
        if retention.get(topic) is not None or retention.versions.version(topic) is not None:
            self._changes.retained.add(topic)

    def _reach(self, ref: Ref) -> None:
        """Give local sessions a message, with all that comes before it."""
        if ref in self._lacking:
            self._return(ref[0])
        self._advance(*ref)

    def _operations(self, number: int, operations: list[tuple[Any, ...]]) -> None:
        session = self._sessions.get(number)
        if session is not None:  # it may have ended within the turn
            for operation in operations:
                try:
                    self._operation(number, session, operation)
                except PacketError as refused:  # what it answers is not on its way
                    self._strange(f"{session.client}: {refused}")

    def _operation(self, number: int, session: Session, operation: tuple[Any, ...]) -> None:
        kind, packet_id, *rest = operation
        match kind:
            case Operation.SENT:
                flags, at, *key = rest
                ref = ((key[0], key[1]) if key else self._frames_key, at)
                flags |= key[2] if len(key) > 2 else 0
                self._reach(ref)
                self._lacking.was_sent(number, *ref)
                is_lost = ref in self._lacking
                if not session.outgoing.was_sent(packet_id, flags, ref, is_lost=is_lost):
                    self._strange(f"{session.client}: sent {ref}, which it had not got")
            case Operation.PUBACK:
                session.outgoing.puback(packet_id)
            case Operation.PUBREC | Operation.REFUSED:
                session.outgoing.pubrec(packet_id, failed=kind == Operation.REFUSED)
            case Operation.PUBCOMP:
                session.outgoing.pubcomp(packet_id)
            case Operation.RELEASED:
                session.incoming.forget(packet_id)

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, saved: Checkpoint) -> RecoveryCounts:
        """Hand over to the new journal, which begins with what was decided here."""
        delivered = {
            key: self._batches.delivered(key)
            for key in self._lives.in_order(self._batches.streams())
            if self._batches.delivered(key)
        }
        self._tell_lacking()
        journal = self._durable.journal
        journal.goes_on(self._sessions.next_number, delivered, saved.delivered)
        self._durable.go_on(self._changes, self._wills)
        ended_us = self._dating.ended_us(MARK_S, QUIET_MARK_S)
        self._sessions.hand_over(journal, self._clock.now_us(), ended_us)
        self._delivery.choose_the_rest(self._now_s)
        waiting = sum(s.outgoing.backlog.count + len(s.outgoing.inflight) for s in self._sessions)
        return RecoveryCounts(
            len(self._sessions), waiting, self._odd, self._had_before, self._left_out
        )

    def _tell_lacking(self) -> None:
        for stream in list(self._lacking.streams):
            if not self._history.lacks(stream, 1, MAX_NUMBER):
                self._lacking.forget([stream])
            elif count := self._lacking.of(stream).count():
                _log.warning(
                    "messages that clients were given, and that the log has lost: %d of %s, boot "
                    "%d; whoever waits for them gets them if a neighbour has them",
                    count,
                    *stream,
                )

    def _strange(self, what: str) -> None:
        self._odd += 1
        _log.warning("recovery: %s", what)
