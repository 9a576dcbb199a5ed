"""Takes checkpoints of a running broker: what has changed since the one before.

On the event loop only references are copied, so that everything is of one moment; a queue may be
long. Most of them are copied ahead, some in each turn (`Snapshots.prepare`), and hold if their
session is as it was then at the moment itself. What they come to is worked out where the checkpoint
is written, in a thread: a message that is accepted does not change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from gateway.broker.durability import saved_places
from gateway.broker.durability.changes import Changes
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.journal import SessionRecord
from gateway.broker.durability.saved import (
    Checkpoint,
    SavedDelivery,
    SavedMessage,
    SavedPlaces,
    SavedSession,
    SavedTombstone,
)
from gateway.broker.durability.slices import others, slice_ends_s
from gateway.broker.outbound.message import Message
from gateway.broker.retained.retained_backlog import RetainedBacklog
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.backlog import QueuedDelivery
from gateway.broker.sessions.places import Places
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.session import Session
from light_dataclasses import dataclass
from tree_handler.batch import Entry
from tree_handler.retained.tombstones import Tombstone


class Cursor(NamedTuple):
    """The part of a session that the last checkpoint has: a frame, and a part of its queue."""

    version: int
    taken: int
    waiting: int


@dataclass(frozen=True, slots=True)
class _Copy:
    """A session as it was: all but its messages, and those as they are in memory."""

    saved: SavedSession
    inflight: list[tuple[int, QueuedDelivery | None]]
    queue: list[QueuedDelivery | Places]


@dataclass(frozen=True, slots=True)
class PendingCheckpoint:
    """A checkpoint to be, and what holds as soon as it is written.

    Attributes:
        plain: the checkpoint without what has still to be worked out.
        changes: what it tells.
        retained, tombstones, sessions: what has to be worked out.
        cursors: what it has of each session.
        ahead_s: the lasting clock less the loop's.

    """

    plain: Checkpoint
    changes: Changes
    retained: dict[str, Message | None]
    tombstones: dict[str, Tombstone | None]
    sessions: list[_Copy]
    cursors: dict[int, Cursor]
    ahead_s: float

    def checkpoint(self) -> Checkpoint:
        """Return what is to be written; to be called in a thread."""
        return replace(
            self.plain,
            sessions=[self._session(copy) for copy in self.sessions],
            retained={
                topic: None if message is None else self._message(message)
                for topic, message in self.retained.items()
            },
            tombstones={
                topic: None if grave is None else self._tombstone(grave)
                for topic, grave in self.tombstones.items()
            },
        )

    def _tombstone(self, grave: Tombstone) -> SavedTombstone:
        since_us = int((grave.since_s + self.ahead_s) * 1_000_000)
        return SavedTombstone(grave.version, grave.number, grave.qos, since_us)

    def _session(self, copy: _Copy) -> SavedSession:
        return replace(
            copy.saved,
            inflight=[one for sent in copy.inflight if (one := self._delivery(*sent))],
            queue=[saved for item in copy.queue for saved in self._waiting(item)],
        )

    def _waiting(self, item: QueuedDelivery | Places) -> Iterator[SavedDelivery | SavedPlaces]:
        if isinstance(item, Places):
            yield from saved_places.saved(item, self.ahead_s)
        elif (delivery := self._delivery(0, item)) is not None:
            yield delivery

    def _delivery(self, packet_id: int, delivery: QueuedDelivery | None) -> SavedDelivery | None:
        """Return one that is released, or whose message was logged; None for any other."""
        if delivery is None:
            return SavedDelivery(packet_id, None, 0, ())
        message, flags, identifiers = delivery
        saved = self._message(message)
        return None if saved is None else SavedDelivery(packet_id, saved, flags, identifiers)

    def _message(self, message: Message) -> SavedMessage | None:
        """Return a message as it is saved; None for one that was never logged."""
        if message.ref is None:
            return None
        expires_us = self._lasting_us(message.expires_at_s)
        entry = Entry(
            message.topic, message.payload, message.qos, message.retain, message.properties
        )
        return SavedMessage(message.ref, entry, expires_us)

    def _lasting_us(self, at_s: float | None) -> int | None:
        return None if at_s is None else int((at_s + self.ahead_s) * 1_000_000)


class Snapshots:
    """Remembers what the last checkpoint holds.

    Args:
        sessions: those of the broker.
        retention: its retained messages.
        durable: knows what has changed.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        sessions: Sessions,
        retention: Retention,
        durable: DurablePersistence,
        now: Callable[[], float],
    ) -> None:
        self._sessions = sessions
        self._retention = retention
        self._durable = durable
        self._now = now
        self._cursors: dict[int, Cursor] = {}
        self._ahead: dict[int, tuple[Cursor, _Copy]] = {}
        """Copies for the checkpoint to come, by session."""

    async def prepare(self) -> None:
        """Copy ahead, over many turns, the sessions that have changed since the last checkpoint."""
        self._ahead = {}
        journal, until_s = self._durable.journal, slice_ends_s()
        for session in list(self._sessions.values()):
            record = session.record
            # What is not written may still change under the same number.
            if record is not None and record.version <= journal.written:
                cursor = _cursor(session, record)
                if cursor != self._cursors.get(record.number):
                    self._ahead[record.number] = cursor, _copy(session, record)
            until_s = await others(until_s)

    def take(self, position: int) -> PendingCheckpoint:
        """Return the state now, as far as it is not in the last checkpoint.

        If it can't be saved, `failed` must be told: the changes are in nothing else.
        """
        changes = self._durable.changes.take()
        try:
            return self._take(position, changes)
        except BaseException:
            self._durable.changes.again(changes)
            raise

    def _take(self, position: int, changes: Changes) -> PendingCheckpoint:
        durable, versions = self._durable, self._retention.versions
        ahead, self._ahead = self._ahead, {}
        for number in changes.ended:
            self._cursors.pop(number, None)
        copies: list[_Copy] = []
        cursors: dict[int, Cursor] = {}
        for session in self._sessions.values():
            record = session.record
            if record is None:
                continue
            cursor = _cursor(session, record)
            if cursor != self._cursors.get(record.number):
                found = ahead.get(record.number)
                if found is None or found[0] != cursor:
                    copies.append(_copy(session, record))
                else:
                    copies.append(found[1])
                cursors[record.number] = cursor
        mark = durable.clock.mark()
        plain = Checkpoint(
            position,
            durable.journal.next_session,
            dict(durable.journal.delivered),
            ended=changes.ended,
            wills=durable.wills.saved(changes.wills),
            mark=mark,
            proofs=versions.saved_proofs(changes.retained),
            lacking=durable.lacking.saved(),
        )
        return PendingCheckpoint(
            plain,
            changes,
            {topic: self._retention.get(topic) for topic in changes.retained},
            {topic: versions.tombstone(topic) for topic in changes.retained},
            copies,
            cursors,
            mark.lasting_us / 1_000_000 - self._now(),
        )

    def saved(self, taken: PendingCheckpoint) -> None:
        """Go on from a checkpoint that is written: the next one saves what has changed since."""
        self._cursors.update(taken.cursors)  # what has ended since goes with the next one

    def failed(self, taken: PendingCheckpoint) -> None:
        """It is not: the next one must say the same again."""
        self._durable.changes.again(taken.changes)


def _cursor(session: Session, record: SessionRecord) -> Cursor:
    backlog = session.outgoing.backlog
    return Cursor(record.version, backlog.taken, backlog.count)


def _copy(session: Session, record: SessionRecord) -> _Copy:
    owed = session.owed
    saved = SavedSession(
        record.number,
        session.client,
        session.expiry_s,
        session.outgoing.last_packet_id,
        tuple(session.incoming),
        dict(session.subscriptions),
        [],
        [],
        record.away_us,
        None if owed is None else RetainedBacklog(owed.wanted, set(owed.given)),
    )
    outgoing = session.outgoing
    return _Copy(saved, list(outgoing.inflight.items()), outgoing.backlog.saved())
