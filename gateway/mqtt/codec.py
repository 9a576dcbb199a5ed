"""Every packet by its type: bytes to object and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.mqtt.acknowledgements import (
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    decode_acknowledgement,
    encode_acknowledgement,
)
from gateway.mqtt.connack import ConnAck, decode_connack, encode_connack
from gateway.mqtt.connect import Connect, decode_connect, encode_connect
from gateway.mqtt.disconnect import (
    Auth,
    Disconnect,
    decode_auth,
    decode_disconnect,
    encode_auth,
    encode_disconnect,
)
from gateway.mqtt.errors import malformed
from gateway.mqtt.kinds import PacketType
from gateway.mqtt.ping import PingReq, PingResp, decode_ping
from gateway.mqtt.publish import Publish, decode_publish, encode_publish
from gateway.mqtt.subscribe import (
    SubAck,
    Subscribe,
    decode_suback,
    decode_subscribe,
    encode_suback,
    encode_subscribe,
)
from gateway.mqtt.unsubscribe import (
    UnsubAck,
    Unsubscribe,
    decode_unsuback,
    decode_unsubscribe,
    encode_unsuback,
    encode_unsubscribe,
)

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

_DECODERS: Final[Mapping[int, Callable[[bytes, int], Packet]]] = {
    PacketType.CONNECT: lambda body, _: decode_connect(body),
    PacketType.CONNACK: decode_connack,
    PacketType.PUBACK: lambda body, version: decode_acknowledgement(PubAck, body, version),
    PacketType.PUBREC: lambda body, version: decode_acknowledgement(PubRec, body, version),
    PacketType.PUBREL: lambda body, version: decode_acknowledgement(PubRel, body, version),
    PacketType.PUBCOMP: lambda body, version: decode_acknowledgement(PubComp, body, version),
    PacketType.SUBSCRIBE: decode_subscribe,
    PacketType.SUBACK: decode_suback,
    PacketType.UNSUBSCRIBE: decode_unsubscribe,
    PacketType.UNSUBACK: decode_unsuback,
    PacketType.PINGREQ: lambda body, _: decode_ping(PacketType.PINGREQ, body),
    PacketType.PINGRESP: lambda body, _: decode_ping(PacketType.PINGRESP, body),
    PacketType.DISCONNECT: decode_disconnect,
    PacketType.AUTH: decode_auth,
}

_ENCODERS: Final[Mapping[type, Callable[[Any, int], bytes]]] = {
    Connect: lambda packet, _: encode_connect(packet),
    ConnAck: encode_connack,
    Publish: encode_publish,
    PubAck: encode_acknowledgement,
    PubRec: encode_acknowledgement,
    PubRel: encode_acknowledgement,
    PubComp: encode_acknowledgement,
    Subscribe: encode_subscribe,
    SubAck: encode_suback,
    Unsubscribe: encode_unsubscribe,
    UnsubAck: encode_unsuback,
    PingReq: lambda packet, _: b"\xc0\0",
    PingResp: lambda packet, _: b"\xd0\0",
    Disconnect: encode_disconnect,
    Auth: encode_auth,
}

_WITH_FLAG_2: Final = frozenset({PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE})
_FLAG_STATEMENTS: Final[Mapping[int, str]] = {
    PacketType.PUBREL: "MQTT-3.6.1-1",
    PacketType.SUBSCRIBE: "MQTT-3.8.1-1",
    PacketType.UNSUBSCRIBE: "MQTT-3.10.1-1",
    PacketType.DISCONNECT: "MQTT-3.14.1-1",
    PacketType.AUTH: "MQTT-3.15.1-1",
}


def decode(first_byte: int, body: bytes, version: int) -> Packet:
    """Read one packet, whoever sent it.

    Args:
        first_byte: type and flags.
        body: what follows the remaining length, all of it and no more.
        version: of the connection; a CONNECT brings its own and ignores it.

    Raises:
        PacketError: it is no packet of this version. No other error comes of any bytes.

    """
    packet_type = first_byte >> 4
    flags = first_byte & 0x0F
    if packet_type == PacketType.PUBLISH:
        return decode_publish(flags, body, version)
    decoder = _DECODERS.get(packet_type)
    if decoder is None:
        raise malformed("packet type", packet_type)
    if flags != (2 if packet_type in _WITH_FLAG_2 else 0):
        statement = _FLAG_STATEMENTS.get(packet_type, "MQTT-2.1.3-1")
        raise malformed(f"{PacketType(packet_type).name} flags", flags, statement)
    return decoder(body, version)


def encode(packet: Packet, version: int) -> bytes:
    """A whole packet, its fixed header included.

    Properties, and reasons of acknowledgements, are left out for 3.1.1, which does not have them.

    Raises:
        PacketError: a value that `decode` would refuse.

    """
    return _ENCODERS[type(packet)](packet, version)
