"""Publications below ``$coap``: handed to the bridge, and acknowledged at once.

It goes into no log and to no subscriber. An acknowledgement says that it was taken; what came of it
is an answer of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.hooks import BrokerPermissions, Client
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.limits import Budget
from gateway.mqtt import V311, ReasonCode

_FAILED: Final = 0x80


class Publications:
    """Hands it over.

    Args:
        takes: whether a topic is one of these.
        ask: takes client, topic, payload, QoS and properties; gives the reason code.
        permissions: which topics clients may use; None for all.
        budget: how many QoS 2 messages a session may leave unreleased.
        refusals: is told what was refused.

    """

    def __init__(
        self,
        takes: Callable[[str], bool],
        ask: Callable[[Client, str, bytes, int, Mapping[int, Any]], int],
        permissions: BrokerPermissions | None,
        budget: Budget,
        refusals: CountedLines,
    ) -> None:
        self._takes = takes
        self._ask = ask
        self._permissions = permissions
        self._budget = budget
        self._refusals = refusals

    def receive(
        self,
        publisher: Publisher,
        topic: str,
        payload: bytes,
        exchange: tuple[int, int],
        properties: dict[int, Any] | None,
    ) -> bool | None:
        """Take a PUBLISH: `gateway.broker.inbound.publish_authorizer.Private`.

        Args:
            publisher: who sent it.
            topic: where to.
            payload: what it says.
            exchange: its first byte and packet identifier.
            properties: those of 5.0.

        Returns:
            Whether it is dealt with; see `PublishAuthorizer.receive`. None if it is not one of
            these.

        Raises:
            PacketError: more messages are on their way than were allowed, or not released.

        """
        if not self._takes(topic):
            return None
        if not self._is_decided(publisher, topic):
            return False
        first, packet_id = exchange
        qos = first >> 1 & 3
        if qos and not publisher.begins(first, packet_id, self._budget):
            publisher.acknowledge(qos, packet_id)  # it came before, and is not asked again
            return True
        reason: int = ReasonCode.NOT_AUTHORIZED
        client = publisher.session.client
        if self._permissions is None or publisher.permitted.kept[topic]:
            reason = self._ask(client, topic, payload, qos, properties or {})
        if reason >= _FAILED:
            self._refusals.count("request on a private topic refused", str(publisher))
        if not qos:
            return True
        if reason < _FAILED or publisher.version == V311:
            publisher.acknowledge(qos, packet_id)  # 3.1.1 can't say more (MQTT-3.3.5-2)
            return True
        if qos == 2:
            publisher.session.incoming.forget(packet_id)
        publisher.refuse(qos, packet_id, reason)
        return True

    def _is_decided(self, publisher: Publisher, topic: str) -> bool:
        """Return whether it stands in ``publisher.permitted`` what plugins say."""
        permissions = self._permissions
        if permissions is None or topic in publisher.permitted.kept:
            return True
        verdict = permissions.may_ask(publisher.session.client, topic, publishes=True)
        if isinstance(verdict, Awaitable):
            publisher.waiting.for_verdict(
                verdict, lambda result: publisher.permitted.note(topic, bool(result))
            )
            return False
        publisher.permitted.note(topic, verdict)
        return True
