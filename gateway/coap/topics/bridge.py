"""The bridge of MQTT and CoAP: `gateway.broker.hooks.PrivateTopics` below ``$coap``.

It stands before both: the broker is opened with it, and CoAP comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from coap_engine.codes import is_success
from coap_engine.message import CoapResponse
from gateway.broker.hooks import Client
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Grant
from gateway.coap.topics.asker import TopicAsker
from gateway.coap.topics.observing import TopicObservations
from gateway.coap.topics.private_delivery import PrivateDelivery
from gateway.coap.topics.properties import answer_properties
from gateway.coap.topics.requests import TopicRequests
from gateway.coap.topics.shares import TopicLimits, TopicShares
from gateway.coap.topics.topics import (
    ANSWER,
    OBSERVE,
    PREFIX,
    answer_prefix,
    answer_topic,
    is_request,
)
from gateway.mqtt import V311, FilterError, PropertyId, ReasonCode, check_topic_name
from gateway.mqtt.errors import PacketError
from light_dataclasses import dataclass
from tree_handler.routing.topic_filters import matches

_READS: Final = ("GET", "FETCH")
_OBSERVED: Final = f"{PREFIX}{OBSERVE}/"
_ONCE: Final = Grant(0, False, ())


@dataclass(frozen=True, slots=True)
class _WayBack:
    """The way back to a client, for the answer to its request.

    Attributes:
        client: to whom.
        topic: the response topic; empty for the client's own topic for answers.
        asked: the topic of the request.
        qos: of the request.
        correlation: as the client gave it, or None.

    """

    client: Client
    topic: str
    asked: str
    qos: int
    correlation: bytes | None


class CoapBridge:
    """Serves ``$coap``.

    Args:
        limits: what clients may have under way.

    """

    def __init__(self, limits: TopicLimits | None = None) -> None:
        self._limits = limits or TopicLimits()
        self._requests: TopicRequests | None = None
        self._delivery: PrivateDelivery | None = None
        self._observing: TopicObservations | None = None
        self._own: dict[Client, dict[str, Grant]] = {}
        """Subscriptions to answers and to what is observed, by client."""
        most = self._limits
        self._subscriptions = TopicShares(most.client_observations, most.user_observations)

    def begin(self, asker: TopicAsker, delivery: PrivateDelivery) -> None:
        """CoAP is there: serve from now on.

        Args:
            asker: asks for clients.
            delivery: gives messages to them.

        """
        self._delivery = delivery
        self._requests = TopicRequests(asker, self._limits)
        self._observing = TopicObservations(asker, self._tell, self._forget)

    def revise(self) -> None:
        """The policy of CoAP is another one."""
        if self._observing is not None:
            self._observing.revise()

    def stop(self) -> None:
        """Serve nothing any more."""
        if self._requests is not None:
            self._requests.stop()
            self._requests = None
        if self._observing is not None:
            self._observing.stop()
            self._observing = None

    # -- of the broker -----------------------------------------------------------------------------

    def serves(self, topic: str) -> bool:
        """Return whether a topic is one of CoAP's."""
        return topic.startswith(PREFIX)

    def asked(
        self, client: Client, topic: str, payload: bytes, qos: int, properties: Mapping[int, Any]
    ) -> int:
        """Take a request that a client publishes; return the reason code."""
        requests = self._requests
        if requests is None:
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        if client.is_bridge:  # it would ask for others, whom nobody here knows
            return ReasonCode.NOT_AUTHORIZED
        method = topic.removeprefix(PREFIX).partition("/")[0]
        if method in (OBSERVE, ANSWER) or (client.version != V311 and not is_request(topic)):
            return ReasonCode.TOPIC_NAME_INVALID  # a 3.1.1 client is answered 4.00 instead
        way = self._way_back(client, topic, qos, properties)
        if isinstance(way, int):
            return way
        if way is None and method in _READS:
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        answer = self._drop if way is None else self._answering(way)
        requests.begin(client, topic, payload, properties, answer)
        return ReasonCode.SUCCESS

    def subscribe(self, client: Client, topic_filter: str, qos: int, identifier: int) -> int:
        """Take a subscription to observations or answers; return the reason code."""
        if client.is_bridge:
            return ReasonCode.NOT_AUTHORIZED
        if not topic_filter.startswith(PREFIX):
            return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
        reason = self._why_not(client, topic_filter)
        if reason:
            return reason
        own = self._own.setdefault(client, {})
        if topic_filter not in own and self._subscriptions.take(client, client.owner):
            return ReasonCode.QUOTA_EXCEEDED
        own[topic_filter] = _granted(qos, identifier)
        if topic_filter.startswith(_OBSERVED) and self._observing is not None:
            self._observing.add(client, topic_filter)
        return own[topic_filter].qos

    def unsubscribe(self, client: Client, topic_filter: str) -> bool:
        """End a subscription; return whether there was one."""
        if topic_filter not in self._own.get(client, {}):
            return False
        if self._observing is not None:
            self._observing.remove(client, topic_filter)
        self._forget(client, topic_filter)
        return True

    def _why_not(self, client: Client, topic_filter: str) -> int:
        """Return why a client may not subscribe to a filter; 0 if it may."""
        prefix = answer_prefix(client.client_id)
        if prefix and topic_filter.startswith(prefix):
            return ReasonCode.SUCCESS
        if topic_filter.startswith(f"{PREFIX}{ANSWER}/"):
            return ReasonCode.NOT_AUTHORIZED
        if "+" in topic_filter or "#" in topic_filter:
            return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
        if not topic_filter.startswith(_OBSERVED):
            return ReasonCode.TOPIC_FILTER_INVALID
        if self._observing is None:
            return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        return self._observing.why_not(client, topic_filter)

    def _forget(self, client: Client, topic_filter: str) -> None:
        own = self._own[client]
        del own[topic_filter]
        if not own:
            del self._own[client]
        self._subscriptions.give_back(client, client.owner)

    # -- what becomes of clients -------------------------------------------------------------------

    def connected(self, client: Client) -> None:
        """Do nothing: a client alone asks nothing."""

    def disconnected(self, client: Client, why: str) -> None:
        """End the client's requests and subscriptions here, with its connection."""
        if self._requests is not None:
            self._requests.left(client)
        for topic_filter in list(self._own.get(client, ())):
            self.unsubscribe(client, topic_filter)

    def subscribed(self, client: Client, topic_filter: str, qos: int) -> None:
        """Do nothing: subscriptions of others are not CoAP's."""

    def unsubscribed(self, client: Client, topic_filter: str) -> None:
        """Do nothing: subscriptions of others are not CoAP's."""

    # -- answers -----------------------------------------------------------------------------------

    def _way_back(
        self, client: Client, asked: str, qos: int, properties: Mapping[int, Any]
    ) -> _WayBack | int | None:
        """Return where an answer goes; the reason code if it can't, None if nobody wants one."""
        if client.version == V311:
            return (
                _WayBack(client, "", asked, qos, None) if answer_prefix(client.client_id) else None
            )
        topic = properties.get(PropertyId.RESPONSE_TOPIC)
        if topic is None:
            return None
        try:
            check_topic_name(topic.encode())
        except (FilterError, PacketError):
            return ReasonCode.TOPIC_NAME_INVALID
        if not self._may_read(client, topic):
            return ReasonCode.NOT_AUTHORIZED
        return _WayBack(client, topic, asked, qos, properties.get(PropertyId.CORRELATION_DATA))

    def _may_read(self, client: Client, topic: str) -> bool:
        prefix = answer_prefix(client.client_id)
        if prefix and topic.startswith(prefix):
            return True
        return self._delivery is not None and self._delivery.may_read(client, topic)

    def _answering(self, way: _WayBack) -> Callable[[CoapResponse], None]:
        return lambda response: self._answer(way, response)

    def _answer(self, way: _WayBack, response: CoapResponse) -> None:
        client, delivery = way.client, self._delivery
        prefix = answer_prefix(client.client_id)
        topic = way.topic or (prefix and answer_topic(prefix, response.code, way.asked))
        if delivery is None or not topic:
            return
        if topic.startswith(PREFIX):
            grant = self._grant(client, topic)
            if grant is None and (not way.topic or way.topic == way.asked):
                return  # it has not subscribed there, or no more
        elif delivery.may_read(client, topic):
            grant = delivery.grant(client, topic)
        else:
            return
        properties = answer_properties(response)
        if way.correlation is not None:
            properties[int(PropertyId.CORRELATION_DATA)] = way.correlation
        key = topic.encode()
        message = Message(topic, key, response.payload, min(way.qos, 1), False, properties)
        delivery.give(client, message, grant or _ONCE)

    def _grant(self, client: Client, topic: str) -> Grant | None:
        own = self._own.get(client, {})
        found = [grant for wanted, grant in own.items() if matches(wanted, topic)]
        if not found:
            return None
        identifiers = tuple(one for grant in found for one in grant.identifiers)
        return Grant(max(grant.qos for grant in found), False, identifiers)

    def _tell(self, client: Client, topic: str, response: CoapResponse) -> None:
        """Tell a client of what it observes, or why it does no more."""
        if client.version == V311 and not is_success(response.code):
            # Without properties it could not be told from a value.
            self._answer(_WayBack(client, "", topic, 1, None), response)
        else:
            self._answer(_WayBack(client, topic, topic, 1, None), response)

    def _drop(self, response: CoapResponse) -> None:
        """Nobody wants this answer."""


def _granted(qos: int, identifier: int) -> Grant:
    return Grant(min(qos, 1), False, (identifier,) if identifier else ())
