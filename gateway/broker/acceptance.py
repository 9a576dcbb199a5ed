"""A loop turn's accepted messages: into the log together, and only then acknowledged.

A QoS 1, 2 or retained message is delivered and acknowledged from the callback of the commit
that took it, in the order of arrival; a QoS 0 message has been delivered already and is handed
in for the tree alone. If the log refuses, nobody is acknowledged: a 5.0 client is told the
reason, a 3.1.1 client is disconnected and sends again [MQTT-3.3.5-2].
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.message import Message
from gateway.broker.message_log import Done
from gateway.broker.packets import ReasonCode
from gateway.broker.sessions import Session
from tree_handler.batch import Entry

if TYPE_CHECKING:
    from gateway.broker.connection import Connection

Accepted = tuple[Message | None, "Session | None", "Connection | None", int]
"""A message, or None for one that was accepted before and came again; its publisher; the packet
identifier, negative for QoS 2 and 0 where nobody waits."""

TURN_S = 0.01
"""Delivering goes on for so long before others have their turn."""
_LOOK_EVERY = 4
"""Messages between two looks at the clock."""


class Acceptance:
    """Gathers what is accepted during a turn of the event loop.

    Args:
        commit: takes entries and calls back when they are durable.
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
        "_settled",
        "_settling",
        "_stalled",
        "_turn_bytes",
        "_unlogged",
        "_waiting_bytes",
    )

    def __init__(
        self,
        commit: Callable[[list[Entry], Done | None], None],
        deliver: Callable[[Message, Session | None, float], None],
        settled: Callable[[], None],
        now: Callable[[], float],
        limit_bytes: int,
    ) -> None:
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
        self._settling: deque[tuple[deque[Accepted], int]] = deque()
        """Commits that are durable and not delivered to the end, in their order."""

    @property
    def waiting_bytes(self) -> int:
        """Payloads of what is accepted and not delivered yet."""
        return self._waiting_bytes

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
        self._accepted.append((message, session, connection, packet_id))
        size_bytes = len(message.payload)
        self._turn_bytes += size_bytes
        self._waiting_bytes += size_bytes
        if (
            connection is not None
            and self._waiting_bytes > self._limit_bytes
            and connection not in self._stalled
        ):
            self._stalled.add(connection)
            connection.stall()

    def again(self, session: Session, connection: Connection, packet_id: int) -> None:
        """A QoS 2 message that came before came again: acknowledge it after what came before."""
        self._accepted.append((None, session, connection, -packet_id))

    def pass_on(self, topic: str, payload: bytes, properties: dict[int, object]) -> None:
        """Take a QoS 0 message for the tree."""
        self._unlogged.append(Entry(topic, payload, 0, False, properties))

    def commit(self) -> None:
        """Hand the turn's messages in."""
        accepted, self._accepted = self._accepted, []
        entries, self._unlogged = self._unlogged, []
        size_bytes, self._turn_bytes = self._turn_bytes, 0
        entries += [
            Entry(m.topic, m.payload, m.qos, m.retain, m.properties)
            for m, _, _, _ in accepted
            if m is not None
        ]
        done = partial(self._committed, accepted, size_bytes) if accepted else None
        self._commit(entries, done)

    def _committed(self, accepted: list[Accepted], size_bytes: int, error: OSError | None) -> None:
        if error is not None:
            for _, session, connection, packet_id in accepted:
                self._refuse(session, connection, packet_id)
            accepted = []
        self._settling.append((deque(accepted), size_bytes))
        if len(self._settling) == 1:
            self._go_on()

    def finish(self) -> None:
        """Deliver and acknowledge all that is durable, however long it takes."""
        self._settle(float("inf"))

    def _go_on(self) -> None:
        self._settle(self._now() + TURN_S)
        if self._settling:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _settle(self, until_s: float) -> None:
        """Deliver and acknowledge in the order of the commits, until a time or the end."""
        while self._settling:
            accepted, size_bytes = self._settling[0]
            self._deliver_some(accepted, until_s)
            if accepted:
                break
            self._settling.popleft()
            self._waiting_bytes -= size_bytes
        if self._stalled and self._waiting_bytes <= self._limit_bytes // 2:
            stalled, self._stalled = self._stalled, set()
            for connection in stalled:
                connection.resume()
        self._settled()

    def _deliver_some(self, accepted: deque[Accepted], until_s: float) -> None:
        now_s = self._now()
        deliver, take = self._deliver, accepted.popleft
        while accepted:
            for _ in range(min(_LOOK_EVERY, len(accepted))):
                message, session, connection, packet_id = take()
                if connection is not None and packet_id:
                    connection.acknowledge(packet_id)
                if message is not None:
                    deliver(message, session, now_s)
            if accepted and self._now() > until_s:
                return

    def _refuse(
        self, session: Session | None, connection: Connection | None, packet_id: int
    ) -> None:
        if session is not None and packet_id < 0:
            session.incoming.discard(-packet_id)
        if connection is not None and packet_id:
            connection.refuse(packet_id, ReasonCode.QUOTA_EXCEEDED)
