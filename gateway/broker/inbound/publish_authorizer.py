"""Judgement of a PUBLISH: this is the one place that decides whether it passes, and where to.

A QoS 0 message is delivered at once and handed to the tree; the very bytes that came are what
clients of the same protocol version are sent. QoS 1, 2 and retained messages wait for the log
(`commit_queue`): an acknowledgement never leaves before the log has the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.hooks import TopicPermissions
from gateway.broker.inbound.commit_queue import CommitQueue
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.limits import Budget
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import DUP, RETAIN, Message, size_of
from gateway.broker.outbound.routes import Route, Routes
from gateway.mqtt import V311, PacketError, PropertyId, ReasonCode, body_at, read_publish

Private = Callable[[Publisher, str, bytes, tuple[int, int], dict[int, Any] | None], bool | None]
"""Takes who published, topic, payload, first byte with packet identifier, and properties; tells
what `PublishAuthorizer.receive` does, None if it does not serve that topic."""
_TOPIC_ALIAS: Final = int(PropertyId.TOPIC_ALIAS)
_SUBSCRIPTION_IDENTIFIER: Final = int(PropertyId.SUBSCRIPTION_IDENTIFIER)


class PublishAuthorizer:
    """Decides on what clients publish.

    Args:
        routes: where topics go.
        delivery: hands QoS 0 messages over.
        commit_queue: takes those that wait for the log, and what the tree gets.
        permissions: which topics clients may use; None for all.
        budget: what all sessions share, and the limits of each.
        refusals: is told what was refused.
        now: the loop's clock, in seconds.

    """

    def __init__(
        self,
        routes: Routes,
        delivery: Delivery,
        commit_queue: CommitQueue,
        permissions: TopicPermissions | None,
        budget: Budget,
        refusals: CountedLines,
        now: Callable[[], float],
    ) -> None:
        self._routes = routes
        self._delivery = delivery
        self._commit_queue = commit_queue
        self._permissions = permissions
        self._budget = budget
        self._limits = budget.limits
        self._refusals = refusals
        self._now = now
        self._private: Private = lambda *_: None

    def serve(self, private: Private) -> None:
        """Let this one deal with topics that begin with ``$``, as far as they are its own."""
        self._private = private

    def receive(self, publisher: Publisher, packet: bytes) -> bool:
        """Handle a PUBLISH.

        Args:
            publisher: who sent it.
            packet: the whole of it.

        Returns:
            Whether it is dealt with; if not, a decision on it takes time, and it has to be handed
            in again when that is there.

        Raises:
            PacketError: it is malformed or breaks a limit.

        """
        first, size = packet[0], len(packet)
        version = publisher.version
        key, packet_id, at, properties = read_publish(packet, first, body_at(packet), size, version)
        key = self._topic(publisher, key, properties) if properties else key
        route = self._routes.of(key)
        payload_bytes = size - at
        if payload_bytes > self._limits.payload_bytes:
            raise PacketError(ReasonCode.PACKET_TOO_LARGE, "payload of bytes", payload_bytes)
        if route.closed:
            exchange = (first, packet_id)
            dealt = self._private(publisher, route.topic, packet[at:], exchange, properties)
            return self._forbid(publisher, first, packet_id) if dealt is None else dealt
        if (permissions := self._permissions) is not None:
            may = publisher.permitted.kept.get(route.topic)
            if may is None:
                may = self._decide(permissions, publisher, route.topic)
            if may is None:
                return False
            if not may:
                return self._forbid(publisher, first, packet_id)
        if first & RETAIN and (why := self._why_full(publisher, route, payload_bytes, properties)):
            self._refusals.count(f"message not retained: {why}", str(publisher))
            if version != V311 and first & 6:
                self._refuse(publisher, first, packet_id, ReasonCode.QUOTA_EXCEEDED)
                return True
            # Who can't be told has it delivered all the same, here and everywhere.
            first &= ~RETAIN
            packet = bytes((first,)) + packet[1:]
        if first & 6:
            self._take(publisher, route, packet, packet_id, at, properties)
        elif first & RETAIN:
            message = self._message(route, 0, packet, at, properties)
            self._delivery.share(message, route)
            self._commit_queue.retain(message, publisher.session)
        elif properties is None and route.is_plain:
            payload = packet[at:]
            self._delivery.forward(route, packet, payload, version)
            self._commit_queue.pass_on((route.topic, 0, payload))
        else:
            message = self._message(route, 0, packet, at, properties)
            self._delivery.share(message, route)
            self._delivery.deliver(message, route, publisher.session, self._now())
            self._commit_queue.pass_on(self._commit_queue.row(message))
        return True

    def _topic(self, publisher: Publisher, key: bytes, properties: dict[int, Any]) -> bytes:
        if _SUBSCRIPTION_IDENTIFIER in properties:
            what = "PUBLISH with a subscription identifier"
            raise PacketError(ReasonCode.PROTOCOL_ERROR, what, None, "MQTT-3.3.4-6")
        alias = properties.pop(_TOPIC_ALIAS, None)
        if alias is None:
            return key
        if key:
            self._routes.of(key)  # a topic that is none must not become an alias
        return publisher.aliases.topic(alias, key)

    def _message(
        self, route: Route, qos: int, packet: bytes, at: int, properties: dict[int, Any] | None
    ) -> Message:
        now_s = self._now() if properties else 0.0
        is_retained = bool(packet[0] & RETAIN)
        return Message(route.topic, route.key, packet[at:], qos, is_retained, properties, now_s)

    def _take(
        self,
        publisher: Publisher,
        route: Route,
        packet: bytes,
        packet_id: int,
        at: int,
        properties: dict[int, Any] | None,
    ) -> None:
        first = packet[0]
        qos = first >> 1 & 3
        if publisher.begins(first, packet_id, self._budget):
            if properties is None and first & (DUP | RETAIN) == 0:  # its own bytes serve receivers
                payload = packet[at:]
                message = Message(route.topic, route.key, payload, qos, False)
                message.kind = publisher.version << 4 | first & 6
                if publisher.version == V311:
                    message.head, message.tail = packet[: at - 2], payload
                else:  # between the two there is the length of no properties
                    message.head, message.tail = packet[: at - 3], packet[at - 1 :]
            else:
                message = self._message(route, qos, packet, at, properties)
            if route.is_shared_elsewhere:
                self._delivery.share(message, route)
            self._commit_queue.publish(message, publisher, packet_id)
        else:
            self._commit_queue.again(publisher, packet_id)

    def _decide(
        self, permissions: TopicPermissions, publisher: Publisher, topic: str
    ) -> bool | None:
        """Ask whether a client may publish to a topic; None if the answer takes time."""
        verdict = permissions.may_publish(publisher.session.client, topic)
        if isinstance(verdict, Awaitable):
            publisher.waiting.for_verdict(
                verdict, lambda result: self._decided(publisher, topic, bool(result))
            )
            return None
        self._decided(publisher, topic, verdict)
        return verdict

    def _decided(self, publisher: Publisher, topic: str, allowed: bool) -> None:
        publisher.permitted.note(topic, allowed)

    def _forbid(self, publisher: Publisher, first: int, packet_id: int) -> bool:
        self._refusals.count("publication to a forbidden topic", str(publisher))
        if first & 6:
            self._refuse(publisher, first, packet_id, ReasonCode.NOT_AUTHORIZED)
        return True

    def _why_full(
        self, publisher: Publisher, route: Route, length: int, properties: dict[int, Any] | None
    ) -> str:
        # An empty payload ends what is retained. Any other counts as it will when it is kept.
        size_bytes = size_of(route.key, length, properties) if length else 0
        return self._commit_queue.why_not_retained(publisher.session, route.topic, size_bytes)

    def _refuse(self, publisher: Publisher, first: int, packet_id: int, reason: int) -> None:
        qos = first >> 1 & 3
        if not publisher.begins(first, packet_id, self._budget):
            self._commit_queue.again(publisher, packet_id)
        elif publisher.version == V311:
            # It can't be told: acknowledged and dropped (MQTT-3.3.5-2 of 3.1.1).
            publisher.acknowledge(qos, packet_id)
        else:
            if qos == 2:
                publisher.session.incoming.forget(packet_id)
            publisher.refuse(qos, packet_id, reason)
