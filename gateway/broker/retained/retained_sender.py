"""Sends a new subscriber what is retained (section 3.3.1.3), in turns and as fast as it reads.

A filter may match a hundred thousand messages. They are sent for `TURN_S` at a time and, while
the client does not read, not at all; its further packets wait meanwhile, so that no client can
ask for more before it has got what it asked for. What a connection leaves unsent at its end, the
next one sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gateway.broker.inbound.read_gate import ReadGate
from gateway.broker.limits import Limits
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Grant
from gateway.broker.retained.bridged import RetainedByBridges
from gateway.broker.retained.retained_backlog import BacklogFilter, RetainedBacklog
from gateway.broker.retained.retained_backlogs import RetainedBacklogs
from gateway.broker.retained.retention import Retention
from gateway.broker.sessions.session import Session

TURN_S: Final = 0.005
PORTION: Final = 16
"""Messages between two looks at the clock."""
_PAUSE_S: Final = 0.02
"""A client that does not read is looked at so often."""


class RetainedSender:
    """Sends what is retained.

    Args:
        retention: what is retained.
        delivery: hands it over.
        bridged: what came from the subscriber itself.
        retained_backlogs: remembers what was not sent.
        may_deliver: whether a session's client may receive a topic.
        limits: of what is written at a time.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        retention: Retention,
        delivery: Delivery,
        bridged: RetainedByBridges,
        retained_backlogs: RetainedBacklogs,
        may_deliver: Callable[[Session, str], bool],
        limits: Limits,
        now: Callable[[], float],
    ) -> None:
        self._retention = retention
        self._delivery = delivery
        self._bridged = bridged
        self._retained_backlogs = retained_backlogs
        self._may_deliver = may_deliver
        self._turn_bytes = limits.write_buffer_bytes
        self._now = now

    def start(self, session: Session, waiting: ReadGate, wanted: Sequence[BacklogFilter]) -> None:
        """Send what the filters of one SUBSCRIBE match.

        What does not fit into this turn is sent later, and the client's packets wait for it.

        Args:
            session: the subscriber's.
            waiting: what its packets wait for.
            wanted: the filters.

        """
        if not wanted:
            return
        owed = RetainedBacklog(tuple(one for one in wanted if one.qos), set())
        rest = self._found(session, wanted, frozenset())
        if not self._send_some(session, owed, rest):
            if session.expiry_s and owed.wanted:  # it may have another connection
                self._retained_backlogs.owe(session, owed)
                if session.record is not None:
                    session.record.owed(owed.wanted)
            waiting.for_verdict(self._send_all(session, owed, rest), lambda _: None)

    def go_on(self, session: Session, waiting: ReadGate) -> None:
        """Send what the connection before left unsent."""
        owed = session.owed
        if owed is None:
            return
        wanted = [one for one in owed.wanted if one.topic_filter in session.subscriptions]
        rest = self._found(session, wanted, frozenset(owed.given))
        if self._send_some(session, owed, rest):
            self._settle(session)
        else:
            waiting.for_verdict(self._send_all(session, owed, rest), lambda _: None)

    def _settle(self, session: Session) -> None:
        if session.owed is not None:
            self._retained_backlogs.settled(session)
            if session.record is not None:
                session.record.owed(())

    def _found(
        self, session: Session, wanted: Sequence[BacklogFilter], had: frozenset[str]
    ) -> Iterator[tuple[str, Message, Grant]]:
        for topic_filter, qos, identifier in wanted:
            grant = Grant(qos, True, (identifier,) if identifier else ())
            for topic, message in self._retention.match(topic_filter):
                if topic not in had and not self._bridged.is_own(topic, session):
                    yield topic, message, grant

    def _send_some(
        self, session: Session, owed: RetainedBacklog, rest: Iterator[tuple[str, Message, Grant]]
    ) -> bool:
        """Send for a turn, and return whether that was all."""
        now_s = self._now()
        size_bytes = 0
        for count, (topic, message, grant) in enumerate(rest, 1):
            if self._may_deliver(session, topic):
                self._delivery.give(session, message, grant, now_s, retained=True)
                owed.given.add(topic)
                size_bytes += message.size_bytes
            is_late = not count % PORTION and self._now() > now_s + TURN_S
            if is_late or size_bytes > self._turn_bytes:
                return False
        return True

    async def _send_all(
        self, session: Session, owed: RetainedBacklog, rest: Iterator[tuple[str, Message, Grant]]
    ) -> None:
        channel = session.channel
        is_done = False
        while not is_done:
            if channel is None or channel.is_closing or session.channel is not channel:
                return
            await asyncio.sleep(_PAUSE_S if channel.is_paused else 0)
            if channel.is_closing or session.channel is not channel:
                return
            if not channel.is_paused:
                is_done = self._send_some(session, owed, rest)
        self._settle(session)
