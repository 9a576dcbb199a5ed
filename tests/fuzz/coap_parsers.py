"""Parsers of what CoAP devices and those who ask send."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import cbor2
from aiocoap.error import RenderableError
from aiocoap.message import Message
from parser_cost import CLIENT, MEMBER, STRANGER, Parser, Shape

from coap_engine.codec import CodecLimits
from coap_engine.codec import decode as decode_coap
from coap_engine.request_options import read_options
from gateway.broker.limits import Limits
from gateway.coap.sensors.roll import MAX_TABLE_BYTES, SensorRoll, posted
from gateway.coap.topics import topics
from gateway.coap.topics.properties import request_options
from gateway.home_assistant import announcements
from gateway.mqtt import V5, Publish, body_at
from gateway.mqtt import decode as decode_mqtt
from gateway.mqtt.primitives import encode_length, frame
from gateway.mqtt.properties import BYTES_MAX as PROPERTIES_BYTES
from gateway.mqtt.properties import COUNT_MAX
from gateway.sensors import senml
from gateway.sensors.catalogue import Workshop
from gateway.sensors.mqtt_device import MAX_MESSAGE_BYTES, MessageForm
from resource_directory.payloads import ParsedPayloads
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry, RegistryLimits
from tree_handler.batch import MAX_FRAME_BYTES

LINKS = RegistryLimits().links_per_registration
REGISTRATION_LINES = 900_000
"""The most lines of a registration with all its links and terms; a device sends it once."""


def _coap(data: bytes) -> object:
    return read_options(decode_coap(data).options)


def _registered(payload: bytes) -> object:
    registry = Registry()
    links = ParsedPayloads(registry.links_max).links(payload)
    return registry.register("n", links, 0.0, base="coap://h")


def _links(one: bytes) -> Shape:
    return lambda size: b",".join([one] * max(1, (size + 1) // (len(one) + 1)))


def _numbered_links(behind: bytes) -> Shape:
    def made(size: int) -> bytes:
        count = min(LINKS, size // (len(behind) + 8))
        return b",".join(b"<%04x>" % number + behind for number in range(count))

    return made


def _json(data: bytes) -> object:
    return senml.decode(data)


def _cbor(data: bytes) -> object:
    return senml.decode(data, senml.CBOR_FORMAT)


def shared(size: int) -> bytes:
    """A list of lists, each of which has the one before it twice, by tags of shared values."""
    items, at = [b"\xd8\x1c\x80"], 0
    while sum(map(len, items[-1:])) + at < min(size, 400):
        back = cbor2.dumps(len(items) - 1)
        items.append(b"\xd8\x1c\x82\xd8\x1d" + back + b"\xd8\x1d" + back)
        at += len(items[-1])
    return b"\x98" + bytes((len(items),)) + b"".join(items)


def _properties(data: bytes) -> object:
    packet = decode_mqtt(data[0], data[body_at(data) :], V5)
    assert isinstance(packet, Publish)
    return request_options(packet.properties)


def _user_properties(name: bytes, value: bytes) -> Shape:
    one = encode_property(name, value)

    def made(size: int) -> bytes:
        count = min(COUNT_MAX, (size - 20) // len(one), (PROPERTIES_BYTES - 8) // len(one))
        properties = one * count
        return frame(0x30, b"\0\1t" + encode_length(len(properties)) + properties)

    return made


def encode_property(name: bytes, value: bytes) -> bytes:
    """A user property (MQTT 5.0, 2.2.2.2)."""
    sizes = len(name).to_bytes(2, "big"), len(value).to_bytes(2, "big")
    return b"\x26" + sizes[0] + name + sizes[1] + value


def _sensor(data: bytes) -> object:
    class Roll:
        async def add(self, table: Mapping[str, Any], _check: object) -> list[str]:
            return [each.sensor.name for each in Workshop().build([table], is_afar=True)]

    adding = posted(cast("SensorRoll", Roll()), Message(payload=data))
    try:
        adding.send(None)
    except StopIteration as done:
        return done.value
    except RenderableError as refused:
        raise ValueError(str(refused)) from refused
    finally:
        adding.close()
    raise AssertionError("it waits for something")


COAP: dict[str, Parser] = {
    "CoAP datagram": Parser(
        _coap,
        STRANGER,
        CodecLimits().datagram_bytes,
        {
            "options": lambda size: b"\x40\x01\0\1" + b"\xb0" + b"\0" * (size - 5),
            "paths": lambda size: b"\x40\x01\0\1" + b"\xb0" + b"\0" * 63 + b"\xff" + b"a" * 900,
        },
    ),
    "look-up": Parser(
        lambda data: LookupQuery.parse(data.decode().split("&")),
        STRANGER,
        CodecLimits().datagram_bytes,
        {"criteria": lambda size: b"&".join([b"a=b"] * (size // 4))},
    ),
    "links of a registration": Parser(
        _registered,
        CLIENT,
        ParsedPayloads(LINKS).bytes_max,
        {
            "apart": lambda size: b", ".join([b"<a>"] * LINKS),
            "empty": _links(b"<>"),
            "many": _numbered_links(b""),
            "attributes": _numbered_links(b";a" * 60),
            "values": _numbered_links(b';rt="' + b" ".join([b"a"] * 60) + b'"'),
            "escapes": _numbered_links(b';t="' + b"\\a" * 500 + b'"'),
            "one of escapes": lambda size: b'<a>;t="' + b"\\a" * (size // 2 - 4) + b'"',
            "no end": lambda size: b'<a>;t="' + b"\\a" * (size // 2 - 4),
            "spaces": _numbered_links(b" " * 500),
            "one name": lambda size: b"<a>;" + b"b" * (size - 4),
        },
        REGISTRATION_LINES,
    ),
    "SenML": Parser(
        _json,
        CLIENT,
        senml.MAX_BYTES,
        {
            "records": lambda size: json.dumps([{"n": "a", "v": 1}] * 256).encode(),
            "tags": lambda size: json.dumps(
                [{"v": 1} | {f"g:{n}": "" for n in range(40)}] * 100
            ).encode(),
            "depth": lambda size: b"[" * size,
            "digits": lambda size: b'[{"v":' + b"1" * (size - 8) + b"}]",
        },
    ),
    "SenML in CBOR": Parser(
        _cbor,
        CLIENT,
        senml.MAX_BYTES,
        {
            "records": lambda size: cbor2.dumps([{0: "a", 2: 1}] * 256),
            "tags": lambda size: cbor2.dumps([{2: 1} | {f"g:{n}": "" for n in range(40)}] * 200),
            "depth": lambda size: b"\x81" * (size - 1) + b"\x80",
            "shared values": shared,
            "numbers": lambda size: cbor2.dumps([{2: (1 << 8 * (size - 20)) - 1}]),
        },
    ),
    "$coap topic": Parser(
        lambda data: topics.target(data.decode()),
        CLIENT,
        65_535,
        {
            "segments": lambda size: b"$coap/GET/g" + b"/a" * (size // 2 - 6),
            "criteria": lambda size: b"$coap/GET/g?" + b"&".join([b"a"] * (size // 2 - 6)),
            "one segment": lambda size: b"$coap/GET/g/" + b"a" * (size - 12),
            "percent signs": lambda size: b"$coap/GET/g/" + b"%41" * (size // 3 - 4),
        },
    ),
    "$coap properties": Parser(
        _properties,
        CLIENT,
        Limits().packet_bytes,
        {
            "accept": _user_properties(b"accept", b"text/plain"),
            "etags": _user_properties(b"etag", b"00"),
            "digits": _user_properties(b"etag", b"0" * 1_800),
        },
    ),
    "POST /sensors": Parser(
        _sensor,
        CLIENT,
        MAX_TABLE_BYTES,
        {
            "lists": lambda size: b'{"type":[' + b",".join([b"[]"] * (size // 3 - 6)) + b"]}",
            "keys": lambda size: json.dumps(
                {"type": "switch", "name": "a"} | {f"{n}": 0 for n in range(size // 12)}
            ).encode(),
            "depth": lambda size: b'{"a":' * (size // 5),
            "digits": lambda size: b'{"type":"host","interval_s":' + b"1" * (size - 40) + b"}",
            "attributes": lambda size: json.dumps(
                {"type": "host", "name": "a"}
                | {"attributes": {f"a{n}": "" for n in range(size // 14)}}
            ).encode(),
        },
    ),
    "discovery of Home Assistant": Parser(
        announcements.is_ours,
        MEMBER,
        MAX_FRAME_BYTES,
        {
            "objects": lambda size: b"[" + b",".join([b"{}"] * (size // 3 - 1)) + b"]",
            "depth": lambda size: b"[" * size,
            "digits": lambda size: b"1" * size,
        },
    ),
    "message of a device": Parser(
        MessageForm("json", pointer="/a" * 16).value,
        CLIENT,
        MAX_MESSAGE_BYTES,
        {
            "lists": lambda size: b"[" + b",".join([b"[]"] * (size // 3 - 1)) + b"]",
            "depth": lambda size: b'{"a":' * (size // 5),
        },
    ),
}
