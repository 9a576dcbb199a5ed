"""CONNECT: who comes in, into which session, and what the CONNACK says (sections 3.1 and 3.2).

Another broker's bridge (Mosquitto's, with the bridge bit) is a client as any: a leaf, authenticated
and held to the rules. What sets it apart: it gets none of its own messages back, whatever it
subscribes to, and messages keep their RETAIN flag, as if it had asked for No Local and Retain As
Published, which MQTT 3.1.1 can't say (5.0, section 3.8.3.1).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.hooks import MADE_UP, Client, Hooks
from gateway.broker.inbound.disconnections import Disconnections
from gateway.broker.inbound.peer import Peer
from gateway.broker.inbound.publisher import Publisher
from gateway.broker.inbound.reasons import with_reason
from gateway.broker.limits import Limits
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.retained.retained_sender import RetainedSender
from gateway.broker.sessions.registry import Sessions
from gateway.broker.sessions.wills import Wills, size_bytes
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

CLIENT_ID_BYTES_MAX: Final = 1_024
BRIDGE_ROLE: Final = "bridge"
"""The role that the certificate of a bridge must have."""
_NO_ROOM: Final = "no room to keep the session"
_NOTIFICATIONS: Final = "$SYS/broker/connection/"
"""Below it Mosquitto's bridges say how their own connection is."""
WILL_LEFT_OUT: Final = "will of a bridge's own state left out"


def refused_for(reason: int) -> str:
    """Return what is counted of a client that was refused for a reason."""
    return f"connection refused ({ReasonCode(reason).name.lower()})"


