"""Inputs to begin with: whole conversations, the corners of the format, and a dictionary.

An input of either target is two bytes of how and then what a client sends; see `targets`. The
seeds are built by the conformance tests' own code, which shares nothing with the broker's codec.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from raw_packets import V5, V311, Kind, Packets, Property, Will, binary, one_property, packet, two

USER = (Property.USER_PROPERTY, ("k", "v"))


def seeds() -> Iterator[bytes]:
    """Each seed, with its first two bytes."""
    for level in (V311, V5):
        for stream in _streams(level):
            for how in (b"\0", b"\x1f", b"\xe0"):
                yield bytes((level,)) + how + stream


def dictionary() -> Iterator[bytes]:
    """Pieces that a mutation may put in: first bytes, lengths, properties, ill-formed text."""
    yield from (bytes((first, 0)) for first in range(256) if first >> 4 in {3, 8, 10, 12, 14, 15})
    yield from (bytes((first, 2, 0, 1)) for first in (0x40, 0x50, 0x62, 0x70))
    yield from (b"\x80\0", b"\xff\x7f", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x01")
    for identifier in Property:
        value = ("k", "v") if identifier == Property.USER_PROPERTY else b"\0\0\0\1"
        yield one_property(identifier, value)
    yield from (binary(text) for text in ("MQTT", "#", "+", "t/#", "$share/g/t", "$SYS/#", "t", ""))
    yield from (b"\xed\xa0\x80", b"\xc0\x80", b"\0\1\0", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80")


def _streams(level: int) -> Iterator[bytes]:
    mqtt = Packets(level)
    connect = mqtt.connect("c")
    v5 = level == V5
    yield connect
    yield connect + mqtt.pingreq() + mqtt.disconnect()
    subscribe = mqtt.subscribe(1, ("t/#", 2), ("$share/g/t", 1), ("+/u", 0))
    publishes = b"".join(
        mqtt.publish("t", b"x" * size, qos=qos, packet_id=qos or None, retain=bool(size % 2))
        for qos in (0, 1, 2)
        for size in (0, 1, 130)
    )
    acknowledgements = b"".join(
        mqtt.acknowledge(kind, packet_id)
        for packet_id in (1, 2)
        for kind in (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP)
    )
    yield connect + subscribe + publishes + acknowledgements
    yield connect + publishes + subscribe + mqtt.unsubscribe(2, "t/#", "none")
    yield mqtt.connect("c", clean=False, keep_alive_s=1) + subscribe + publishes
    will = Will("t", b"gone", 2, True, [(Property.WILL_DELAY_INTERVAL, 1), USER] if v5 else ())
    yield mqtt.connect("c", will=will, username="u", password=b"p") + packet(0x00)
    yield connect + connect
    yield mqtt.connect("") + mqtt.pingreq()
    yield connect + packet(0x30, binary("t"), b"\0" * v5)[:1] + b"\x84\0" + binary("t") + b"\0"
    if v5:
        yield from _streams_of_5(mqtt, connect)


def _streams_of_5(mqtt: Packets, connect: bytes) -> Iterator[bytes]:
    settings = [
        (Property.SESSION_EXPIRY_INTERVAL, 10),
        (Property.RECEIVE_MAXIMUM, 1),
        (Property.MAXIMUM_PACKET_SIZE, 60),
        (Property.TOPIC_ALIAS_MAXIMUM, 2),
        (Property.REQUEST_RESPONSE_INFORMATION, 1),
        (Property.REQUEST_PROBLEM_INFORMATION, 0),
        USER,
    ]
    rich = [
        (Property.PAYLOAD_FORMAT_INDICATOR, 1),
        (Property.MESSAGE_EXPIRY_INTERVAL, 5),
        (Property.CONTENT_TYPE, "text"),
        (Property.RESPONSE_TOPIC, "r"),
        (Property.CORRELATION_DATA, b"\0\1"),
        USER,
        USER,
    ]
    identified = mqtt.subscribe(
        1, ("t", 2 | 8), ("t/#", 1 | 0x10), props=[(Property.SUBSCRIPTION_IDENTIFIER, 200), USER]
    )
    aliased = mqtt.publish("t", b"1", props=[(Property.TOPIC_ALIAS, 1)])
    by_alias = mqtt.publish("", b"2", qos=1, packet_id=9, props=[(Property.TOPIC_ALIAS, 1)])
    yield mqtt.connect("c", props=settings) + identified + aliased + by_alias * 3
    yield (
        connect + identified + mqtt.publish("t", b"x", qos=2, packet_id=7, retain=True, props=rich)
    )
    yield mqtt.connect("c", props=[(Property.AUTHENTICATION_METHOD, "M")])
    yield connect + mqtt.auth(0x19, [(Property.AUTHENTICATION_METHOD, "M")])
    yield connect + mqtt.disconnect(4, [(Property.REASON_STRING, "r"), USER])
    yield connect + mqtt.subscribe(1, ("t", 4)) + mqtt.publish("t", b"own")
    yield connect + packet(0x62, two(1), b"\x92\0") + packet(0x50, two(1), b"\x80\0")


def mutated(chance: random.Random) -> bytes:
    """A seed with a few pieces changed, for runs without coverage."""
    data = bytearray(chance.choice(_SEEDS))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = chance.choice(_WORDS)
            case 3 if len(data) > 40:
                del data[at : at + chance.randint(1, 8)]
            case _:
                other = chance.choice(_SEEDS)
                data += other[chance.randrange(2, len(other)) :]
    return bytes(data)


_SEEDS = list(seeds())
_WORDS = list(dictionary())
