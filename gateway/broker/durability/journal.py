"""Journal frames: what the broker must remember beside its messages, among the log's batches.

The log is the one history of a broker. Its batches tell what was accepted; journal frames between
them tell what became of it: sessions that opened and ended, subscriptions, which message left
under which packet identifier and how far its exchange has come. `recovery` reads that history
again after a crash and arrives at the same sessions. What is stated here and nowhere else is the
form of a frame and what its order means:

* `events` concern the broker, in their order. Before one that changes who gets what, marks tell up
  to which number each origin's messages had been delivered, so that a subscription gets later
  messages and no earlier ones. So they do before the first message of an origin's next life, for
  lives follow each other and their numbers do not tell how.
* `operations` concern one session each, in its order: the exchange of QoS 1 and 2.
* `publishers` name, for the batch that follows the frame in the log, who published which of its
  messages under which QoS 2 identifier, and which of them are wills. They hold only if that batch
  is there: so a message and its identifier survive a crash together or not at all.

Of sessions only durable ones are in it, which outlive their connection. Nothing here does I/O.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gateway.base.lasting_clock import Mark
from gateway.broker.hooks import Client
from gateway.broker.outbound.message import IN_PACKET
from gateway.broker.retained.retained_backlog import BacklogFilter
from gateway.broker.sessions.subscription import Subscription
from tree_handler.batch import Epoch, Ref, Row
from tree_handler.holders import SharedGroup


class Event(enum.IntEnum):
    """A kind of event of the broker; each has its fields."""

    OPENED = 0
    """session, client id, user name, roles, protocol version, expiry in seconds; again if they
    change and when the client comes back. The roles are None for a client without a certificate."""
    ENDED = 1
    """session"""
    SUBSCRIBED = 2
    """session, filter, QoS, no local, retain as published, identifier"""
    UNSUBSCRIBED = 3
    """session, filter"""
    DELIVERED = 4
    """origin, epoch, last number that local sessions were given"""
    SHARED = 5
    """share name, filter, origin, epoch, number, session (0: one that is not durable)"""
    RETAINED = 6
    """session, topic, flags, identifiers: given what is retained because it subscribed"""
    LEARNT = 7
    """a retained message that a neighbour told of (`tree_handler.retained.message`), and whether
    subscribers were given it"""
    WILL = 8
    """a will that stands from now on (`standing_wills.SavedWill`)"""
    WILL_ENDED = 9
    """number of a will that is not to be published"""
    AWAY = 10
    """session, when its client went (microseconds on the lasting clock)"""
    CLOCK = 11
    """`lasting_clock.Mark`"""
    OWED = 12
    """session, filters whose retained messages were not all sent
    (`retained_backlog.BacklogFilter`); what RETAINED says in the same frame and later was. No
    filters: all was."""


class Operation(enum.IntEnum):
    """A kind of event of one message of a session; each has its fields."""

    SENT = 0
    """packet id, flags, number [, origin, epoch [, mark]]: the first two where they are not this
    gateway's own, and the mark where it is delivered for a shared subscription"""
    PUBACK = 1
    """packet id"""
    PUBREC = 2
    """packet id"""
    REFUSED = 3
    """packet id: a PUBREC with a failure"""
    PUBCOMP = 4
    """packet id"""
    RELEASED = 5
    """packet id of the client's own message: it is no longer `incoming`"""
    INHERITS = 6
    """count of earlier events of the frame and then of these operations, origin, epoch, numbers
    (first and last in turn), flags, identifiers, times (`saved.SavedPlaces`), a message that the
    log has no longer or None: messages of a shared subscription wait for the session that did for
    one that has ended. As with the next two it is no event, though it counts as one, for a release
    that does not know a kind of event reads nothing of its frame; of operations it leaves out the
    one."""
    LEAVES = 7
    """the same two, groups (mark, share name, filter): what waits for the session of shared
    subscriptions is to go to others, for it ends"""
    TAKEN = 8
    """the same two, origin, epoch, numbers, mark: somebody whom the journal does not know goes on
    with what a session left, or nobody can; of session 0"""


_pack: Final = msgspec.msgpack.Encoder().encode

_ANSWERED: Final = frozenset((Operation.PUBREC, Operation.RELEASED))
"""The operations that the client is told of: PUBREL and PUBCOMP stand on them."""


