"""Arrives at the durable state of a broker again: the last checkpoint, and the log behind it.

The history is read in the order in which it was written. A batch is given to sessions with the
broker's own routes when the journal says that it had been delivered by then: before a change of
subscriptions that follows it, or before a message of it was sent; and in the end what is left.
So each message reaches the sessions that had subscribed when it was accepted, once. What a
journal frame then says of its exchange is done to the session by the same calls as in life.

Nothing is connected yet, so every message goes to a queue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.broker.durability.changes import Changes
from gateway.broker.durability.durable import Durable
from gateway.broker.durability.history import History
from gateway.broker.durability.journal import (
    Event,
    Frame,
    JournalError,
    Operation,
)
from gateway.broker.durability.lasting_clock import Dating
from gateway.broker.durability.lives import Lives
from gateway.broker.durability.replayed_delivery import ReplayedDelivery
from gateway.broker.durability.retained_again import Learnt, unearthed
from gateway.broker.durability.saved import Checkpoint, SavedMessage
from gateway.broker.durability.sessions_again import Restorable, SessionsAgain
from gateway.broker.durability.standing_wills import SavedWill, WillsAgain
from gateway.broker.outbound.message import EXPIRY, LearntMessage, Message
from gateway.broker.sessions.session import Session
from gateway.mqtt import PacketError
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Header, Ref
from tree_handler.errors import BatchError, ProtocolError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Recovered:
    """What was found.

    Attributes:
        sessions: how many durable sessions there are.
        waiting: messages that wait for them or are on their way to them.
        odd: records that did not fit; each is in the log as a warning.

    """

    sessions: int = 0
    waiting: int = 0
    odd: int = 0


@dataclass(slots=True)
class _Batch:
    """A batch, and its messages once it was decoded."""

    frame: bytes
    header: Header
    entries: list[Entry] | None = None
    came_us: int | None = None
    """When it came, on the lasting clock; None if nothing tells yet."""


@dataclass(slots=True)
class _Origin:
    """One origin's batches of one epoch, as far as the history has been read."""

    delivered: int = 0
    pending: dict[int, _Batch] = field(default_factory=dict)


