"""Parsers of what MQTT clients and browsers send."""

from __future__ import annotations

from parser_cost import CLIENT, STRANGER, Parser, Shape
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from gateway.broker.inbound.subscribe_requests import check_size
from gateway.broker.limits import Limits
from gateway.broker.listeners.websocket import HANDSHAKE_BYTES_MAX
from gateway.mqtt import V5, body_at
from gateway.mqtt import decode as decode_mqtt
from gateway.mqtt.primitives import encode_length, frame
from gateway.mqtt.properties import BYTES_MAX as PROPERTIES_BYTES
from gateway.process.console.exchange import HEAD_BYTES_MAX, HttpExchange
from gateway.trust.shares.paced_reading import PIECE_BYTES

LIMITS = Limits()


def _mqtt(packet: bytes) -> object:
    """As an accepted client's packet is dealt with, or a first one."""
    body = body_at(packet)
    if packet[0] >> 4 not in (1, 3):
        check_size(packet, body, V5, LIMITS)
    return decode_mqtt(packet[0], packet[body:], V5)


def _with_properties(first: int, before: bytes, behind: bytes, one: bytes) -> Shape:
    def made(size: int) -> bytes:
        room = min(size - 20 - len(before) - len(behind), PROPERTIES_BYTES)
        properties = one * (room // len(one))
        return frame(first, before + encode_length(len(properties)) + properties + behind)

    return made


_CONNECT = b"\0\4MQTT\5\2\0\0"
_WILL = b"\0\4MQTT\5\6\0\0\0\0\1a"
_USER = b"\x26\0\0\0\0"


def _filters(first: int, one: bytes, options: bytes) -> Shape:
    def made(size: int) -> bytes:
        whole = len(one).to_bytes(2, "big") + one + options
        count = min(LIMITS.subscriptions_per_session, (size - 12) // len(whole))
        return frame(first, b"\0\1\0" + whole * count)

    return made


def _topic(level: bytes) -> Shape:
    def made(size: int) -> bytes:
        topic = level * (min(size - 12, 65_535) // len(level))
        return frame(0x30, len(topic).to_bytes(2, "big") + topic + b"\0")

    return made


MQTT: dict[str, Parser] = {
    "CONNECT": Parser(
        _mqtt,
        STRANGER,
        LIMITS.connect_bytes,
        {
            "user properties": _with_properties(0x10, _CONNECT, b"\0\1a", _USER),
            "of its will": _with_properties(0x10, _WILL, b"\0\1t\0\0", _USER),
        },
    ),
    "PUBLISH": Parser(
        _mqtt,
        CLIENT,
        LIMITS.packet_bytes,
        {
            "user properties": _with_properties(0x30, b"\0\1t", b"", _USER),
            "subscription identifiers": _with_properties(0x30, b"\0\1t", b"", b"\x0b\x01"),
            "levels": _topic(b"/"),
        },
    ),
    "SUBSCRIBE": Parser(
        _mqtt,
        CLIENT,
        LIMITS.packet_bytes,
        {
            "user properties": _with_properties(0x82, b"\0\1", b"\0\1a\0", _USER),
            "filters": _filters(0x82, b"a", b"\0"),
            "levels": _filters(0x82, b"/" * 16, b"\0"),
            "wildcards": _filters(0x82, b"+/" * 16 + b"#", b"\0"),
            "deep filters": _filters(0x82, b"/" * 65_535, b"\0"),
        },
    ),
    "UNSUBSCRIBE": Parser(
        _mqtt,
        CLIENT,
        LIMITS.packet_bytes,
        {
            "user properties": _with_properties(0xA2, b"\0\1", b"\0\1a", _USER),
            "filters": _filters(0xA2, b"a", b""),
            "levels": _filters(0xA2, b"/" * 16, b""),
            "deep filters": _filters(0xA2, b"+/" * 32_767, b""),
        },
    ),
    "PUBACK": Parser(
        _mqtt,
        CLIENT,
        LIMITS.request_bytes,
        {"user properties": _with_properties(0x40, b"\0\1\0", b"", _USER)},
    ),
}


# -- HTTP and websockets ---------------------------------------------------------------------------


def _head(data: bytes) -> object:
    exchange = HttpExchange()
    return [exchange.feed(data[at : at + 1_024]) for at in range(0, len(data), 1_024)]


def _byte_by_byte(data: bytes) -> object:
    exchange = HttpExchange()
    return [exchange.feed(data[at : at + 1]) for at in range(len(data))]


_GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


_UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def _fields(one: bytes) -> Shape:
    return lambda size: _GET + one * ((size - len(_GET) - 2) // len(one)) + b"\r\n"


def _frames(data: bytes) -> object:
    frames = ServerProtocol(max_size=LIMITS.connect_bytes)
    frames.receive_data(_UPGRADE)
    for request in frames.events_received():
        assert isinstance(request, Request)
        frames.send_response(frames.accept(request))
    assert frames.state is State.OPEN
    frames.receive_data(data)
    return frames.events_received()


def _handshake(data: bytes) -> object:
    frames = ServerProtocol()
    frames.receive_data(data)
    return frames.events_received()


def _masked(opcode: Opcode, payload: bytes) -> bytes:
    return bytes((0x80 | opcode, 0x80 | len(payload))) + b"\0\0\0\0" + payload


HTTP: dict[str, Parser] = {
    "HTTP head": Parser(
        _head, STRANGER, HEAD_BYTES_MAX, {"short fields": _fields(b"a:\r\n"), "one": _fields(b"a")}
    ),
    "HTTP head in single bytes": Parser(
        _byte_by_byte, CLIENT, HEAD_BYTES_MAX, {"short fields": _fields(b"a:\r\n")}
    ),
    "websocket request": Parser(
        _handshake, STRANGER, HANDSHAKE_BYTES_MAX, {"short fields": _fields(b"a:\r\n")}
    ),
    "websocket frames of one piece": Parser(
        _frames,
        STRANGER,
        PIECE_BYTES,
        {
            "empty": lambda size: _masked(Opcode.BINARY, b"") * (size // 6),
            "of a byte": lambda size: _masked(Opcode.BINARY, b"a") * (size // 7),
            "pings": lambda size: _masked(Opcode.PING, b"") * (size // 6),
        },
    ),
}
