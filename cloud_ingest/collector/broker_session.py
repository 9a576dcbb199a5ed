"""A durable session at an MQTT broker, as its subscriber: bytes in, messages and bytes out.

No sockets and no clock. A QoS 1 message is acknowledged when whoever has it says that it is
`stored`, and never before; so the broker keeps what a crash would lose.

What the broker sends again is known again only where that is certain: its packet identifier was
never acknowledged in this session, DUP says that it is sent again, and its bytes are the same.
An identifier that was acknowledged may stand for another message with the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    PingReq,
    PropertyId,
    PubAck,
    Publish,
    Scanner,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
    body_at,
    decode,
    encode,
)
from gateway.mqtt.reason_codes import reason_text
from tree_handler.batch import MAX_FRAME_BYTES, Entry, Row

PACKET_BYTES_MAX: Final = MAX_FRAME_BYTES - (128 << 10)
"""A message of a packet of this size fits in a batch with its topic, its origin and a frame."""
HELD_BYTES_MAX: Final = 16 << 20
"""With so many bytes of messages that are not stored nothing more is read."""
_FAILURE: Final = 0x80
_SUBSCRIPTION_ID: Final = 1
_AT_ONCE: Final = 1_000
_NOT_THE_MESSAGE = (PropertyId.TOPIC_ALIAS, PropertyId.SUBSCRIPTION_IDENTIFIER)


class BrokerSessionError(Exception):
    """The broker refuses something, or what it sends can't be taken; the message says what."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings with which a session of a broker begins.

    Attributes:
        client_id: by which the broker knows the session.
        filters: what is subscribed to, at QoS 1.
        version: of the protocol.
        keep_alive_s: longest silence.
        session_expiry_s: how long the broker keeps the session of a client that is away (5.0).
        receive_maximum: messages that may be unacknowledged at one time.

    """

    client_id: str
    filters: Sequence[str]
    version: Version = Version.V5
    keep_alive_s: int = 60
    session_expiry_s: int = 7 * 86_400
    receive_maximum: int = 1_000


class BrokerMessage:
    """A message that is to be stored.

    Attributes:
        row: as it stands in a batch.
        packet_id: what it is acknowledged by; 0 with QoS 0.

    """

    __slots__ = ("_digest", "_is_here", "_is_stored", "packet_id", "row")

    def __init__(self, row: Row, packet_id: int) -> None:
        self.row = row
        self.packet_id = packet_id
        self._digest = _digest(row) if packet_id else b""
        self._is_here = True
        """True if it came over the connection that there is now."""
        self._is_stored = False

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes of memory the message takes, its properties left out."""
        return len(self.row[0]) + len(self.row[2])