class SessionRecord:
    """The journal's view of one durable session.

    Attributes:
        number: which one; never used again.
        ticket: the last frame that must be safe before its connection may write, by
            `Journal.written`.
        version: the last frame that says anything of it.
        operations: what the next frame says of its messages.
        known: client and expiry as the journal knows them.
        away_us: when its client went, on the lasting clock; None while it is there.
        journal: which it is part of.

    """

    __slots__ = ("away_us", "journal", "known", "number", "operations", "ticket", "version")

    def __init__(self, number: int, journal: Journal) -> None:
        self.number = number
        self.ticket = self.version = 0
        self.operations: list[tuple[Any, ...]] = []
        self.known: tuple[Client, int] | None = None
        self.away_us: int | None = None
        self.journal = journal

    def sent(self, packet_id: int, flags: int, ref: Ref | None) -> None:
        """Note that a message leaves under this packet identifier."""
        if ref is None:  # it was never logged, so nothing of it outlives the process
            return
        key, number = ref
        self.ticket = self.journal.written + 1
        if flags > IN_PACKET:  # apart, for releases that know no marks
            mark = flags & ~IN_PACKET
            self._note((0, packet_id, flags & IN_PACKET, number, *key, mark))
        elif key == self.journal.own:
            self._note((0, packet_id, flags, number))
        else:
            self._note((0, packet_id, flags, number, *key))

    def note(self, operation: Operation, packet_id: int) -> None:
        """Something else happened to the message with this packet identifier."""
        if operation in _ANSWERED:
            self.ticket = self.journal.written + 1
        self._note((int(operation), packet_id))

    def note_only(self, operation: Operation, packet_id: int) -> None:
        """Note what nothing stands on that the client is sent, or that it can be told at once."""
        self._note((int(operation), packet_id))

    def subscribed(self, topic_filter: str, of: Subscription) -> None:
        """Note a subscription that is new or replaced."""
        options = (of.qos, of.no_local, of.retain_as_published, of.identifier)
        self.journal.decisive(self, Event.SUBSCRIBED, self.number, topic_filter, *options)

    def unsubscribed(self, topic_filter: str) -> None:
        """Note that a subscription has ended."""
        self.journal.decisive(self, Event.UNSUBSCRIBED, self.number, topic_filter)

    def given_retained(self, topic: str, flags: int, identifiers: tuple[int, ...]) -> None:
        """Note that it was given a retained message because it subscribed."""
        # After a mark: which message is retained depends on what had been delivered.
        self.journal.decisive(self, Event.RETAINED, self.number, topic, flags, identifiers)

    def inherits(
        self,
        key: Epoch,
        ranges: tuple[int, ...],
        how: tuple[int, tuple[int, ...], tuple[tuple[int, int, int], ...]],
        row: Row | None,
    ) -> None:
        """Messages wait for it that waited for another member of a shared subscription.

        Args:
            key: their stream.
            ranges: their numbers there, the first and the last of each range in turn.
            how: flags, identifiers and times, as `Operation.INHERITS` has them.
            row: the message, where it is one that the log does not have any more.

        """
        # After a mark: they go behind what it had been given.
        self._note_move(Operation.INHERITS, *key, ranges, *how, row)

    def leaves(self, groups: Mapping[int, SharedGroup]) -> None:
        """The session ends, and others are to go on with what waits for it of these groups."""
        told = [(mark, *group) for mark, group in groups.items()]
        self._note_move(Operation.LEAVES, told)

    def taken(self, key: Epoch, ranges: Sequence[int], mark: int) -> None:
        """Somebody goes on with what a session left, or nobody can (`Operation.TAKEN`)."""
        self._note_move(Operation.TAKEN, *key, ranges, mark)

    def _note_move(self, kind: Operation, *fields: Any) -> None:
        before, step = self.journal.decided()
        self.ticket = self.journal.written + 1
        self._note((int(kind), before, step, *fields))

    def owed(self, wanted: tuple[BacklogFilter, ...]) -> None:
        """Note the filters whose retained messages were not all sent; none: all were."""
        self.journal.noted(self, Event.OWED, self.number, wanted)

    def has_changed(self) -> None:
        """The next checkpoint has to say more of it than the journal does."""
        self.version = self.journal.written + 1

    def _note(self, operation: tuple[Any, ...]) -> None:
        if not self.operations:
            self.journal.touched.append(self)
            self.journal.is_empty = False
            self.version = self.journal.written + 1
        self.operations.append(operation)