class Admission:
    """Lets clients in.

    Args:
        sessions: those of all clients.
        wills: those of all clients.
        disconnections: ends the connection of a client that comes again.
        sending: goes on with what is retained that a session was not sent.
        hooks: who says which client may come in, and with which will.
        limits: of clients.
        refusals: is told who was refused.

    """

    def __init__(
        self,
        sessions: Sessions,
        wills: Wills,
        disconnections: Disconnections,
        sending: RetainedSender,
        hooks: Hooks,
        limits: Limits,
        refusals: CountedLines,
    ) -> None:
        self._sessions = sessions
        self._wills = wills
        self._disconnections = disconnections
        self._sending = sending
        self._hooks = hooks
        self._limits = limits
        self._refusals = refusals
        self._is_closed = False

    def close(self) -> None:
        """Let no client in any more."""
        self._is_closed = True

    def refuse(self, peer: Peer, reason: int, why: str, client: Client | None = None) -> None:
        """Answer a CONNECT with a failure, where the version has a code for it, and close."""
        channel = peer.channel
        kind = refused_for(reason)
        who = channel.address if client is None else client.introduced()
        self._refusals.count(kind, f"{who}: {why}")
        answer = refusal(reason, channel.version)
        if answer and channel.version == Version.V5:
            answer = with_reason(ConnAck(False, reason), why, channel.packet_bytes_max)
        channel.close(answer, linger=True)  # [MQTT-3.2.2-7]

    def admit(self, peer: Peer, connect: Connect) -> None:
        """Decide on a CONNECT; the CONNACK may come later."""
        client_id = connect.client_id or f"{MADE_UP}{secrets.token_hex(12)}"
        certificate = peer.certificate
        name = connect.username if certificate is None else certificate.name
        client = Client(
            client_id,
            name,
            peer.channel.address,
            int(connect.version),
            certificate,
            connect.bridge,
        )
        refused = self._why_not(peer, connect)
        if refused is not None:
            self.refuse(peer, *refused, client)
            return

        def decided(allowed: bool | None) -> None:
            if allowed:
                self._check_will(peer, connect, client)
                return
            is_named = connect.username is not None
            reason = ReasonCode.BAD_USER_NAME_OR_PASSWORD if is_named else ReasonCode.NOT_AUTHORIZED
            self.refuse(peer, reason, "not authenticated", client)

        _then(peer, self._hooks.authenticator.decide(client, connect.password), decided)

    def _why_not(  # noqa: PLR0911  # one for each reason
        self, peer: Peer, connect: Connect
    ) -> tuple[int, str] | None:
        """Reason code and reason why a CONNECT is refused as it is; None if it is not."""
        is_311 = connect.version == Version.V311
        certificate = peer.certificate
        if self._is_closed:
            reason = ReasonCode.SERVER_UNAVAILABLE if is_311 else ReasonCode.USE_ANOTHER_SERVER
            return reason, "this gateway is draining"
        if PropertyId.AUTHENTICATION_METHOD in connect.properties:  # none is known (section 4.12)
            return ReasonCode.BAD_AUTHENTICATION_METHOD, "no such method"
        if len(connect.client_id.encode()) > CLIENT_ID_BYTES_MAX:
            return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "client identifier too long"
        if certificate is None:
            return None
        if connect.bridge and BRIDGE_ROLE not in certificate.roles:
            return ReasonCode.NOT_AUTHORIZED, f"the bridge bit without the role {BRIDGE_ROLE}"
        if connect.username is not None and connect.username != certificate.name:
            why = "user name other than its certificate's"
            return ReasonCode.BAD_USER_NAME_OR_PASSWORD, why
        return None

    def _check_will(self, peer: Peer, connect: Connect, client: Client) -> None:
        will = connect.will
        if will is not None and will.topic.startswith(_NOTIFICATIONS):
            # Left out, not refused, for whoever has it: a bridge of 5.0 can't say that it is one.
            who = f"{client.introduced()}: {will.topic[:64]!r}"
            self._refusals.count(WILL_LEFT_OUT, who, level=logging.INFO)
            connect.will = will = None

        def decided(allowed: bool | None) -> None:
            if allowed:
                self._open(peer, connect, client)
            else:
                self.refuse(peer, ReasonCode.NOT_AUTHORIZED, "will to a forbidden topic", client)

        permissions = self._hooks.permissions
        if will is None:
            decided(True)
        elif will.topic.startswith("$"):
            decided(False)
        elif not self._is_within_limits(will):
            self.refuse(peer, ReasonCode.PACKET_TOO_LARGE, "will over a limit", client)
        elif self._wills.bytes_held + size_bytes(will) > self._limits.all_wills_bytes:
            why = "all wills over the limit"
            self.refuse(peer, ReasonCode.QUOTA_EXCEEDED, why, client)
        elif permissions is None:
            decided(True)
        else:
            _then(peer, permissions.may_publish(client, will.topic), decided)

    def _is_within_limits(self, will: Will) -> bool:
        limits = self._limits
        return (
            len(will.payload) <= limits.payload_bytes
            and len(will.topic.encode()) <= limits.topic_bytes
            and will.topic.count("/") < limits.topic_levels
        )

    def _open(self, peer: Peer, connect: Connect, client: Client) -> None:
        """Find or make the session, answer, and send what waits."""
        sessions, channel = self._sessions, peer.channel
        old = sessions.living(client.client_id)
        if old is not None and old.client.owner != client.owner:
            # Another user's session is neither handed over nor ended, and what waits in it stays.
            why = "another user's client identifier"
            self.refuse(peer, ReasonCode.NOT_AUTHORIZED, why, client)
            return
        if sessions.comes_too_often(client):
            self.refuse(peer, ReasonCode.CONNECTION_RATE_EXCEEDED, "comes again too often", client)
            return
        ranks = self._hooks.ranks
        is_operator = ranks is None or ranks.is_operator(client)
        if why_full := sessions.why_full(client, old, is_operator=is_operator):
            self.refuse(peer, ReasonCode.QUOTA_EXCEEDED, why_full, client)
            return
        expiry_s = self._expiry_s(connect)
        if expiry_s and not self._sessions.can_be_noted():
            self.refuse(peer, ReasonCode.QUOTA_EXCEEDED, _NO_ROOM, client)
            return
        channel.version = int(connect.version)
        peer.keep_alive_s = self._keep_alive_s(connect)
        told = self._told(peer, connect, client, expiry_s)
        if told is None:
            why = f"its Maximum Packet Size {channel.packet_bytes_max} is too small for a CONNACK"
            self.refuse(peer, ReasonCode.PACKET_TOO_LARGE, why, client)
            return
        if old is not None:
            why = f"by a connection from {channel.address}"
            self._disconnections.disconnect(
                old, ReasonCode.SESSION_TAKEN_OVER, why
            )  # [MQTT-3.1.4-3]
            if connect.clean_start or not old.expiry_s:
                sessions.end(old)  # [MQTT-3.1.2-4], [MQTT-3.1.2-23]
                old = None
        properties, limits = connect.properties, self._limits
        aliases = min(properties.get(PropertyId.TOPIC_ALIAS_MAXIMUM, 0), limits.topic_aliases)
        if aliases:
            channel.aliases = OutgoingAliases(aliases)
        session = old or sessions.new(client)
        if not sessions.takes(session, client, expiry_s):
            self.refuse(peer, ReasonCode.QUOTA_EXCEEDED, _NO_ROOM, client)
            return
        peer.publisher = Publisher(channel, session, peer.waiting, limits)
        # [MQTT-3.2.2-2]
        channel.send(encode(ConnAck(old is not None, ReasonCode.SUCCESS, told), connect.version))
        sessions.attach(
            session,
            client,
            channel,
            will=connect.will,
            expiry_s=expiry_s,
            receive_maximum=int(properties.get(PropertyId.RECEIVE_MAXIMUM, 65_535)),
        )
        self._sending.go_on(session, peer.waiting)

    def _expiry_s(self, connect: Connect) -> int:
        longest = self._limits.session_expiry_s
        if connect.version == Version.V311:
            return 0 if connect.clean_start else longest
        return min(int(connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0)), longest)

    def _keep_alive_s(self, connect: Connect) -> int:
        longest = self._limits.keep_alive_s
        if connect.version == Version.V5 and longest:
            return min(connect.keep_alive_s, longest)
        return connect.keep_alive_s

    def _told(
        self, peer: Peer, connect: Connect, client: Client, expiry_s: int
    ) -> dict[int, Any] | None:
        """Return the properties of a client's CONNACK; None if it does not take so large a packet.

        What the client can do without is left out first: without a maximum it sends no topic
        alias (section 3.2.2.3.8).
        """
        if connect.version == Version.V311:
            return {}
        limits = self._limits
        told: dict[int, Any] = {
            PropertyId.RECEIVE_MAXIMUM: limits.receive_maximum,
            PropertyId.MAXIMUM_PACKET_SIZE: limits.packet_bytes,
        }
        if client.client_id != connect.client_id:  # [MQTT-3.2.2-16]
            told[PropertyId.ASSIGNED_CLIENT_IDENTIFIER] = client.client_id
        if connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0) != expiry_s:
            told[PropertyId.SESSION_EXPIRY_INTERVAL] = expiry_s
        if peer.keep_alive_s != connect.keep_alive_s:  # [MQTT-3.2.2-21]
            told[PropertyId.SERVER_KEEP_ALIVE] = peer.keep_alive_s
        optional: dict[int, Any] = {PropertyId.TOPIC_ALIAS_MAXIMUM: limits.topic_aliases}
        if connect.properties.get(PropertyId.REQUEST_RESPONSE_INFORMATION):
            optional[PropertyId.RESPONSE_INFORMATION] = f"response/{client.client_id}"
        room = peer.channel.packet_bytes_max
        while room is not None and _connack_bytes(told | optional) > room:
            if not optional:
                return None
            optional.popitem()
        return told | optional


def _connack_bytes(told: dict[int, Any]) -> int:
    return len(encode(ConnAck(False, ReasonCode.SUCCESS, told), Version.V5))


def _then(
    peer: Peer, verdict: bool | Awaitable[bool], decided: Callable[[bool | None], None]
) -> None:
    """Go on with a verdict, at once or when it is there."""
    if isinstance(verdict, Awaitable):
        peer.waiting.for_verdict(verdict, decided)
    else:
        decided(verdict)
