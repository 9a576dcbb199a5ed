"""SUBSCRIBE and UNSUBSCRIBE of a client (sections 3.8 and 3.10)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.hooks import BrokerPermissions, Client, DeliveryVerdict, PrivateTopics
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.limits import Limits
from gateway.broker.retained.retained_backlog import BacklogFilter
from gateway.broker.retained.retained_sender import RetainedSender
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.subscription import Subscription
from gateway.broker.sessions.subscriptions import Subscriptions
from gateway.mqtt import (
    V311,
    PacketError,
    PropertyId,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    encode,
    encode_length,
)
from gateway.mqtt.primitives import read_length
from light_dataclasses import dataclass
from tree_handler.routing.topic_filters import proper, split_share

_AT_SUBSCRIBE: Final = 0
_IF_NEW: Final = 1
"""Retain handling (section 3.8.3.1)."""
_REFUSED_311: Final = 0x80
FILTERS_AT_ONCE: Final = 64
"""So many are dealt with before others have their turn, for about as long as that took."""
PAUSE_S: Final = 0.002
LEVELS_OF_A_FILTER: Final = 16
"""On average, of as many filters as a packet may have: each level costs as a filter does."""
_SUBSCRIBE: Final = 0x82
_UNSUBSCRIBE: Final = 0xA2


def check_size(packet: bytes, body: int, version: int, limits: Limits) -> None:
    """Refuse a packet that is no PUBLISH and would take long to look at.

    Args:
        packet: the whole packet.
        body: where its body starts.
        version: of the protocol.
        limits: in bytes, and for SUBSCRIBE and UNSUBSCRIBE in filters and their levels.

    Raises:
        PacketError: it is too large, or the property length is malformed.

    """
    first, end = packet[0], len(packet)
    if first not in {_SUBSCRIBE, _UNSUBSCRIBE}:
        if end - body > limits.request_bytes:
            raise PacketError(ReasonCode.PACKET_TOO_LARGE, "packet of bytes", end)
        return
    at = body + 2
    if version == Version.V5 and end > at:
        length, at = read_length("property length", packet, at, end)
        at += length
    levels = packet.count(b"/", at)
    if levels > limits.subscriptions_per_session * LEVELS_OF_A_FILTER:
        raise PacketError(ReasonCode.QUOTA_EXCEEDED, "levels of all filters in a packet", levels)
    options = 1 if first == _SUBSCRIBE else 0
    count = 0
    while at < end - 1:
        at += 2 + (packet[at] << 8 | packet[at + 1]) + options
        count += 1
        if count > limits.subscriptions_per_session:
            raise PacketError(ReasonCode.QUOTA_EXCEEDED, "filters in a packet", count)


@dataclass(slots=True)
class _Granted:
    """The result of a SUBSCRIBE: a reason for each filter, and the retained messages to send."""

    reasons: list[int] = field(default_factory=list)
    wanted: list[BacklogFilter] = field(default_factory=list)


class SubscribeRequests:
    """Answers them.

    Args:
        subscriptions: those of all sessions.
        sending: sends new subscribers what is retained.
        permissions: which topics clients may use; None for all.
        limits: of filters and subscriptions.
        refusals: is told what was refused.
        private: serves topics that begin with ``$``; None where nobody does.

    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        sending: RetainedSender,
        permissions: BrokerPermissions | None,
        limits: Limits,
        refusals: CountedLines,
        private: PrivateTopics | None = None,
    ) -> None:
        self._private = private
        self._subscriptions = subscriptions
        self._sending = sending
        self._permissions = permissions
        self._limits = limits
        self._refusals = refusals

    def subscribe(self, publisher: Publisher, packet: Subscribe) -> None:
        """Answer a SUBSCRIBE, perhaps after the decisions that it needs, or turns of others.

        Raises:
            PacketError: the client does not take the answer.

        """
        requests, client = packet.requests, publisher.session.client
        _check_answer(publisher, len(requests))
        self._subscriptions.expect(len(requests))
        verdicts = self._verdicts(client, requests[:FILTERS_AT_ONCE])
        decided = [verdict for verdict in verdicts if isinstance(verdict, bool)]
        if len(decided) == len(requests):
            granted = _Granted()
            self._grant(publisher, packet, zip(requests, decided, strict=True), granted)
            self._answer(publisher, packet, granted)
            return
        publisher.waiting.for_verdict(
            self._granted_in_turns(publisher, packet, verdicts),
            lambda granted: self._answer(publisher, packet, granted),
        )

    def unsubscribe(self, publisher: Publisher, packet: Unsubscribe) -> None:
        """Answer an UNSUBSCRIBE, perhaps after turns of others.

        Raises:
            PacketError: the client does not take the answer.

        """
        filters = packet.filters
        _check_answer(publisher, len(filters))
        self._subscriptions.expect(len(filters))

        def answer(reasons: list[int] | None) -> None:
            reasons = reasons or [ReasonCode.UNSPECIFIED_ERROR] * len(filters)
            unsuback = UnsubAck(packet.packet_id, reasons, {})
            publisher.channel.send(encode(unsuback, publisher.version))

        if len(filters) <= FILTERS_AT_ONCE:
            answer(self._remove(publisher.session, filters))
        else:
            publisher.waiting.for_verdict(self._removed_in_turns(publisher, filters), answer)

    async def _removed_in_turns(self, publisher: Publisher, filters: list[str]) -> list[int]:
        reasons: list[int] = []
        for at in range(0, len(filters), FILTERS_AT_ONCE):
            reasons += self._remove(publisher.session, filters[at : at + FILTERS_AT_ONCE])
            await asyncio.sleep(PAUSE_S)
        return reasons

    def _remove(self, session: Session, filters: list[str]) -> list[int]:
        reasons: list[int] = []
        for topic_filter in filters:
            if (private := self._served_by(topic_filter)) is not None:
                existed = private.unsubscribe(session.client, topic_filter)
            else:
                existed = self._subscriptions.remove(session, topic_filter)
            reasons.append(ReasonCode.SUCCESS if existed else ReasonCode.NO_SUBSCRIPTION_EXISTED)
        return reasons

    def _verdicts(
        self, client: Client, requests: list[SubscriptionRequest]
    ) -> list[DeliveryVerdict]:
        may = self._permissions
        if may is None:
            return [True] * len(requests)
        return [self._verdict(may, client, proper(request.filter)) for request in requests]

    async def _granted_in_turns(
        self, publisher: Publisher, packet: Subscribe, verdicts: list[DeliveryVerdict]
    ) -> _Granted:
        granted, requests = _Granted(), packet.requests
        for at in range(0, len(requests), FILTERS_AT_ONCE):
            some = requests[at : at + FILTERS_AT_ONCE]
            if at:
                await asyncio.sleep(PAUSE_S)
                verdicts = self._verdicts(publisher.session.client, some)
            decided = zip(some, await _decisions(verdicts), strict=True)
            self._grant(publisher, packet, decided, granted)
        return granted

    def _grant(
        self,
        publisher: Publisher,
        packet: Subscribe,
        decided: Iterable[tuple[SubscriptionRequest, bool]],
        granted: _Granted,
    ) -> None:
        session = publisher.session
        identifiers = packet.properties.get(PropertyId.SUBSCRIPTION_IDENTIFIER) or [0]
        for request, may in decided:
            reason, is_new = self._one(session, request, identifiers[0], may=may)
            is_refused = reason >= _REFUSED_311
            granted.reasons.append(
                _REFUSED_311 if is_refused and publisher.version == V311 else reason
            )
            # [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]; none for shared subscriptions.
            if (
                not is_refused
                and request.retain_handling <= (_IF_NEW if is_new else _AT_SUBSCRIBE)
                and not request.filter.startswith("$share/")
                and self._served_by(request.filter) is None
            ):
                granted.wanted.append(BacklogFilter(request.filter, request.qos, identifiers[0]))

    def _answer(self, publisher: Publisher, packet: Subscribe, granted: _Granted | None) -> None:
        """Send the SUBACK, then what is retained, in one write."""
        if granted is None:  # a decision failed
            refused = _REFUSED_311 if publisher.version == V311 else int(ReasonCode.NOT_AUTHORIZED)
            granted = _Granted([refused] * len(packet.requests))
        suback = SubAck(packet.packet_id, granted.reasons, {})
        publisher.channel.send(encode(suback, publisher.version))
        self._sending.start(publisher.session, publisher.waiting, granted.wanted)

    def _one(
        self, session: Session, request: SubscriptionRequest, identifier: int, *, may: bool
    ) -> tuple[int, bool]:
        """Return the reason code for one filter, and whether it is a new subscription.

        That the filter is one, the codec has seen to.
        """
        limits, client = self._limits, session.client
        share, topic_filter = split_share(request.filter)
        if may and (private := self._served_by(topic_filter)) is not None:
            return private.subscribe(client, request.filter, request.qos, identifier), True
        if not may or not _is_open(topic_filter):
            self._refusals.count("subscription to a forbidden filter", str(client))
            return self._why_not(client, topic_filter), False
        if (over := self._over_limit(session, request)) is not None:
            self._refusals.count(over, str(client))
            return ReasonCode.QUOTA_EXCEEDED, False
        size = len(topic_filter.encode())
        if size > limits.topic_bytes or topic_filter.count("/") >= limits.topic_levels:
            self._refusals.count("filter over the limit", str(client))
            return ReasonCode.TOPIC_FILTER_INVALID, False
        subscription = Subscription(
            request.qos,
            request.no_local or (client.is_bridge and not share),
            request.retain_as_published or client.is_bridge,
            identifier,
        )
        return request.qos, self._subscriptions.add(session, request.filter, subscription)

    def _verdict(
        self, may: BrokerPermissions, client: Client, topic_filter: str
    ) -> DeliveryVerdict:
        if self._served_by(topic_filter) is None:
            return may.may_subscribe(client, topic_filter)
        return may.may_ask(client, topic_filter, publishes=False)

    def _served_by(self, topic_filter: str) -> PrivateTopics | None:
        private = self._private if topic_filter[:1] == "$" else None
        return private if private is not None and private.serves(topic_filter) else None

    def _why_not(self, client: Client, topic_filter: str) -> int:
        if self._permissions is not None and self._permissions.is_concealed(client, topic_filter):
            return ReasonCode.UNSPECIFIED_ERROR  # "does not wish to reveal" (section 3.9.3)
        return ReasonCode.NOT_AUTHORIZED

    def _over_limit(self, session: Session, request: SubscriptionRequest) -> str | None:
        """Return which limit a subscription would break; None for one that is only replaced."""
        if request.filter in session.subscriptions:
            return None
        if len(session.subscriptions) >= self._limits.subscriptions_per_session:
            return "subscription over the limit of a session"
        if not self._subscriptions.has_room_for(request.filter):
            return "shared subscription over the limit of a gateway"
        if self._subscriptions.bytes_held > self._limits.subscriptions_bytes:
            return "subscription over the limit of all"
        owner = session.client.owner
        if self._subscriptions.bytes_of(owner) > self._limits.subscriptions_bytes_per_user:
            return "subscription over the limit of a user"
        return None


async def _decisions(verdicts: list[DeliveryVerdict]) -> list[bool]:
    return [bool(await v) if inspect.isawaitable(v) else bool(v) for v in verdicts]


def _is_open(topic_filter: str) -> bool:
    """Of the topics that start with ``$`` clients may read the broker's statistics."""
    return not topic_filter.startswith("$") or topic_filter.startswith("$SYS/")


def _check_answer(publisher: Publisher, filters: int) -> None:
    """Refuse a request whose SUBACK or UNSUBACK the client does not take, before it is carried out.

    It has a reason for each filter, and nothing that could be left out [MQTT-3.1.2-24].
    """
    room = publisher.channel.packet_bytes_max
    if room is None:
        return
    body = 3 + filters
    if 1 + len(encode_length(body)) + body > room:
        what = f"filters whose answer is over the client's maximum packet size {room}"
        raise PacketError(ReasonCode.PACKET_TOO_LARGE, what, filters)
