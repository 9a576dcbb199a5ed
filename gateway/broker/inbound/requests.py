"""SUBSCRIBE, UNSUBSCRIBE and DISCONNECT of a client (sections 3.8, 3.10, 3.14)."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from gateway.broker.hooks import Verdict
from gateway.broker.limits import Limits
from gateway.broker.retained.sending import RetainedSending
from gateway.broker.sessions.session import Session, Subscription
from gateway.broker.topics import FilterError, split_share
from gateway.mqtt import (
    Disconnect,
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
)
from gateway.mqtt.primitives import read_length

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection

_AT_SUBSCRIBE = 0
_IF_NEW = 1
"""Retain handling (section 3.8.3.1)."""
_REFUSED_311 = 0x80
_SUBSCRIBE = 0x82
_UNSUBSCRIBE = 0xA2


def subscribe(connection: Connection, packet: Subscribe) -> None:
    """Answer a SUBSCRIBE, perhaps after the decisions that it needs."""
    session = connection.session
    permissions = connection.core.hooks.permissions
    assert session is not None
    connection.core.routes.expect(len(packet.requests))
    if permissions is None:
        _grant(connection, packet, [True] * len(packet.requests))
        return
    verdicts = [
        permissions.may_subscribe(session.client, _proper(request.filter))
        for request in packet.requests
    ]
    decided = [verdict for verdict in verdicts if isinstance(verdict, bool)]
    if len(decided) == len(verdicts):
        _grant(connection, packet, decided)
        return
    connection.wait_for(
        _decisions(verdicts),
        lambda allowed: _grant(connection, packet, allowed or [False] * len(verdicts)),
    )


def check_size(body: bytes, first: int, version: int, limits: Limits) -> None:
    """Refuse a packet that is no PUBLISH and would take long to look at.

    Args:
        body: of the packet.
        first: the first byte of the packet.
        version: of the protocol.
        limits: in bytes, and for SUBSCRIBE and UNSUBSCRIBE in filters.

    Raises:
        PacketError: it is too large, or the property length is malformed.

    """
    if first not in {_SUBSCRIBE, _UNSUBSCRIBE}:
        if len(body) > limits.request_bytes:
            raise PacketError(ReasonCode.PACKET_TOO_LARGE, "packet of bytes", len(body))
        return
    at, end = 2, len(body)
    if version == Version.V5 and end > at:
        length, at = read_length("property length", body, at, end)
        at += length
    options = 1 if first == _SUBSCRIBE else 0
    count = 0
    while at < end - 1:
        at += 2 + (body[at] << 8 | body[at + 1]) + options
        count += 1
        if count > limits.subscriptions_per_session:
            raise PacketError(ReasonCode.QUOTA_EXCEEDED, "filters in a packet", count)


async def _decisions(verdicts: list[Verdict]) -> list[bool]:
    return [bool(await v) if inspect.isawaitable(v) else bool(v) for v in verdicts]


def _proper(topic_filter: str) -> str:
    """The filter without the share name; one that is malformed is refused later."""
    try:
        return split_share(topic_filter)[1]
    except FilterError:
        return topic_filter


def _grant(connection: Connection, packet: Subscribe, allowed: list[bool]) -> None:
    session = connection.session
    assert session is not None
    identifiers = packet.properties.get(PropertyId.SUBSCRIPTION_IDENTIFIER) or [0]
    reasons: list[int] = []
    granted: list[tuple[SubscriptionRequest, bool]] = []
    for request, may in zip(packet.requests, allowed, strict=True):
        reason, is_new = _one(connection, session, request, identifiers[0], may=may)
        reasons.append(reason)
        if reason < _REFUSED_311:
            granted.append((request, is_new))
        elif connection.version == Version.V311:
            reasons[-1] = _REFUSED_311
    # The answer goes first, then what is retained, in one write.
    connection.send(encode(SubAck(packet.packet_id, reasons, {}), connection.version))
    retained = RetainedSending(connection, session)
    for request, is_new in granted:
        # [MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]; none for shared subscriptions.
        if request.retain_handling <= (_IF_NEW if is_new else _AT_SUBSCRIBE) and not (
            request.filter.startswith("$share/")
        ):
            retained.add(request.filter, request.qos, identifiers[0])
    retained.start()


def _one(
    connection: Connection,
    session: Session,
    request: SubscriptionRequest,
    identifier: int,
    *,
    may: bool,
) -> tuple[int, bool]:
    core, limits = connection.core, connection.core.limits
    if not may or not _is_open(_proper(request.filter)):
        core.refused("subscription to a forbidden filter", str(connection))
        return _why_not(connection, session, request), False
    if (over := _over_limit(connection, session, request)) is not None:
        core.refused(over, str(connection))
        return ReasonCode.QUOTA_EXCEEDED, False
    try:
        share, proper = split_share(request.filter)
        if share and request.no_local:  # [MQTT-3.8.3-4]
            raise PacketError(
                ReasonCode.PROTOCOL_ERROR, "shared subscription", request.filter, "MQTT-3.8.3-4"
            )
        if len(proper) > limits.topic_bytes or proper.count("/") >= limits.topic_levels:
            core.refused("filter over the limit", str(connection))
            return ReasonCode.TOPIC_FILTER_INVALID, False
        subscription = Subscription(
            request.qos,
            request.no_local or (connection.is_bridge and not share),
            request.retain_as_published or connection.is_bridge,
            identifier,
        )
        is_new = core.subscribe(session, request.filter, subscription)
    except FilterError:
        return ReasonCode.TOPIC_FILTER_INVALID, False
    return request.qos, is_new


def _why_not(connection: Connection, session: Session, request: SubscriptionRequest) -> int:
    permissions = connection.core.hooks.permissions
    if permissions and permissions.is_concealed(session.client, _proper(request.filter)):
        return ReasonCode.UNSPECIFIED_ERROR  # "does not wish to reveal" (section 3.9.3)
    return ReasonCode.NOT_AUTHORIZED


def _over_limit(
    connection: Connection, session: Session, request: SubscriptionRequest
) -> str | None:
    """Which limit a subscription would break; None for one that is only replaced."""
    core = connection.core
    if request.filter in session.subscriptions:
        return None
    if len(session.subscriptions) >= core.limits.subscriptions_per_session:
        return "subscription over the limit of a session"
    if core.tree.bytes_held > core.limits.subscriptions_bytes:
        return "subscription over the limit of all"
    return None


def _is_open(topic_filter: str) -> bool:
    """Of the topics that start with ``$`` clients may read the broker's statistics."""
    return not topic_filter.startswith("$") or topic_filter.startswith("$SYS/")


def unsubscribe(connection: Connection, packet: Unsubscribe) -> None:
    """Answer an UNSUBSCRIBE."""
    session = connection.session
    assert session is not None
    connection.core.routes.expect(len(packet.filters))
    reasons: list[int] = []
    for topic_filter in packet.filters:
        existed = connection.core.unsubscribe(session, topic_filter)
        reasons.append(ReasonCode.SUCCESS if existed else ReasonCode.NO_SUBSCRIPTION_EXISTED)
    connection.send(encode(UnsubAck(packet.packet_id, reasons, {}), connection.version))


def disconnected_by(connection: Connection, packet: Disconnect) -> None:
    """The client leaves: its will is not published, unless it says so (section 3.14.2.1)."""
    session = connection.session
    assert session is not None
    expiry_s = packet.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL)
    if expiry_s is not None:
        if expiry_s and not session.expiry_s:  # section 3.14.2.2.2
            raise PacketError(ReasonCode.PROTOCOL_ERROR, "session expiry set at the end", expiry_s)
        connection.core.set_expiry(session, expiry_s)
    if packet.reason != ReasonCode.DISCONNECT_WITH_WILL_MESSAGE:
        connection.will = None  # [MQTT-3.14.4-3]
    connection.close()