class Journal:
    """Gathers what the next frame says.

    Args:
        own: this gateway's id and boot epoch.

    Attributes:
        own: as given.
        is_empty: there is nothing to write.
        touched: sessions with operations in the next frame.
        delivered: the last number that local sessions were given, by origin and epoch.
        precedes: the next frame must be in the log before the next batch.
        written: how many frames the log has taken.
        next_session: the number that the next new session gets.

    """

    def __init__(self, own: Epoch) -> None:
        self.own = own
        self.is_empty = True
        self.touched: list[SessionRecord] = []
        self.delivered: dict[Epoch, int] = {}
        self.precedes = False
        self.written = 0
        self.next_session = 1
        self._events: list[tuple[Any, ...]] = []
        self._publishers: list[tuple[int, int, int]] = []
        self._decided = 0
        self._unmarked: dict[Epoch, None] = {}
        """In the order in which messages of them were given."""

    # -- events --------------------------------------------------------------------------------

    def open(self) -> SessionRecord:
        """Return a record for a session that is durable from now on; `opened` says what it is."""
        record = SessionRecord(self.next_session, self)
        self.next_session += 1
        return record

    def opened(self, record: SessionRecord, client: Client, expiry_s: int) -> None:
        """Note that a session is durable, has its client back, or another expiry."""
        record.away_us = None
        known = (client.client_id, client.username, client.roles, client.version, expiry_s)
        self.decisive(record, Event.OPENED, record.number, *known)

    def away(self, record: SessionRecord, since_us: int) -> None:
        """Note that a session's client has gone."""
        record.away_us = since_us
        record.version = self.written + 1
        self.noted(None, Event.AWAY, record.number, since_us)

    def marked(self, mark: Mark) -> None:
        """Note what the clocks say, for what follows."""
        self.noted(None, Event.CLOCK, *mark)
        self.must_precede()

    def ended(self, record: SessionRecord) -> None:
        """Note that a session and its subscriptions have ended."""
        self.decisive(record, Event.ENDED, record.number)

    def shared(self, group: tuple[str, str], ref: Ref, record: SessionRecord | None) -> None:
        """A message went to this member of a shared subscription; None: one that is not durable."""
        key, number = ref
        member = 0 if record is None else record.number
        self.noted(record, Event.SHARED, *group, *key, number, member)

    def has_delivered(self, key: Epoch, last: int) -> None:
        """Local sessions are given an origin's messages up to this number now."""
        if key not in self.delivered:  # whatever came of the origin's earlier lives came before
            self._mark([one for one in self._unmarked if one[0] == key[0]])
        self.delivered[key] = last
        self._unmarked[key] = None

    def forget(self, is_over: Callable[[Epoch], bool]) -> None:
        """Forget how far local sessions were given streams of which no more can come."""
        for key in [key for key in self.delivered if is_over(key)]:
            del self.delivered[key]
            self._unmarked.pop(key, None)

    def goes_on(
        self, next_session: int, delivered: Mapping[Epoch, int], marked: Mapping[Epoch, int]
    ) -> None:
        """A start found out how far local sessions were given each stream.

        Args:
            next_session: the number of the next new session.
            delivered: the last number of each, an origin's earlier lives first.
            marked: what the last checkpoint says of it.

        """
        self.next_session = next_session
        self.delivered = dict(delivered)
        self._mark([key for key, last in delivered.items() if marked.get(key) != last])

    def publishes_will(self, number: int, index: int) -> None:
        """Note that a message of the next batch is this will."""
        self._publishers.append((-number, index, 0))
        self.must_precede()

    def learnt(self, row: tuple[Any, ...], *, is_news: bool) -> None:
        """Note a retained message of a neighbour, which no batch of the log has."""
        self.decisive(None, Event.LEARNT, row, is_news)

    def decisive(self, record: SessionRecord | None, kind: Event, *fields: Any) -> None:
        """Note what depends on what has been delivered, or changes who gets which message.

        Args:
            record: the session that waits for it; None for none.
            kind: what happened.
            fields: those of the event.

        """
        self.decided()
        self.noted(record, kind, *fields)

    def decided(self) -> tuple[int, int]:
        """Mark what has been delivered; return what comes before that is decided now: how many
        events, and how many times this was called since the frame before."""
        self._mark(list(self._unmarked))
        self.must_precede()
        self._decided += 1
        return len(self._events), self._decided

    def _mark(self, keys: Sequence[Epoch]) -> None:
        for key in keys:
            self.noted(None, Event.DELIVERED, *key, self.delivered[key])
            self._unmarked.pop(key, None)

    def noted(self, record: SessionRecord | None, kind: Event, *fields: Any) -> None:
        """Note what depends on nothing else; the arguments are those of `decisive`."""
        if record is not None:
            record.ticket = record.version = self.written + 1
        self._events.append((int(kind), *fields))
        self.is_empty = False

    # -- the batch that follows ----------------------------------------------------------------

    def publishes(self, record: SessionRecord, index: int, packet_id: int) -> None:
        """A message of the next batch is this session's; 0 for one that is not QoS 2."""
        record.version = self.written + 1
        self._publishers.append((record.number, index, packet_id))
        self.must_precede()

    # -- frames --------------------------------------------------------------------------------

    def must_precede(self) -> None:
        """Have a frame written before the next batch, also one that says nothing new."""
        self.precedes = True
        self.is_empty = False

    def frame(self) -> bytes:
        """Return the next frame: all that was noted. Then call `has_written`, or `was_refused`."""
        operations = [(record.number, record.operations) for record in self.touched]
        return _pack((self._events, operations, self._publishers))

    def has_written(self) -> None:
        """Forget what the frame says: the log has taken it."""
        self.written += 1
        for record in self.touched:
            record.operations = []
        self.touched = []
        self._events = []
        self._publishers = []
        self._decided = 0
        self.precedes = False
        self.is_empty = True

    def was_refused(self) -> None:
        """The log did not take the frame, or not the batch that it was for.

        What happened stays noted. Who published what is not: that batch won't come, and a frame
        must tell so before another batch takes its numbers.
        """
        self._publishers = []
        self.must_precede()