class BrokerSession:
    """One subscriber's session over any number of connections.

    Args:
        settings: how it is begun.

    Attributes:
        is_subscribed: whether the broker took the subscriptions of this connection.
        keep_alive_s: what the broker asks for, or what was offered.
        known_again: messages that the broker sent again and that were stored once.
        session_expiry_s: how long the broker keeps the session, by what it said.

    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._scanner = Scanner(PACKET_BYTES_MAX)
        self._unacknowledged: dict[int, BrokerMessage] = {}
        self._held = self._held_bytes = 0
        self._was_subscribed = False
        self.is_subscribed = False
        self.keep_alive_s = settings.keep_alive_s
        self.session_expiry_s = settings.session_expiry_s
        self.known_again = 0

    @property
    def held(self) -> int:
        """Messages that were given out and are not stored yet."""
        return self._held

    @property
    def is_full(self) -> bool:
        """Return whether nothing more is to be read until something is stored."""
        return self._held >= self._settings.receive_maximum or self._held_bytes >= HELD_BYTES_MAX

    def connect(self, username: str | None = None, password: bytes | None = None) -> bytes:
        """Return what to send first on a new connection.

        Args:
            username: None for none.
            password: the same.

        Raises:
            BrokerSessionError: one of them can't be sent.

        """
        own = self._settings
        self._scanner = Scanner(PACKET_BYTES_MAX)
        self.is_subscribed = False
        self.keep_alive_s = own.keep_alive_s
        for message in self._unacknowledged.values():
            message._is_here = False  # this module's own
        properties: dict[int, Any] = {
            PropertyId.SESSION_EXPIRY_INTERVAL: own.session_expiry_s,
            PropertyId.RECEIVE_MAXIMUM: own.receive_maximum,
            PropertyId.MAXIMUM_PACKET_SIZE: PACKET_BYTES_MAX,
        }
        return self._bytes(
            Connect(
                own.version,
                own.client_id,
                clean_start=False,
                keep_alive_s=own.keep_alive_s,
                username=username,
                password=password,
                will=None,
                properties=properties if own.version == Version.V5 else {},
                bridge=False,
            )
        )

    def feed(self, data: bytes) -> tuple[bytes, list[BrokerMessage]]:
        """Take what was read; return what to send, and the messages to store, in their order.

        Raises:
            BrokerSessionError: the broker refuses, ends the connection, or sends no MQTT; nothing
                that came in ``data`` is given out then, and the broker sends it again.

        """
        answer: list[bytes] = []
        found: list[BrokerMessage] = []
        try:
            self._scanner.feed(data)
            while raws := self._scanner.take(_AT_ONCE):
                for raw in raws:
                    packet = decode(raw[0], raw[body_at(raw) :], self._settings.version)
                    answer.append(self._packet(packet, found))
        except PacketError as error:
            self._let_go(found)
            raise BrokerSessionError(f"what came is no MQTT: {error}") from error
        except BrokerSessionError:
            self._let_go(found)
            raise
        return b"".join(answer), found

    def stored(self, messages: Iterable[BrokerMessage]) -> bytes:
        """Return the acknowledgements to send over this connection for these, which are safe."""
        answer = []
        for message in messages:
            self._drop(message)
            message._is_stored = True
            if self._unacknowledged.get(message.packet_id) is message and message._is_here:
                answer.append(self._acknowledge(message.packet_id))
        return b"".join(answer)

    def lost(self, messages: Iterable[BrokerMessage]) -> None:
        """These can't be stored: they are taken as new when the broker sends them again."""
        self._let_go(messages)

    def ping(self) -> bytes:
        """Return what to send when nothing else was for a while."""
        return self._bytes(PingReq())

    # -- within ----------------------------------------------------------------------------------

    def _packet(self, packet: Packet, found: list[BrokerMessage]) -> bytes:
        match packet:
            case Publish():
                return self._publish(packet, found)
            case ConnAck():
                return self._connected(packet)
            case SubAck():
                self._check_subscribed(packet)
            case Disconnect():
                raise BrokerSessionError(f"disconnected: {reason_text(packet.reason)}")
            case _:
                pass
        return b""

    def _connected(self, answer: ConnAck) -> bytes:
        if answer.reason >= _FAILURE:
            raise BrokerSessionError(f"connection refused: {reason_text(answer.reason)}")
        said, own = answer.properties, self._settings
        self.keep_alive_s = int(said.get(PropertyId.SERVER_KEEP_ALIVE, own.keep_alive_s))
        self.session_expiry_s = int(
            said.get(PropertyId.SESSION_EXPIRY_INTERVAL, own.session_expiry_s)
        )
        if not answer.session_present:  # its packet identifiers mean nothing any more
            self._unacknowledged.clear()
        elif own.version != Version.V5 and self._was_subscribed:
            self.is_subscribed = True  # to ask again would bring all retained messages again
            return b""
        handling = 1 if own.version == Version.V5 else 0
        requests = [SubscriptionRequest(one, 1, False, True, handling) for one in own.filters]
        if own.version != Version.V5:
            requests = [SubscriptionRequest(one, 1) for one in own.filters]
        return self._bytes(Subscribe(_SUBSCRIPTION_ID, requests, {}))

    def _check_subscribed(self, answer: SubAck) -> None:
        for topic_filter, reason in zip(self._settings.filters, answer.reasons, strict=False):
            if reason >= _FAILURE:
                raise BrokerSessionError(f"{topic_filter!r}: {reason_text(reason)}")
            if reason != 1:
                raise BrokerSessionError(f"{topic_filter!r}: granted QoS {reason} instead of 1")
        self.is_subscribed = self._was_subscribed = True

    def _publish(self, packet: Publish, found: list[BrokerMessage]) -> bytes:
        if packet.qos == 2:
            raise BrokerSessionError("a message came with QoS 2, and 1 was asked for")
        if not packet.topic:
            raise BrokerSessionError("a message came with a topic alias, and none was allowed")
        properties = {
            key: value for key, value in packet.properties.items() if key not in _NOT_THE_MESSAGE
        }
        entry = Entry(packet.topic, packet.payload, packet.qos, packet.retain, properties)
        message = BrokerMessage(entry.row(), packet.packet_id or 0)
        if packet.qos:
            had = self._unacknowledged.get(message.packet_id)
            if had is not None and packet.dup and had._digest == message._digest:
                self.known_again += 1
                had._is_here = True
                return self._acknowledge(had.packet_id) if had._is_stored else b""
            self._unacknowledged[message.packet_id] = message
        self._held += 1
        self._held_bytes += message.size_bytes
        found.append(message)
        return b""

    def _acknowledge(self, packet_id: int) -> bytes:
        del self._unacknowledged[packet_id]
        return self._bytes(PubAck(packet_id))

    def _let_go(self, messages: Iterable[BrokerMessage]) -> None:
        for message in messages:
            self._drop(message)
            if self._unacknowledged.get(message.packet_id) is message:
                del self._unacknowledged[message.packet_id]

    def _drop(self, message: BrokerMessage) -> None:
        self._held -= 1
        self._held_bytes -= message.size_bytes

    def _bytes(self, packet: Packet) -> bytes:
        try:
            return encode(packet, self._settings.version)
        except (PacketError, ValueError) as error:
            raise BrokerSessionError(str(error)) from error


def _digest(row: Row) -> bytes:
    made = hashlib.blake2b(row[0].encode(), digest_size=16)
    made.update(b"\0%d" % row[1])
    made.update(row[2])
    return made.digest()