class Recovery:
    """Restores one broker that has no connections yet.

    Args:
        parts: what is restored, empty.
        history: its log.
        durable: goes on with what was found; its clock not yet from the life before.
        now_s: on the loop's clock.

    """

    def __init__(self, parts: Restorable, history: History, durable: Durable, now_s: float) -> None:
        self._parts = parts
        self._history = history
        self._durable = durable
        self._now_s = now_s
        self._clock = clock = durable.clock
        self._dating = Dating(clock, None)
        self._undated: list[_Batch] = []
        self._origins: dict[Epoch, _Origin] = {}
        self._lives = Lives(history.own[0])
        self._changes = Changes()
        self._wills = WillsAgain((), self._changes)
        self._expected: dict[int, tuple[Session, int]] = {}
        """Who published which number of the batch to come, and under which identifier."""
        self._publishers: dict[Ref, Session] = {}
        self._delivery = ReplayedDelivery()
        self._sessions = SessionsAgain(
            parts, self._delivery, self._changes, self._strange, durable.logged, now_s
        )
        self._odd = 0
        self._read_at_us: int | None = None
        """When the journal frame was written that is being read."""

    @property
    def wills_standing(self) -> list[SavedWill]:
        """The wills of clients that were there, or away with a delay, when the process ended."""
        return list(self._wills.standing.values())

    def run(self, saved: Checkpoint) -> Recovered:
        """Restore; ``saved`` is the last checkpoint."""
        standing = [one for one in saved.wills.values() if one is not None]
        self._wills = WillsAgain(standing, self._changes)
        if saved.mark is not None:
            self._clock.go_on_from(saved.mark)
            self._dating = Dating(self._clock, saved.mark)
        self._load(saved)
        for frame, header in self._history.read_from(saved.position):
            if header.local and not header.numbered:
                self._frame(frame, header)
            elif header.clients:
                self._batch(frame, header)
            else:
                self._lives.noted(header)
        due = self._history.due()
        for key in self._lives.in_order(due):
            self._advance(key, due[key])
        return self._finish(saved)

    # -- the checkpoint --------------------------------------------------------------------------

    def _load(self, saved: Checkpoint) -> None:
        self._sessions.next_number = saved.next_session
        for key, last in saved.delivered.items():
            self._origins[key] = _Origin(last)
            self._lives.was_given(key)
        messages: dict[Ref, Message] = {}
        for one in saved.messages():
            if one.ref not in messages:
                messages[one.ref] = self._message(one)
        for session in saved.sessions:
            self._sessions.load(session, messages, self._clock.now_us())
        for retained in saved.retained.values():
            if retained is not None:
                self._parts.retention.retain(messages[retained.ref])
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
        """For how long, up to now, something has waited; less than 0 if it is to come."""
        return 0.0 if since_us is None else (self._clock.now_us() - since_us) / 1_000_000

    # -- batches ---------------------------------------------------------------------------------

    def _batch(self, frame: bytes, header: Header) -> None:
        key = header.stream
        self._lives.came(key)
        if key == self._frames_key:
            self._wills.batch(header.first, header.last)
            for number in range(header.first, header.last + 1) if self._expected else ():
                publisher = self._expected.pop(number, None)
                if publisher is not None:
                    session, packet_id = publisher
                    self._publishers[(key, number)] = session
                    if packet_id:
                        session.incoming.restore((packet_id,))
        one = self._origin(key).pending[header.first] = _Batch(frame, header)
        self._undated.append(one)
        if key[0] == self._history.own[0]:
            self._date(header)

    def _date(self, header: Header) -> None:
        """This gateway wrote this: what stands before it had come by then."""
        written_us = self._dating.written_us(header.epoch, header.origin_time_us)
        for one in self._undated:
            one.came_us = written_us
        self._undated.clear()
        self._read_at_us = written_us

    def _origin(self, key: Epoch) -> _Origin:
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = _Origin()
        return origin

    def _advance(self, key: Epoch, last: int) -> None:
        """Give local sessions an origin's messages up to this number."""
        origin = self._origin(key)
        if last <= origin.delivered:
            return
        self._lives.was_given(key)
        for one in self._due(key, origin, last):
            header = one.header
            entries = self._entries(one)
            begin = max(header.first, origin.delivered + 1) - header.first
            for at, entry in enumerate(entries[begin : last + 1 - header.first], begin):
                self._deliver(entry, (key, header.first + at), one.came_us)
        origin.delivered = last

    def _entries(self, one: _Batch) -> list[Entry]:
        """What clients get of a batch; decoded once, though each message may be asked for alone."""
        if one.entries is None:
            one.entries = []
            try:
                if not one.header.passed:
                    one.entries = batch.decode(one.frame, one.header)
            except BatchError as error:
                self._strange(f"{one.header}: {error}")
        return one.entries

    def _due(self, key: Epoch, origin: _Origin, last: int) -> Iterator[_Batch]:
        at = origin.delivered + 1
        pending = origin.pending
        for first in sorted(first for first in pending if first <= last):
            if at < first:
                yield from self._read(key, at, first - 1)
            one = pending[first]
            yield one
            at = max(at, one.header.last + 1)
            if one.header.last <= last:
                del pending[first]
        if at <= last:
            yield from self._read(key, at, last)

    def _read(self, key: Epoch, first: int, last: int) -> Iterator[_Batch]:
        """What stands before the position from which the history is read."""
        for frame, header in self._history.read(key, first, last):
            yield _Batch(frame, header, came_us=self._dating.begin_us)

    def _deliver(self, entry: Entry, ref: Ref, came_us: int | None) -> None:
        publisher = self._publishers.pop(ref, None)
        try:
            message = Message.of(entry, self._now_s)
            route = self._parts.routes.of(message.key)
        except PacketError as error:
            self._strange(f"{ref}: {error}")
            return
        message.ref = ref
        if message.expires_at_s is not None:
            left_s = float(message.properties[EXPIRY]) - self._waited_s(came_us)
            self._expire(message, left_s)
        if message.retain:
            if self._parts.retention.retain(message) and message.qos:
                self._parts.owing.replaced(message.topic)
            self._changes.retained.add(message.topic)
        self._delivery.deliver(message, route, publisher, self._now_s)

    # -- journal frames --------------------------------------------------------------------------

    _frames_key: Epoch = ("", 0)
    """Under which origin and epoch the last journal frame stood."""

    def _frame(self, frame: bytes, header: Header) -> None:
        try:
            [entry] = batch.decode(frame, header)
            said = Frame.decode(entry.payload)
        except (BatchError, JournalError, ValueError) as error:
            self._strange(f"{header}: {error}")
            return
        for mark in said.marks():
            self._dating.marked(mark)
        self._date(header)
        self._sessions.frame_begins()
        self._frames_key = header.stream
        # What the frame before announced and no batch brought never will be.
        self._expected.clear()
        self._wills.no_batch_came()
        for kind, *fields in said.events:
            if kind is Event.LEARNT:
                self._learnt(fields)
            elif kind in {Event.WILL, Event.WILL_ENDED}:
                self._wills.event(kind, fields)
            elif kind is not Event.CLOCK:
                self._event(kind, fields)
        for number, operations in said.operations:
            session = self._sessions.get(number)
            if session is not None:  # it may have ended within the turn
                for operation in operations:
                    self._operation(session, operation)
        for number, index, packet_id in said.publishers:
            if number < 0:
                self._wills.announced(header.first + index, -number)
            session = self._sessions.get(number)
            if session is not None:
                self._expected[header.first + index] = (session, packet_id)

    def _event(self, kind: Event, fields: list[Any]) -> None:
        match kind:
            case Event.DELIVERED:
                origin, epoch, last = fields
                self._advance((origin, epoch), last)
            case Event.SHARED:
                share, topic_filter, origin, epoch, number, member = fields
                ref = ((origin, epoch), number)
                self._advance(*ref)
                chosen = self._sessions.get(member)
                self._delivery.chosen((share, topic_filter), ref, chosen, self._now_s)
            case _:
                self._sessions.event(kind, fields)

    def _learnt(self, fields: list[Any]) -> None:
        try:
            learnt = Learnt.of(fields, self._waited_s(self._read_at_us), self._now_s)
            route = self._parts.routes.of(learnt.message.key)
        except (ProtocolError, PacketError) as error:
            self._strange(f"{fields}: {error}")
            return
        learnt.retain(self._parts.retention)
        self._changes.retained.add(learnt.message.topic)
        if learnt.is_news:
            if learnt.message.qos:
                self._parts.owing.replaced(learnt.message.topic)
            self._delivery.deliver(learnt.message, route, None, self._now_s)

    def _operation(self, session: Session, operation: tuple[Any, ...]) -> None:
        kind, packet_id, *rest = operation
        match kind:
            case Operation.SENT:
                flags, number, *key = rest
                ref = ((key[0], key[1]) if key else self._frames_key, number)
                self._advance(*ref)
                if not session.outgoing.was_sent(packet_id, flags, ref):
                    self._strange(f"{session.client}: sent {ref}, which it had not got")
            case Operation.PUBACK:
                session.outgoing.puback(packet_id)
            case Operation.PUBREC:
                session.outgoing.pubrec(packet_id, failed=False)
            case Operation.REFUSED:
                session.outgoing.pubrec(packet_id, failed=True)
            case Operation.PUBCOMP:
                session.outgoing.pubcomp(packet_id)
            case Operation.RELEASED:
                session.incoming.forget(packet_id)

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, saved: Checkpoint) -> Recovered:
        """Hand over to the new journal, which begins with what was decided here."""
        delivered = {
            key: self._origins[key].delivered
            for key in self._lives.in_order(self._origins)
            if self._origins[key].delivered
        }
        journal = self._durable.journal
        journal.goes_on(self._sessions.next_number, delivered, saved.delivered)
        self._durable.go_on(self._changes, self._wills)
        self._sessions.hand_over(journal, self._clock.now_us())
        self._delivery.choose_the_rest(self._now_s)
        waiting = sum(s.outgoing.backlog.count + len(s.outgoing.inflight) for s in self._sessions)
        return Recovered(len(self._sessions), waiting, self._odd)

    def _strange(self, what: str) -> None:
        self._odd += 1
        _log.warning("recovery: %s", what)
