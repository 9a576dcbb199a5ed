"""Hands a message to everyone whom its route names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gateway.broker.message import RETAIN, Message
from gateway.broker.packets import Version
from gateway.broker.sessions import Session, Subscription
from gateway.broker.targets import Grant, Members, Route

if TYPE_CHECKING:
    from gateway.broker.connection import Connection
    from gateway.broker.outgoing import Outgoing


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
        if qos:
            if route.zero_311:
                self._send_all(route.zero_311, message, Version.V311, now_s)
            if route.zero_5:
                self._send_all(route.zero_5, message, Version.V5, now_s)
            dirty = self._dirty
            for session, granted in route.queued:
                # At the lower of the two QoS [MQTT-3.8.4-8].
                packet = session.deliver(
                    message, (granted if granted < qos else qos) << 1, (), now_s
                )
                if packet is not None:
                    connection = session.connection
                    assert connection is not None
                    out = connection.out
                    if not out:
                        dirty.append(connection)
                    out.append(packet)
        else:
            self._send_all(route.live_311, message, Version.V311, now_s)
            self._send_all(route.live_5, message, Version.V5, now_s)
        if route.special or route.shared:
            self.deliver_special(message, route, publisher, now_s)

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
        for i in range(count):
            session, subscription = members[(turn + i) % count]
            if session.connection is not None:
                self.give(session, message, _grant(subscription), now_s)
                return
        for i in range(count if message.qos else 0):
            session, subscription = members[(turn + i) % count]
            if min(subscription.qos, message.qos):
                self.give(session, message, _grant(subscription), now_s)
                return

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


def _grant(subscription: Subscription) -> Grant:
    grant = Grant.of([subscription])
    assert grant is not None
    return grant
