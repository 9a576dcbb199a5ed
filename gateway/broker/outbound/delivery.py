"""Hands a message to everyone whom its route names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.broker.outbound.message import RETAIN, Message, plain_packets
from gateway.broker.outbound.targets import Grant, Members, Route
from gateway.broker.sessions.in_flight import Ready
from gateway.broker.sessions.session import Session, Subscription
from gateway.mqtt import Version

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection
    from gateway.broker.outbound.outgoing import Outgoing


class Delivery:
    """Delivers; keeps whose turn it is in each shared subscription.

    Args:
        dirty: connections that have something to send; each stands in it once.

    """

    def __init__(self, dirty: list[Outgoing]) -> None:
        self._dirty = dirty
        self._turns: Counter[tuple[str, str]] = Counter()

    def deliver(
        self, message: Message, route: Route, publisher: Session | None, now_s: float
    ) -> None:
        """Give a message to every receiver of the route."""
        qos = message.qos
        if qos and route.sole is not None:
            session, granted = route.sole
            # At the lower of the two QoS [MQTT-3.8.4-8].
            packet = session.deliver(message, (granted if granted < qos else qos) << 1, (), now_s)
            if packet is not None:
                connection = session.connection
                assert connection is not None
                out = connection.out
                if not out:
                    self._dirty.append(connection)
                out.append(packet)
            return
        if qos:
            if route.zero_311:
                self._send_all(route.zero_311, message, Version.V311, now_s)
            if route.zero_5:
                self._send_all(route.zero_5, message, Version.V5, now_s)
            if route.queued:
                self._queue((message,), route.queued, now_s)
        else:
            self._send_all(route.live_311, message, Version.V311, now_s)
            self._send_all(route.live_5, message, Version.V5, now_s)
        if route.special or route.shared:
            self.deliver_special(message, route, publisher, now_s)

    def deliver_all(
        self, messages: Sequence[Message], route: Route, publisher: Session | None, now_s: float
    ) -> None:
        """Give QoS 1 and 2 messages to every receiver of their route, in their order."""
        if route.zero_311 or route.zero_5 or route.special or route.shared:
            for message in messages:
                self.deliver(message, route, publisher, now_s)
        elif route.queued:
            self._queue(messages, route.queued, now_s)

    def deliver_plain(self, route: Route, payloads: Sequence[bytes], now_s: float) -> None:
        """Give QoS 0 messages of one topic, which are not retained and have no properties, to
        every receiver of their route, in their order."""
        if route.special or route.shared:
            for payload in payloads:
                message = Message(route.topic, route.key, payload, 0, False)
                self.deliver(message, route, None, now_s)
            return
        for receivers, version in ((route.live_311, Version.V311), (route.live_5, Version.V5)):
            if receivers:
                packets = plain_packets(route.key, payloads, version)
                for receiver in receivers:
                    receiver.offer_all(packets)

    def _queue(
        self, messages: Sequence[Message], queued: list[tuple[Session, int]], now_s: float
    ) -> None:
        made: dict[tuple[int, int], list[Ready]] = {}
        for session, granted in queued:
            version = session.client.version
            ready = made.get((version, granted))
            if ready is None:
                ready = _made_ready(messages, version, granted, now_s)
                made[version, granted] = ready
            pieces, packets = session.deliver_all(ready, now_s)
            if pieces:
                connection = session.connection
                assert connection is not None
                out = connection.out
                if not out:
                    self._dirty.append(connection)
                out += pieces
                connection.joined += packets - len(pieces)

    def deliver_special(
        self, message: Message, route: Route, publisher: Session | None, now_s: float
    ) -> None:
        """Give a message to those who are served one by one."""
        for target in route.special:
            grant = target.own if target.session is publisher else target.grant
            if grant is not None:  # No Local [MQTT-3.8.3-3]
                self.give(target.session, message, grant, now_s)
        for group, members in route.shared:
            self._give_one(group, members, message, now_s)

    def give(
        self,
        session: Session,
        message: Message,
        grant: Grant,
        now_s: float,
        *,
        retained: bool = False,
    ) -> None:
        """Give a message to one session.

        Args:
            session: whose.
            message: the message.
            grant: at which QoS, with which identifiers.
            now_s: on the loop's clock.
            retained: because of a new subscription: RETAIN is set [MQTT-3.3.1-8].

        """
        qos = min(message.qos, grant.qos)
        # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
        flags = qos << 1
        if retained or (message.retain and grant.retain_as_published):
            flags |= RETAIN
        connection = session.connection
        if qos:
            if retained and session.record is not None and message.ref is not None:
                session.record.given_retained(message.topic, flags, grant.identifiers)
            packet = session.deliver(message, flags, grant.identifiers, now_s)
            if packet is not None and connection is not None:
                connection.send_message(packet)
        elif connection is not None:
            packet = message.packet(connection.version, flags, 0, grant.identifiers, now_s)
            connection.offer(packet)

    def _give_one(
        self, group: tuple[str, str], members: Members, message: Message, now_s: float
    ) -> None:
        """Give a message to one member of a shared subscription, in turn among those online."""
        turn = self._turns[group]
        self._turns[group] = turn + 1
        count = len(members)
        online = away = None
        for i in range(count):
            member = members[(turn + i) % count]
            if member[0].connection is not None:
                online = member
                break
            if away is None and min(member[1].qos, message.qos):
                away = member
        chosen = online or away
        if chosen is None:
            return
        session, subscription = chosen
        journal = next((s.record.journal for s, _ in members if s.record is not None), None)
        if journal is not None and message.ref is not None:
            journal.shared(group, message.ref, session.record)
        self.give(session, message, grant_of(subscription), now_s)

    def forget_turns(self, group: tuple[str, str]) -> None:
        """A shared subscription has no members left."""
        self._turns.pop(group, None)

    def _send_all(
        self, connections: list[Connection], message: Message, version: int, now_s: float
    ) -> None:
        if not connections:
            return
        packet = message.packet(version, 0, 0, (), now_s)
        for connection in connections:
            connection.offer(packet)


def _made_ready(
    messages: Sequence[Message], version: int, granted: int, now_s: float
) -> list[Ready]:
    ready: list[Ready] = []
    for message in messages:
        qos = message.qos
        flags = (granted if granted < qos else qos) << 1  # the lower of the two [MQTT-3.8.4-8]
        kind = version << 4 | flags
        if message.kind == kind:
            ready.append(((message, flags, ()), message.head, message.tail))
        else:
            ready.append(((message, flags, ()), *message.pieces(kind, now_s)))
    return ready


def grant_of(subscription: Subscription) -> Grant:
    """What one subscription alone grants."""
    grant = Grant.of([subscription])
    assert grant is not None
    return grant
