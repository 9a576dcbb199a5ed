"""CONNECT: who comes in, into which session, and what the CONNACK says (sections 3.1 and 3.2)."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from gateway.broker.hooks import Client
from gateway.broker.inbound import bridges
from gateway.broker.inbound.aliases import OutgoingAliases
from gateway.broker.sessions import wills
from gateway.broker.sessions.session import NEVER_EXPIRES_S, Session
from gateway.mqtt import (
    ConnAck,
    Connect,
    PropertyId,
    ReasonCode,
    Version,
    Will,
    encode,
    refusal,
)

if TYPE_CHECKING:
    from gateway.broker.inbound.connection import Connection

CLIENT_ID_BYTES_MAX = 1_024


def refuse(connection: Connection, reason: int, why: str = "") -> None:
    """Answer a CONNECT with a failure, where the version has a code for it, and close."""
    kind = f"connection refused ({ReasonCode(reason).name.lower()})"
    connection.core.refused(kind, f"{connection.address}: {why}")
    answer = refusal(reason, connection.version)
    if answer and connection.version == Version.V5:
        answer = connection.with_reason(ConnAck(False, reason), why)
    if answer:
        connection.send(answer)
    connection.close(linger=True)  # [MQTT-3.2.2-7]


def admit(connection: Connection, connect: Connect) -> None:
    """Decide on a CONNECT; the CONNACK may come later."""
    core = connection.core
    properties = connect.properties
    connection.packet_bytes_max = properties.get(PropertyId.MAXIMUM_PACKET_SIZE)
    if core.is_closed_to_clients:
        is_new = connect.version == Version.V5
        reason = ReasonCode.USE_ANOTHER_SERVER if is_new else ReasonCode.SERVER_UNAVAILABLE
        refuse(connection, reason, "this gateway is draining")
        return
    if PropertyId.AUTHENTICATION_METHOD in properties:  # none is supported (section 4.12)
        refuse(connection, ReasonCode.BAD_AUTHENTICATION_METHOD, "no such method")
        return
    client_id = connect.client_id
    if len(client_id.encode()) > CLIENT_ID_BYTES_MAX:
        refuse(connection, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "client identifier too long")
        return
    if not client_id:
        if connect.version == Version.V311 and not connect.clean_start:  # [MQTT-3.1.3-8]
            refuse(connection, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "empty client identifier")
            return
        client_id = f"auto-{secrets.token_hex(12)}"
    if why := bridges.why_no_bridge(connection):
        refuse(connection, ReasonCode.NOT_AUTHORIZED, why)
        return
    certificate, name = connection.certificate, connect.username
    if certificate is not None:
        if name is not None and name != certificate.name:
            why = "user name other than its certificate's"
            refuse(connection, ReasonCode.BAD_USER_NAME_OR_PASSWORD, why)
            return
        name = certificate.name
    client = Client(client_id, name, connection.address, int(connect.version), certificate)

    def decided(allowed: bool | None) -> None:
        if not allowed:
            reason = (
                ReasonCode.BAD_USER_NAME_OR_PASSWORD
                if connect.username is not None
                else ReasonCode.NOT_AUTHORIZED
            )
            refuse(connection, reason, "not authenticated")
        else:
            _check_will(connection, connect, client)

    verdict = core.hooks.authenticate(client, connect.password)
    if isinstance(verdict, Awaitable):
        connection.wait_for(verdict, decided)
    else:
        decided(verdict)


def _check_will(connection: Connection, connect: Connect, client: Client) -> None:
    will = connect.will
    may_publish = connection.core.hooks.may_publish

    def decided(allowed: bool | None) -> None:
        if allowed:
            _open(connection, connect, client)
        else:
            refuse(connection, ReasonCode.NOT_AUTHORIZED, "will to a forbidden topic")

    if will is not None and bridges.is_notification(connection, will):
        connect.will = will = None
    if will is None:
        decided(True)
    elif will.topic.startswith("$"):
        decided(False)
    elif not _is_within_limits(connection, will):
        refuse(connection, ReasonCode.PACKET_TOO_LARGE, "will over a limit")
    elif not _is_room_for(connection, will):
        refuse(connection, ReasonCode.QUOTA_EXCEEDED, "all wills over the limit")
    elif may_publish is None:
        decided(True)
    else:
        verdict = may_publish(client, will.topic)
        if isinstance(verdict, Awaitable):
            connection.wait_for(verdict, decided)
        else:
            decided(verdict)


def _is_within_limits(connection: Connection, will: Will) -> bool:
    limits = connection.core.limits
    return (
        len(will.payload) <= limits.payload_bytes
        and len(will.topic.encode()) <= limits.topic_bytes
        and will.topic.count("/") < limits.topic_levels
    )


def _is_room_for(connection: Connection, will: Will) -> bool:
    core = connection.core
    return core.upkeep.wills_bytes + wills.size_bytes(will) <= core.limits.all_wills_bytes


def _open(connection: Connection, connect: Connect, client: Client) -> None:
    """Find or make the session, answer, and send what waits."""
    core = connection.core
    old = core.sessions.get(client.client_id)
    if old is not None and old.client.owner != client.owner:
        # Another user's session is not handed over, and a live one is not ended either.
        if old.connection is not None:
            refuse(connection, ReasonCode.NOT_AUTHORIZED, "another user's client identifier")
            return
        core.end(old)
        old = None
    if old is None and len(core.sessions) >= core.limits.sessions:
        refuse(connection, ReasonCode.QUOTA_EXCEEDED, "too many sessions")
        return
    if core.durable is not None and core.durable.write() and _expiry_s(connection, connect):
        refuse(connection, ReasonCode.QUOTA_EXCEEDED, "no room to keep the session")
        return
    if old is not None and old.connection is not None:
        core.take_over(old, connect.clean_start)
    if old is not None and (connect.clean_start or not old.expiry_s):
        core.end(old)  # [MQTT-3.1.2-4], [MQTT-3.1.2-23]
        old = None
    logged = None if core.durable is None else core.durable.logged
    session = old or Session(client, core.limits, core.budget, logged)
    expiry_s = _expiry_s(connection, connect)
    if core.durable is not None and not core.durable.takes(session, client, expiry_s):
        refuse(connection, ReasonCode.QUOTA_EXCEEDED, "no room to keep the session")
        return
    session.will = None
    if connect.will is not None:
        core.upkeep.wills_bytes += wills.size_bytes(connect.will)
    properties = connect.properties
    connection.version = connect.version
    connection.keep_alive_s = _keep_alive_s(connection, connect)
    aliases = min(properties.get(PropertyId.TOPIC_ALIAS_MAXIMUM, 0), core.limits.topic_aliases)
    if aliases:
        connection.outgoing_aliases = OutgoingAliases(aliases)
    connection.is_particular = bool(aliases) or connection.packet_bytes_max is not None
    connection.will = connect.will
    connection.session = session
    connection.send(_connack(connection, connect, client, expiry_s, present=old is not None))
    core.attach(session, connection, client, expiry_s, _receive_maximum(connect))


def _expiry_s(connection: Connection, connect: Connect) -> int:
    longest = connection.core.limits.session_expiry_s
    if connect.version == Version.V311:
        return 0 if connect.clean_start else longest
    asked = int(connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0))
    return min(asked, longest) if longest < NEVER_EXPIRES_S else asked


def _keep_alive_s(connection: Connection, connect: Connect) -> int:
    longest = connection.core.limits.keep_alive_s
    if connect.version == Version.V5 and longest:
        return min(connect.keep_alive_s, longest)
    return connect.keep_alive_s


def _receive_maximum(connect: Connect) -> int:
    return int(connect.properties.get(PropertyId.RECEIVE_MAXIMUM, 65_535))


def _connack(
    connection: Connection, connect: Connect, client: Client, expiry_s: int, *, present: bool
) -> bytes:
    if connect.version == Version.V311:
        return bytes((0x20, 2, present, 0))  # [MQTT-3.2.2-2]
    limits = connection.core.limits
    properties: dict[int, Any] = {
        PropertyId.RECEIVE_MAXIMUM: limits.receive_maximum,
        PropertyId.MAXIMUM_PACKET_SIZE: limits.packet_bytes,
        PropertyId.TOPIC_ALIAS_MAXIMUM: limits.topic_aliases,
    }
    if client.client_id != connect.client_id:  # [MQTT-3.2.2-16]
        properties[PropertyId.ASSIGNED_CLIENT_IDENTIFIER] = client.client_id
    if connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0) != expiry_s:
        properties[PropertyId.SESSION_EXPIRY_INTERVAL] = expiry_s
    if connection.keep_alive_s != connect.keep_alive_s:  # [MQTT-3.2.2-21]
        properties[PropertyId.SERVER_KEEP_ALIVE] = connection.keep_alive_s
    if connect.properties.get(PropertyId.REQUEST_RESPONSE_INFORMATION):
        properties[PropertyId.RESPONSE_INFORMATION] = f"response/{client.client_id}"
    return encode(ConnAck(present, ReasonCode.SUCCESS, properties), Version.V5)
