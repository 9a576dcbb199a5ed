"""Takes checkpoints of a running broker: what has changed since the one before.

It is taken between two turns of the event loop, in which nothing else happens; writing it is
`store`'s and may take its time in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from gateway.broker.journal import SessionRecord
from gateway.broker.message import Message
from gateway.broker.saved import Checkpoint, SavedDelivery, SavedMessage, SavedSession
from tree_handler.batch import Entry

if TYPE_CHECKING:
    from gateway.broker.recovery import Recovered
    from gateway.broker.server import BrokerCore
    from gateway.broker.sessions import Delivery, Session


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a session is in the last checkpoint: its last frame, and its queue's end."""

    version: int
    queue_from: int
    queue_to: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint, and what holds as soon as it is written."""

    checkpoint: Checkpoint
    cursors: dict[int, Cursor]


class Snapshots:
    """Remembers what the last checkpoint holds.

    Args:
        core: the broker.
        found: what has happened since the last checkpoint was made.

    """

    def __init__(self, core: BrokerCore, found: Recovered) -> None:
        self._core = core
        self._journal = found.journal
        self._cursors: dict[int, Cursor] = {}
        self._ended = found.ended
        self._retained = found.retained

    def ended(self, record: SessionRecord) -> None:
        """A session is no more."""
        self._ended.append(record.number)
        self._cursors.pop(record.number, None)

    def retained_changed(self, topic: str) -> None:
        """A topic has another retained message, or none."""
        self._retained.add(topic)

    def take(self, position: int) -> Taken:
        """The state now, as far as it is not in the last checkpoint."""
        clock = _Clock(self._core.now())
        sessions: list[SavedSession] = []
        cursors: dict[int, Cursor] = {}
        for session in self._core.sessions.values():
            record = session.record
            if record is None:
                continue
            start, end = session.queue_places
            cursor = Cursor(record.version, start, end)
            before = self._cursors.get(record.number)
            if cursor != before:
                sessions.append(_session(session, record.number, before, clock))
                cursors[record.number] = cursor
        retained, self._retained = self._retained, set()
        ended, self._ended = self._ended, []
        checkpoint = Checkpoint(
            position,
            self._journal.next_session,
            dict(self._journal.delivered),
            sessions,
            ended,
            {topic: clock.retained(self._core.retained.get(topic)) for topic in retained},
        )
        return Taken(checkpoint, cursors)

    def saved(self, taken: Taken) -> None:
        """It is written."""
        gone = set(self._ended)
        self._cursors.update((n, c) for n, c in taken.cursors.items() if n not in gone)

    def failed(self, taken: Taken) -> None:
        """It is not: the next one must say the same again."""
        self._ended = taken.checkpoint.ended + self._ended
        self._retained |= taken.checkpoint.retained.keys()


class _Clock:
    """Turns times of the loop's clock into those of the wall."""

    def __init__(self, now_s: float) -> None:
        self._ahead_s = time.time() - now_s

    def message(self, message: Message) -> SavedMessage | None:
        """A message as it is saved; None for one that was never logged."""
        if message.ref is None:
            return None
        expires_us = None
        if message.expires_at_s is not None:
            expires_us = int((message.expires_at_s + self._ahead_s) * 1_000_000)
        entry = Entry(
            message.topic, message.payload, message.qos, message.retain, message.properties
        )
        return SavedMessage(message.ref, entry, expires_us)

    def retained(self, message: Message | None) -> SavedMessage | None:
        return None if message is None else self.message(message)

    def deliveries(
        self, deliveries: Iterable[tuple[int, Delivery | None]], place: int
    ) -> list[SavedDelivery]:
        """Those with a message that was logged, and those that are released, in their order."""
        found: list[SavedDelivery] = []
        for at, (packet_id, delivery) in enumerate(deliveries, place):
            if delivery is None:
                found.append(SavedDelivery(at, packet_id, None, 0, ()))
                continue
            message, flags, identifiers = delivery
            saved = self.message(message)
            if saved is not None:
                found.append(SavedDelivery(at, packet_id, saved, flags, identifiers))
        return found


def _session(session: Session, number: int, before: Cursor | None, clock: _Clock) -> SavedSession:
    start, _ = session.queue_places
    new_from = start if before is None else max(start, before.queue_to)
    fresh = ((0, delivery) for delivery in islice(session.queue, new_from - start, None))
    return SavedSession(
        number,
        session.client_id,
        session.client.username,
        session.client.roles,
        session.client.version,
        session.expiry_s,
        session.last_packet_id,
        tuple(session.incoming),
        dict(session.subscriptions),
        clock.deliveries(session.inflight.items(), 0),
        start,
        clock.deliveries(fresh, new_from),
        before is None,
    )
