"""Every packet by its type: bytes to object and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.mqtt.acknowledgements import (
    Auth,
    Disconnect,
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    decode_acknowledgement,
    decode_auth,
    decode_disconnect,
    encode_acknowledgement,
    encode_auth,
    encode_disconnect,
)
from gateway.mqtt.connack import ConnAck, decode_connack, encode_connack
from gateway.mqtt.connect import Connect, decode_connect, encode_connect
from gateway.mqtt.errors import malformed
from gateway.mqtt.kinds import PacketType
from gateway.mqtt.primitives import Reader, frame
from gateway.mqtt.publish import Publish, decode_publish, encode_publish
from gateway.mqtt.subscribe import (
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    decode_answer,
    decode_subscribe,
    decode_unsubscribe,
    encode_answer,
    encode_subscribe,
    encode_unsubscribe,
)
from light_dataclasses import dataclass


@dataclass(slots=True)
class PingReq:
    """A client says that it is alive (section 3.12)."""

    def __str__(self) -> str:
        return "PINGREQ"


@dataclass(slots=True)
class PingResp:
    """The server says so too (section 3.13)."""

    def __str__(self) -> str:
        return "PINGRESP"


Packet = (
    Connect
    | ConnAck
    | Publish
    | PubAck
    | PubRec
    | PubRel
    | PubComp
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)


@dataclass(frozen=True, slots=True)
class _Row:
    """One type of packet."""

    kind: PacketType
    of: type[Any]
    decode: Callable[[Reader, int], Any]
    """Reads a body: ``decode(reader, version)``."""
    encode: Callable[[Any, int, int], bytes]
    """Writes a body: ``encode(packet, version, packet type)``."""
    flags: int = 0
    """Lower four bits of the first byte (table 2-2)."""
    statement: str = "MQTT-2.1.3-1"
    """The statement that other flags break."""


def _no_body(*_: object) -> bytes:
    return b""


_T = PacketType
_ROWS: Final = (
    _Row(_T.CONNECT, Connect, decode_connect, encode_connect),
    _Row(_T.CONNACK, ConnAck, decode_connack, encode_connack),
    _Row(_T.PUBACK, PubAck, decode_acknowledgement, encode_acknowledgement),
    _Row(_T.PUBREC, PubRec, decode_acknowledgement, encode_acknowledgement),
    _Row(_T.PUBREL, PubRel, decode_acknowledgement, encode_acknowledgement, 2, "MQTT-3.6.1-1"),
    _Row(_T.PUBCOMP, PubComp, decode_acknowledgement, encode_acknowledgement),
    _Row(_T.SUBSCRIBE, Subscribe, decode_subscribe, encode_subscribe, 2, "MQTT-3.8.1-1"),
    _Row(_T.SUBACK, SubAck, decode_answer, encode_answer),
    _Row(_T.UNSUBSCRIBE, Unsubscribe, decode_unsubscribe, encode_unsubscribe, 2, "MQTT-3.10.1-1"),
    _Row(_T.UNSUBACK, UnsubAck, decode_answer, encode_answer),
    _Row(_T.PINGREQ, PingReq, lambda *_: PingReq(), _no_body),
    _Row(_T.PINGRESP, PingResp, lambda *_: PingResp(), _no_body),
    _Row(_T.DISCONNECT, Disconnect, decode_disconnect, encode_disconnect, 0, "MQTT-3.14.1-1"),
    _Row(_T.AUTH, Auth, decode_auth, encode_auth, 0, "MQTT-3.15.1-1"),
)
_BY_TYPE: Final = {int(row.kind): row for row in _ROWS}
_BY_CLASS: Final = {row.of: row for row in _ROWS}


def decode(first_byte: int, body: bytes, version: int) -> Packet:
    """Read one packet, whoever sent it.

    Args:
        first_byte: type and flags.
        body: what follows the remaining length, all of it and no more.
        version: of the connection; a CONNECT brings its own and ignores it.

    Raises:
        PacketError: it is no packet of this version. No other error comes of any bytes.

    """
    kind, flags, end = first_byte >> 4, first_byte & 0x0F, len(body)
    if kind == PacketType.PUBLISH:
        return decode_publish(flags, body, version)
    row = _BY_TYPE.get(kind)
    if row is None:
        raise malformed("packet type", kind)
    if flags != row.flags:
        raise malformed(f"{row.kind.name} flags", flags, row.statement)
    reader = Reader(kind, body, 0, end)
    packet: Packet = row.decode(reader, version)
    if reader.at != end:
        raise malformed(f"{row.kind.name} length", end)
    return packet


def encode(packet: Packet, version: int) -> bytes:
    """Return a whole packet, its fixed header included.

    Properties, and reasons of acknowledgements, are left out for 3.1.1, which does not have them.

    Raises:
        PacketError: a value that `decode` would refuse.

    """
    if isinstance(packet, Publish):
        return encode_publish(packet, version)
    row = _BY_CLASS[type(packet)]
    return frame(row.kind << 4 | row.flags, row.encode(packet, version, row.kind))
