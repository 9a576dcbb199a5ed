"""Parsers of what CoAP devices and those who ask send."""

from __future__ import annotations

import json

import cbor2
from parser_cost import CLIENT, STRANGER, Parser, Shape

from coap_engine.codec import CodecLimits
from coap_engine.codec import decode as decode_coap
from coap_engine.request_options import read_options
from gateway.sensors import senml
from resource_directory.payloads import ParsedPayloads
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry, RegistryLimits

LINKS = RegistryLimits().links_per_registration
REGISTRATION_LINES = 900_000
"""What one may cost that has all links and terms that it may have; a device sends it once."""


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
}
