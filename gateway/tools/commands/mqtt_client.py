"""A small MQTT client for the command line: one connection, every answer with its reason.

It speaks MQTT 5.0 with the gateway's own codec, since a client that hides what a broker answered
would call a refused message published.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketError,
    PingReq,
    PingResp,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
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
from light_dataclasses import dataclass

PACKET_BYTES_MAX = 1 << 28
PAYLOAD_BYTES_MAX = PACKET_BYTES_MAX - 1
"""No packet holds more: its length has four digits of seven bits (section 1.5.5)."""
_FAILURE = 0x80

T = TypeVar("T")


class MqttClientError(Exception):
    """The broker refused something, or the connection ended; the message says what."""


class UnfitPacketError(MqttClientError):
    """No packet can hold what is to be sent; the message says what of it."""


class ConnectionClosedError(MqttClientError):
    """The broker ended the connection without a word."""

    def __init__(self) -> None:
        super().__init__("the connection was closed")


@dataclass(frozen=True, slots=True)
class Login:
    """The client identifier, and the user, with which a client connects.

    Attributes:
        client_id: empty for one that the broker makes up.
        username: None for none.
        password: the same.

    """

    client_id: str = ""
    username: str | None = None
    password: bytes | None = None


class MqttClient:
    """One connection to a broker.

    Args:
        reader: of a connected socket.
        writer: the same.

    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._scanner = Scanner(PACKET_BYTES_MAX)
        self._keep_alive_s = 0
        self._sent_at_s = 0.0
        self._is_pinged = False
        """A ping was sent, and nothing has come since."""
        self._packet_id = 0
        self._unreleased: set[int] = set()
        self._came: list[Publish] = []
        """Messages that came while an answer was awaited."""

    async def connect(self, login: Login, keep_alive_s: int) -> None:
        """Introduce oneself; the session ends with the connection.

        Args:
            login: as whom.
            keep_alive_s: the longest silence while `messages` are awaited; 0 for any, for a client
                that may not read for a while.

        Raises:
            MqttClientError: the broker lets nobody in like this.

        """
        connect = Connect(
            Version.V5,
            login.client_id,
            clean_start=True,
            keep_alive_s=keep_alive_s,
            username=login.username,
            password=login.password,
            will=None,
            properties={},
            bridge=False,
        )
        self._send(connect)
        try:
            answer = await self._next()
        except ConnectionClosedError as error:
            ports = "a port of MQTT over TLS takes --cafile, another one takes none"
            raise MqttClientError(f"{error} before an answer: {ports}") from error
        if not isinstance(answer, ConnAck):
            raise MqttClientError(f"{type(answer).__name__} instead of CONNACK")
        if answer.reason >= _FAILURE:
            raise MqttClientError(f"connection refused: {_why(answer)}{_needs(answer.reason)}")
        asked = answer.properties.get(PropertyId.SERVER_KEEP_ALIVE, keep_alive_s)
        self._keep_alive_s = int(asked)

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        """Publish, and wait for what a QoS 1 or 2 message is answered.

        Raises:
            UnfitPacketError: its topic is none, or it is too long.
            MqttClientError: the broker refuses it.

        """
        packet_id = self._new_id() if qos else None
        self._send(Publish(topic, payload, qos, retain, False, packet_id, {}))
        if qos == 1:
            self._check(topic, await self._answer(PubAck))
        elif qos == 2:
            self._check(topic, await self._answer(PubRec))
            self._send(PubRel(packet_id or 0))
            await self._answer(PubComp)
        try:
            await self._writer.drain()
        except OSError as error:
            raise MqttClientError(f"the connection was lost: {_ending(error)}") from error

    async def settle(self) -> None:
        """Wait until the broker has seen all that was sent: of QoS 0 it says nothing else.

        Raises:
            MqttClientError: it ended the connection for something of it.

        """
        self._send(PingReq())
        await self._answer(PingResp)

    async def subscribe(self, filters: Sequence[str], qos: int) -> None:
        """Subscribe to filters.

        Raises:
            UnfitPacketError: one is none.
            MqttClientError: the broker refuses one.

        """
        requests = [SubscriptionRequest(topic_filter, qos) for topic_filter in filters]
        self._send(Subscribe(self._new_id(), requests, {}))
        answer = await self._answer(SubAck)
        for topic_filter, reason in zip(filters, answer.reasons, strict=True):
            if reason >= _FAILURE:
                raise MqttClientError(f"{topic_filter!r}: {reason_text(reason)}")

    async def messages(self) -> AsyncIterator[Publish]:
        """Yield what comes, each acknowledged when the next is asked for.

        Raises:
            MqttClientError: the connection ended.

        """
        while True:
            while self._came:
                yield self._came.pop(0)
            if isinstance(packet := await self._next(), Publish):
                yield packet

    async def close(self) -> None:
        """Take leave."""
        try:
            self._send(Disconnect(ReasonCode.NORMAL_DISCONNECTION))
            self._writer.close()
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass  # it is closed already

    # -- within ----------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        try:
            self._writer.write(encode(packet, Version.V5))
        except (PacketError, ValueError) as error:
            raise UnfitPacketError(str(error)) from error
        self._sent_at_s = asyncio.get_running_loop().time()

    def _new_id(self) -> int:
        self._packet_id = self._packet_id % 65_535 + 1
        return self._packet_id

    async def _answer(self, kind: type[T]) -> T:
        while True:
            packet = await self._next()
            if isinstance(packet, kind):
                return packet
            if isinstance(packet, Publish):
                self._came.append(packet)

    def _check(self, topic: str, answer: PubAck | PubRec) -> None:
        if answer.reason >= _FAILURE:
            raise MqttClientError(f"{topic!r}: {reason_text(answer.reason)}")

    async def _next(self) -> Packet:
        """Return the next packet, acknowledged where that is due; a PUBLISH that came before is
        left out.

        Raises:
            MqttClientError: the connection ended.

        """
        while True:
            packet = await self._read()
            match packet:
                case Disconnect():
                    raise MqttClientError(f"disconnected: {_why(packet)}")
                case Publish(qos=1):
                    self._send(PubAck(packet.packet_id or 0))
                case Publish(qos=2):
                    number = packet.packet_id or 0
                    self._send(PubRec(number))
                    if number in self._unreleased:
                        continue
                    self._unreleased.add(number)
                case PubRel():
                    self._unreleased.discard(packet.packet_id)
                    self._send(PubComp(packet.packet_id))
                    continue
                case _:
                    pass
            return packet

    async def _read(self) -> Packet:
        try:
            self._stay_heard()
            while not (taken := self._scanner.take(1)):
                try:
                    async with asyncio.timeout_at(self._silent_until_s()) as silence:
                        more = await self._reader.read(1 << 16)
                except TimeoutError:
                    if not silence.expired():  # it is the connection's own
                        raise
                    self._stay_heard()
                    continue
                if not more:
                    raise ConnectionClosedError
                self._is_pinged = False
                self._scanner.feed(more)
            (raw,) = taken
            return decode(raw[0], raw[body_at(raw) :], Version.V5)
        except (OSError, ssl.SSLError) as error:
            raise MqttClientError(f"the connection was lost: {_ending(error)}") from error
        except PacketError as error:
            raise MqttClientError(f"what came is no MQTT: {error}") from error

    def _silent_until_s(self) -> float | None:
        """Return when something has to be sent again; None for never."""
        return self._sent_at_s + self._keep_alive_s / 2 if self._keep_alive_s else None

    def _stay_heard(self) -> None:
        """Send a ping when it is time: what comes is no sign of life to the broker."""
        due_s = self._silent_until_s()
        if due_s is None or asyncio.get_running_loop().time() < due_s:
            return
        if self._is_pinged:
            raise MqttClientError("the broker answers no ping")
        self._send(PingReq())
        self._is_pinged = True


def _ending(error: OSError) -> str:
    """Say in words how a connection broke, without the source file that OpenSSL names."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or str(error) or type(error).__name__
    told = error.reason or str(error)
    words = told.rpartition("ALERT_")[2].replace("_", " ").lower()
    is_ours = "ALERT_" in told and ("certificate" in words or words.endswith(" ca"))
    return f"{words}; --cert and --key show one that the broker takes" if is_ours else words


def _needs(reason: int) -> str:
    """Return which options say who one is, where that was lacking or wrong."""
    if reason not in (ReasonCode.NOT_AUTHORIZED, ReasonCode.BAD_USER_NAME_OR_PASSWORD):
        return ""
    return "; --user and --password-file say who you are"


def _why(packet: ConnAck | Disconnect) -> str:
    said = packet.properties.get(PropertyId.REASON_STRING)
    return reason_text(packet.reason) + (f" ({said})" if said else "")
