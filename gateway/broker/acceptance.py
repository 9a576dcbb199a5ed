"""A loop turn's accepted messages: into the log together, and only then acknowledged.

A QoS 1, 2 or retained message is delivered and acknowledged from the callback of the commit
that took it, in the order of arrival; a QoS 0 message has been delivered already and is handed
in for the tree alone. If the log refuses, nobody is acknowledged: a 5.0 client is told the
reason, a 3.1.1 client is disconnected and sends again [MQTT-3.3.5-2]. QoS 0 goes on: a message
that was to be retained is delivered all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.hooks import Commit
from gateway.broker.message import Message
from gateway.broker.packets import ReasonCode
from gateway.broker.sessions import Session
from tree_handler.batch import MAX_BODY_BYTES, MAX_ENTRIES, Entry

if TYPE_CHECKING:
    from gateway.broker.connection import Connection
    from gateway.broker.durable import Durable
    from gateway.broker.journal import Journal

Accepted = tuple[Message | None, "Session | None", "Connection | None", int]
"""A message, or None for one that was accepted before and came again; its publisher; the packet
identifier, negative for QoS 2 and 0 where nobody waits."""


class Acceptance:
    """Gathers what is accepted during a turn of the event loop.

    Args:
        commit: takes messages and calls back when they are durable.
        deliver: hands a message to its subscribers.
        settled: called when a commit is dealt with.
        now: the loop's clock, in seconds.
        limit_bytes: beyond so many bytes that wait for the log, publishers are not read from.

    """

    __slots__ = (
        "_accepted",
        "_commit",
        "_deliver",
        "_limit_bytes",
        "_now",
        "_refused",
        "_settled",
        "_stalled",
        "_turn_bytes",
        "_unlogged",
        "_waiting_bytes",
        "durable",
    )

    def __init__(
        self,
        commit: Commit,
        deliver: Callable[[Message, Session | None, float], None],
        settled: Callable[[], None],
        now: Callable[[], float],
        limit_bytes: int,
    ) -> None:
        self.durable: Durable | None = None
        """Keeps durable sessions, where there are any."""
        self._commit = commit
        self._deliver = deliver
        self._settled = settled
        self._now = now
        self._limit_bytes = limit_bytes
        self._accepted: list[Accepted] = []
        self._unlogged: list[Entry] = []
        self._waiting_bytes = 0
        self._turn_bytes = 0
        self._stalled: set[Connection] = set()
        self._refused: set[tuple[Session, int]] = set()
        """QoS 2 messages refused while others wait, which may be the same ones again."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self._accepted or self._unlogged)

    def add(
        self,
        message: Message,
        session: Session | None,
        connection: Connection | None = None,
        packet_id: int = 0,
    ) -> None:
        """Take a message that is to be logged."""
        size_bytes = len(message.payload) + len(message.topic)
        # What the log takes or refuses as a whole, and so is answered alike, is one batch.
        if self._accepted and (
            self._turn_bytes + size_bytes > MAX_BODY_BYTES or len(self._accepted) >= MAX_ENTRIES
        ):
            self.commit()
        if self._refused:
            self._forget_refused(session, packet_id)
        self._accepted.append((message, session, connection, packet_id))
        self._turn_bytes += size_bytes
        self._waiting_bytes += size_bytes
        if (
            connection is not None
            and self._waiting_bytes > self._limit_bytes
            and connection not in self._stalled
        ):
            self._stalled.add(connection)
            connection.stall()

    def _forget_refused(self, session: Session | None, packet_id: int) -> None:
        if not self._waiting_bytes:
            self._refused.clear()
        elif session is not None:
            self._refused.discard((session, packet_id))

    def again(self, session: Session, connection: Connection, packet_id: int) -> None:
        """A QoS 2 message that came before came again: acknowledge it after what came before."""
        self._accepted.append((None, session, connection, -packet_id))
        self._turn_bytes += 1
        self._waiting_bytes += 1

    def pass_on(self, topic: str, payload: bytes, properties: dict[int, object]) -> None:
        """Take a QoS 0 message for the tree."""
        self._unlogged.append(Entry(topic, payload, 0, False, properties))

    def commit(self) -> None:
        """Hand the turn's messages in: those that are to be logged fit into one batch."""
        accepted, self._accepted = self._accepted, []
        unlogged, self._unlogged = self._unlogged, []
        size_bytes, self._turn_bytes = self._turn_bytes, 0
        logged = [message for message, _, _, _ in accepted if message is not None]
        done = partial(self._committed, accepted, size_bytes) if accepted else None
        error = None if self.durable is None or not logged else self.durable.precede(accepted)
        if error is None:
            self._commit(logged, unlogged, done)
            return
        self._commit((), unlogged, None)
        self._committed(accepted, size_bytes, 0, error)

    def _committed(
        self, accepted: list[Accepted], size_bytes: int, first: int, error: OSError | None
    ) -> None:
        self._waiting_bytes -= size_bytes
        if error is None:
            if self.durable is not None and first:
                self._number(accepted, self.durable.journal, first)
            self._settle(accepted)
        else:
            if self.durable is not None:
                self.durable.journal.was_refused()
            self._refuse(accepted)
        if self._stalled and self._waiting_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for connection in stalled:
                connection.resume()
        self._settled()

    @staticmethod
    def _number(accepted: list[Accepted], journal: Journal, first: int) -> None:
        """Tell messages where they stand in the log; those of them that anybody may ask."""
        own = journal.own
        number = first - 1
        for message, _, _, _ in accepted:
            if message is not None:
                number += 1
                if message.retain or journal.has_sessions:
                    message.ref = (own, number)
        journal.has_delivered(own, number)

    def _settle(self, accepted: list[Accepted]) -> None:
        now_s = self._now()
        deliver = self._deliver
        for message, session, connection, packet_id in accepted:
            if message is None:
                self._answer_again(session, connection, packet_id)
                continue
            if connection is not None and packet_id:
                connection.acknowledge(packet_id)
            deliver(message, session, now_s)

    def _answer_again(
        self, session: Session | None, connection: Connection | None, packet_id: int
    ) -> None:
        """What came before says whether it is in the log."""
        if session is None or connection is None:
            return
        if (session, packet_id) in self._refused:
            connection.refuse(packet_id, ReasonCode.QUOTA_EXCEEDED)
        else:
            connection.acknowledge(packet_id)

    def _refuse(self, accepted: list[Accepted]) -> None:
        for message, session, connection, packet_id in accepted:
            if message is None:
                self._answer_again(session, connection, packet_id)
                continue
            if not message.qos:
                self._deliver(message, session, self._now())
                continue
            if session is not None and packet_id < 0:
                session.release_incoming(-packet_id)
                self._refused.add((session, packet_id))
            if connection is not None:
                connection.refuse(packet_id, ReasonCode.QUOTA_EXCEEDED)
