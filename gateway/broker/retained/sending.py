"""Sends a new subscriber what is retained (section 3.3.1.3), in turns and as fast as it reads.

A filter may match a hundred thousand messages. They are sent for `TURN_S` at a time and, while
the client does not read, not at all; its further packets wait meanwhile, so that no client can
ask for more before it has got what it asked for. What a connection leaves unsent at its end, the
next one sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.broker.outbound.message import Message
from gateway.broker.outbound.targets import Grant
from gateway.broker.retained.owed import Owed, Wanted
from gateway.pace import Pace

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.sessions.session import Session

TURN_S = 0.005
PORTION = 16
"""Messages before the first look at the clock; more while they cost little."""
_PAUSE_S = 0.02
"""A client that does not read is looked at so often."""


class RetainedSending:
    """What is retained for the filters of one SUBSCRIBE.

    Args:
        connection: the subscriber's.
        session: which it serves.

    """

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session
        self._pace = Pace(connection.core.now, TURN_S, PORTION)
        self._wanted: list[Wanted] = []
        self._given: set[str] = set()
        self._had: frozenset[str] = frozenset()
        """Topics that need not be sent, for the connection before has."""

    def add(self, topic_filter: str, qos: int, identifier: int) -> None:
        """Send what this filter matches, too."""
        self._wanted.append(Wanted(topic_filter, qos, identifier))

    def start(self) -> None:
        """Send; what does not fit into this turn is sent later, and the client waits for it."""
        if self._wanted:
            rest = self._found()
            if not self._send_some(rest):
                self._owe()
                self._connection.wait_for(self._send_all(rest), lambda _: None)

    def go_on(self, owed: Owed) -> None:
        """Send what the connection before left unsent."""
        subscriptions = self._session.subscriptions
        self._wanted = [one for one in owed.wanted if one.topic_filter in subscriptions]
        self._had, self._given = frozenset(owed.given), owed.given
        rest = self._found()
        if self._send_some(rest):
            self._settled()
        else:
            self._connection.wait_for(self._send_all(rest), lambda _: None)

    def _owe(self) -> None:
        """Let the session know what is not sent yet, if it may have another connection."""
        session = self._session
        wanted = tuple(one for one in self._wanted if one.qos)
        if session.expiry_s and wanted:
            self._connection.core.owing.owe(session, Owed(wanted, self._given))
            if session.record is not None:
                session.record.owed(wanted)

    def _settled(self) -> None:
        session = self._session
        if session.owed is not None:
            self._connection.core.owing.settled(session)
            if session.record is not None:
                session.record.owed(())

    def _found(self) -> Iterator[tuple[str, Message, Grant]]:
        core = self._connection.core
        for topic_filter, qos, identifier in self._wanted:
            grant = Grant(qos, True, (identifier,) if identifier else ())
            for topic, message in core.retained_for(topic_filter):
                if topic not in self._had and not core.bridged.is_own(topic, self._session):
                    yield topic, message, grant

    def _send_some(self, rest: Iterator[tuple[str, Message, Grant]]) -> bool:
        """Send for a turn; whether that was all."""
        core, session = self._connection.core, self._session
        now_s = core.now()
        self._pace.begin(now_s)
        size_bytes = 0
        for topic, message, grant in rest:
            if core.may_deliver(session, topic):
                core.delivery.give(session, message, grant, now_s, retained=True)
                self._given.add(topic)
                size_bytes += message.size_bytes
            if not self._pace.goes_on(1) or size_bytes > core.limits.write_buffer_bytes:
                return False
        return True

    async def _send_all(self, rest: Iterator[tuple[str, Message, Grant]]) -> None:
        connection = self._connection
        is_done = False
        while not is_done:
            connection.core.turns.kick()
            await asyncio.sleep(_PAUSE_S if connection.is_paused else 0)
            if connection.is_closing or self._session.connection is not connection:
                return
            is_done = not connection.is_paused and self._send_some(rest)
        self._settled()
