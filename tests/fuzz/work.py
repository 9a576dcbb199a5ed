"""What parsers cost: lines that are carried out, and processor time, for each byte that came.

`PARSERS` has each that reads what others send, with its largest input and the shapes that cost it
most. `lines` counts what Python carries out, which is the same on each machine; what a line of C
does it can't see, and so `searched` measures time as well.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import cbor2
import msgpack
from websockets.frames import Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from coap_engine.codec import CodecLimits
from coap_engine.codec import decode as decode_coap
from coap_engine.request_options import read_options
from gateway.broker.inbound.requests import check_size
from gateway.broker.limits import Limits
from gateway.broker.listeners.websocket import HANDSHAKE_BYTES_MAX
from gateway.console.exchange import HEAD_BYTES_MAX, HttpExchange
from gateway.mqtt import V5, body_at
from gateway.mqtt import decode as decode_mqtt
from gateway.mqtt.primitives import encode_length, frame
from gateway.mqtt.properties import BYTES_MAX as PROPERTIES_BYTES
from gateway.sensors import senml
from gateway.shares.paced_reading import PIECE_BYTES
from resource_directory.payloads import ParsedPayloads
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry, RegistryLimits
from tree_handler import batch
from tree_handler.discovery import MAGIC, MAX_ANNOUNCEMENT_BYTES, Announcement
from tree_handler.members.member import MAX_RECORD_BYTES, MemberRecord
from tree_handler.overlays import wire as overlay_wire
from tree_handler.remote.message import MAX_MESSAGE_BYTES, Query
from tree_handler.replication.repair import Request as RepairRequest
from tree_handler.replication.repair import Seek, Sought, Summary
from tree_handler.retained import sync_wire
from tree_handler.routing import interest, locator, wire
from tree_handler.spanning.bpdu import MAX_BYTES as BPDU_BYTES
from tree_handler.spanning.bpdu import Bpdu

Shape = Callable[[int], bytes]
"""Makes an input of about so many bytes."""
LIMITS = Limits()
LINKS = RegistryLimits().links_per_registration
STRANGER, CLIENT, MEMBER = "stranger", "client", "member"
"""Who can send it: anybody, who has given proof, another gateway."""
LINES = {STRANGER: 25_000, CLIENT: 150_000, MEMBER: 400_000}
"""What one input may cost: of a stranger's a millisecond of a PC, of a gateway's thirty."""
REGISTRATION_LINES = 900_000
"""What one may cost that has all links and terms that it may have; a device sends it once."""
MESSAGE_BYTES = 1 << 20
"""Of a message between gateways: larger ones are batches."""


@dataclass(frozen=True, slots=True)
class Parser:
    """One parser.

    Attributes:
        run: parses; whatever a parser may raise for wrong input is a ValueError.
        who: may send it.
        most_bytes: the largest input that it looks at.
        shapes: what costs it most, by name.
        own_lines: what one input may cost where that is not `LINES` of who may send it.

    """

    run: Callable[[bytes], object]
    who: str
    most_bytes: int
    shapes: dict[str, Shape]
    own_lines: int = 0

    @property
    def most_lines(self) -> int:
        """What one input may cost."""
        return self.own_lines or LINES[self.who]


# -- MQTT ------------------------------------------------------------------------------------------


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


_MQTT: dict[str, Parser] = {
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


_HTTP: dict[str, Parser] = {
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


# -- CoAP ------------------------------------------------------------------------------------------


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


_COAP: dict[str, Parser] = {
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


# -- between gateways ------------------------------------------------------------------------------


def _rows(data: bytes) -> object:
    return batch.rows(data, batch.check(data))


def _batch(row: tuple[Any, ...], count_max: int) -> Shape:
    def made(size: int) -> bytes:
        count = min(count_max, (size - 200) // len(msgpack.packb(row)))
        return batch.make("gw", 1, 1, [row] * count, flags=1, origin_time_us=0)[0]

    return made


def _packed(value: Callable[[int], Any]) -> Shape:
    """A value that nearly fits, or fits."""

    def made(size: int) -> bytes:
        few, many = (len(msgpack.packb(value(count))) for count in (1, 1_001))
        count = max(1, int((size - few) * 1_000 / max(1, many - few)))
        while count > 1 and len(msgpack.packb(value(count))) > size:
            count = count * 9 // 10
        return bytes(msgpack.packb(value(count)))

    return made


def _ranges(count: int, step: int = 2) -> list[tuple[int, int]]:
    return [(number, number) for number in range(1, step * count, step)]


def _streams(count: int) -> list[list[Any]]:
    """A thousand streams at most, and in each as many ranges."""
    each = _ranges(min(10_000, max(1, count // 1_000)))
    return [["a", number, each] for number in range(1, min(count, 1_000) + 1)]


def _record(**fields: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "gateway_id": "gw",
        "epoch": 1,
        "version": 1,
        "subscribes": [],
        "publishes": [],
        "neighbours": [],
        "clients": 0,
        "rooted": 0,
        "transit": True,
    }
    return record | fields


def _interest(data: bytes) -> object:
    index: interest.Interests = interest.Interests("own")
    return index.update(interest.Interest.decode(data))


_MEMBERS: dict[str, Parser] = {
    "batch": Parser(
        _rows,
        MEMBER,
        MESSAGE_BYTES,
        {
            "messages": _batch(("", 0, b""), 1_000_000),
            "a thousand": _batch(("t", 1, b"a"), 1_000),
            "user properties": _batch(("t", 1, b"", {38: [("", "")] * 512}), 1_000),
        },
    ),
    "summary": Parser(
        Summary.decode,
        MEMBER,
        MESSAGE_BYTES,
        {
            "ranges": lambda _: msgpack.packb(
                [True, [], [["a", n, 1, _ranges(10_000)] for n in (1, 2)]]
            ),
            "streams": _packed(
                lambda n: [True, [], [[name, at, 1, r] for name, at, r in _streams(n)]]
            ),
            "over": _packed(lambda n: [True, [["a", _ranges(n)]], []]),
        },
    ),
    "repair request": Parser(
        RepairRequest.decode,
        MEMBER,
        MESSAGE_BYTES,
        {
            "streams": _packed(_streams),
            "backwards": _packed(lambda n: [["a", 1, _ranges(n)[::-1]]]),
        },
    ),
    "seek": Parser(
        Seek.decode, MEMBER, MESSAGE_BYTES, {"streams": _packed(lambda n: ["a", 1, 1, _streams(n)])}
    ),
    "sought": Parser(
        Sought.decode,
        MEMBER,
        MESSAGE_BYTES,
        {
            "denials": _packed(
                lambda n: ["a", 1, 1, [], [], True, [["a", _streams(1 + n // 64), b""]] * 64]
            )
        },
    ),
    "interest": Parser(
        _interest,
        MEMBER,
        interest.MAX_RECORD_BYTES,
        {
            "filters": _packed(lambda n: _record(subscribes=[f"a/{i}" for i in range(n)])),
            "levels": lambda _: msgpack.packb(
                _record(subscribes=[f"{i}" + "/" * 31 for i in range(512)])
            ),
            "topics": _packed(
                lambda n: _record(publishes=[f"{i}" + "/" * (n // 512) for i in range(512)])
            ),
        },
    ),
    "what is behind": Parser(
        locator.Behind.decode,
        MEMBER,
        MESSAGE_BYTES,
        {
            "lives": lambda _: msgpack.packb([True, [[f"g{i}", 1] for i in range(10_000)], []]),
            "ids": lambda _: msgpack.packb([True, [], [f"g{i}" for i in range(10_000)]]),
        },
    ),
    "routed message": Parser(
        wire.decode,
        MEMBER,
        MESSAGE_BYTES,
        {
            "destinations": _packed(
                lambda n: [0, 1, b"", False, [(f"g{i}", 1) for i in range(min(n, 10_000))]]
            ),
            "ranges": _packed(lambda n: [3, 1, "g", 1, "h", _ranges(n), 1]),
        },
    ),
    "overlays": Parser(
        overlay_wire.decode,
        MEMBER,
        overlay_wire.MAX_MESSAGE_BYTES,
        {"items": _packed(lambda n: [1, *([bytes(overlay_wire.ID_BYTES), 1, 1, []] * n)])},
    ),
    "retained topics": Parser(
        lambda data: sync_wire.ask_of(list(sync_wire.unpack(data)[1:])),
        MEMBER,
        MESSAGE_BYTES,
        {
            "buckets": _packed(lambda n: [2, list(range(n)), [0, ""], [0, ""], True, []]),
            "topics": _packed(
                lambda n: [
                    2,
                    [],
                    [0, ""],
                    [0, ""],
                    True,
                    [[f"t{i}", 1, 0, "g", 1] for i in range(min(n, 1_000))],
                ]
            ),
        },
    ),
    "member record": Parser(
        MemberRecord.decode,
        MEMBER,
        MAX_RECORD_BYTES,
        {"keys": _packed(lambda n: {str(i): 0 for i in range(n)})},
    ),
    "BPDU": Parser(Bpdu.decode, MEMBER, BPDU_BYTES, {"fields": _packed(lambda n: [1] * n)}),
    "question": Parser(
        Query.decode,
        MEMBER,
        MAX_MESSAGE_BYTES,
        {"keys": _packed(lambda n: {str(i): 0 for i in range(n)})},
    ),
    "announcement": Parser(
        lambda data: Announcement.decode(data, "t", b"k" * 16),
        STRANGER,
        MAX_ANNOUNCEMENT_BYTES,
        {
            "fields": lambda size: (
                MAGIC + b"\x01" + bytes(msgpack.packb([0] * (size - 40))) + b"\0" * 32
            )
        },
    ),
}

PARSERS: dict[str, Parser] = {**_MQTT, **_HTTP, **_COAP, **_MEMBERS}


# -- counting --------------------------------------------------------------------------------------


def lines(run: Callable[[bytes], object], data: bytes, most: int = 1 << 40) -> int:
    """How many lines of Python are carried out for an input; it is given up beyond ``most``."""
    count = 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            if count > most:
                raise _TooMuchError
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        run(data)
    except (ValueError, _TooMuchError):
        pass
    except Exception as error:  # what a parser of another project refuses with
        if not type(error).__module__.startswith(("h11", "websockets", "gateway", "coap_engine")):
            raise
    finally:
        sys.settrace(before)
    return count


class _TooMuchError(BaseException):
    """Enough has been counted."""


def seconds(run: Callable[[bytes], object], data: bytes) -> float:
    """Processor time for an input."""
    begun_s = time.process_time()
    with contextlib.suppress(Exception):  # it is the time that counts
        run(data)
    return time.process_time() - begun_s


# -- a search for what is slow ---------------------------------------------------------------------

CHANGED = ", changed"


@dataclass(slots=True)
class Slowest:
    """The input of a parser that cost most.

    Attributes:
        shape: what it was made of.
        data: it.
        cost_s: processor time.

    """

    shape: str = ""
    data: bytes = b""
    cost_s: float = 0.0

    @property
    def ns_per_byte(self) -> float:
        return self.cost_s * 1e9 / max(1, len(self.data))


def searched(parser: Parser, for_s: float, chance: random.Random) -> Slowest:
    """Begin with the shapes at their largest, and go on with changes of what cost most."""
    slowest = Slowest()
    for name, shape in parser.shapes.items():
        _tried(parser, name, shape(parser.most_bytes), slowest)
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        name = f"{slowest.shape.removesuffix(CHANGED)}{CHANGED}"
        _tried(parser, name, _changed(slowest.data, chance), slowest)
    return slowest


def _tried(parser: Parser, name: str, data: bytes, slowest: Slowest) -> None:
    data = data[: parser.most_bytes]
    cost_s = seconds(parser.run, data)
    if cost_s > 1.1 * slowest.cost_s:
        # Once more: a page fault or another process may have been in the way.
        cost_s = min(cost_s, seconds(parser.run, data))
        if cost_s > slowest.cost_s:
            slowest.shape, slowest.data, slowest.cost_s = name, data, cost_s


def _changed(data: bytes, chance: random.Random) -> bytes:
    """A piece of it again, elsewhere, cut out, or a byte of it another one."""
    at, size = chance.randrange(len(data) or 1), 1 << chance.randrange(12)
    piece, where = data[at : at + size], chance.randrange(len(data) or 1)
    match chance.randrange(4):
        case 0:
            return data[:where] + piece * chance.randrange(1, 64) + data[where:]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[:where] + piece + data[where + len(piece) :]
        case _:
            return data[:at] + bytes((chance.randrange(256),)) + data[at + 1 :]


def report(for_s: float, names: Iterable[str] = PARSERS, seed: int = 1) -> list[str]:
    """What each parser costs at worst, as lines of a table, the dearest first."""
    chance = random.Random(seed)
    names = list(names)
    found = [(name, searched(PARSERS[name], for_s / len(names), chance)) for name in names]
    found.sort(key=lambda one: -one[1].cost_s)
    return [
        f"{name:32} {PARSERS[name].who:9} {slowest.cost_s * 1e3:9.2f} ms "
        f"{slowest.ns_per_byte:8.0f} ns/byte {len(slowest.data):9} bytes  {slowest.shape}"
        for name, slowest in found
    ]
