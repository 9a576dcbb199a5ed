"""Parsers of what gateways say to each other."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import msgpack
from parser_cost import MEMBER, STRANGER, Parser, Shape

from gateway.coap.remote.multi_status import resolved
from gateway.node.links.handshake import NONCE_BYTES, Acceptor, Credentials, Dialler
from gateway.node.links.wire import MAX_UNAUTHENTICATED_BYTES
from gateway.node.signing import certificate_part, revocation_part
from gateway.node.signing.former_keys import MAX_STATEMENT_BYTES, KeyStatement
from tree_handler import batch, origin_clocks
from tree_handler.discovery import MAGIC, MAX_ANNOUNCEMENT_BYTES, Announcement
from tree_handler.members import suspicion
from tree_handler.members.absence import MAX_NOTICE_BYTES, AbsenceNotice
from tree_handler.members.member import MAX_RECORD_BYTES, MemberRecord
from tree_handler.overlays import wire as overlay_wire
from tree_handler.remote.message import MAX_MESSAGE_BYTES as QUERY_BYTES
from tree_handler.remote.message import Answer, Query
from tree_handler.remote.resource import MAX_PAYLOAD_BYTES
from tree_handler.replication import ranges_wire
from tree_handler.replication.repair import Request as RepairRequest
from tree_handler.replication.repair import SearchResult, Seek, Summary
from tree_handler.retained import sync_wire
from tree_handler.routing import direct, interest, locator, wire
from tree_handler.spanning.bpdu import MAX_BYTES as BPDU_BYTES
from tree_handler.spanning.bpdu import Bpdu

MESSAGE_BYTES = 1 << 20
"""Of a message that may have a batch in it, or a message of a client, and is larger then."""


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


def _clocks(data: bytes) -> object:
    clocks = origin_clocks.OriginClocks(("own", 1))
    clocks.link_up(1, ("peer", 1))
    clocks.heard(1, origin_clocks.unpack(data), 1)
    return clocks.news(1, 2)


def _interest(data: bytes) -> object:
    index: interest.Interests = interest.Interests("own")
    return index.update(interest.Interest.decode(data))


def _acceptor() -> Acceptor:
    """Return the end of a link that a gateway has dialled and has yet to prove itself at."""
    dialler, own = (Credentials(name, "t", b"k" * 32) for name in ("gw-a", "gw-b"))
    nonce = bytes(NONCE_BYTES)
    return Acceptor(own, nonce, Dialler(dialler, nonce).connect)


MEMBERS: dict[str, Parser] = {
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
        ranges_wire.MAX_BYTES,
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
        ranges_wire.MAX_BYTES,
        {
            "streams": _packed(_streams),
            "backwards": _packed(lambda n: [["a", 1, _ranges(n)[::-1]]]),
        },
    ),
    "seek": Parser(
        Seek.decode,
        MEMBER,
        ranges_wire.MAX_BYTES,
        {"streams": _packed(lambda n: ["a", 1, 1, _streams(n)])},
    ),
    "sought": Parser(
        SearchResult.decode,
        MEMBER,
        ranges_wire.MAX_BYTES,
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
            "filters": lambda _: msgpack.packb(_record(subscribes=[f"a/{i}" for i in range(512)])),
            "levels": lambda _: msgpack.packb(
                _record(subscribes=[f"{i}" + "/" * 31 for i in range(512)])
            ),
            "topics": _packed(
                lambda n: _record(publishes=[f"{i}" + "/" * (n // 512) for i in range(512)])
            ),
        },
    ),
    "what is behind": Parser(
        locator.ReachUpdate.decode,
        MEMBER,
        locator.MAX_BYTES,
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
        QUERY_BYTES,
        {"keys": _packed(lambda n: {str(i): 0 for i in range(n)})},
    ),
    "clocks": Parser(
        _clocks,
        MEMBER,
        origin_clocks.SIZE.bytes_max,
        {"lives": _packed(lambda n: [[f"g{i}", 1, 1, True] for i in range(min(n, 1_000))])},
    ),
    "certificates": Parser(
        certificate_part.unpack_message,
        MEMBER,
        certificate_part.SIZE.bytes_max,
        {"fingerprints": _packed(lambda n: [0, [bytes(16)] * min(n, 1_000)])},
    ),
    "revocations": Parser(
        revocation_part.unpack_message,
        MEMBER,
        revocation_part.SIZE.bytes_max,
        {"rows": lambda _: msgpack.packb([0, [[bytes(16), bytes(20), 1]] * 16])},
    ),
    "former keys": Parser(
        KeyStatement.of,
        MEMBER,
        MAX_STATEMENT_BYTES,
        {"keys": _packed(lambda n: [msgpack.packb(["g", 1, [[b"", 0, 0, []]] * n]), bytes(64)])},
    ),
    "message for one gateway": Parser(
        direct.DirectMessage.decode,
        MEMBER,
        direct.SIZE.bytes_max,
        {"payload": _packed(lambda n: ["g", 1, "t", bytes(n)])},
    ),
    "gateways asked for": Parser(
        suspicion.Question.decode,
        MEMBER,
        suspicion.SIZE.bytes_max,
        {"ids": _packed(lambda n: [f"g{i}" for i in range(min(n, 256))])},
    ),
    "absence": Parser(
        AbsenceNotice.decode,
        MEMBER,
        MAX_NOTICE_BYTES,
        {"fields": _packed(lambda n: [0] * n)},
    ),
    "answer": Parser(
        Answer.decode,
        MEMBER,
        QUERY_BYTES,
        {"keys": _packed(lambda n: {str(i): 0 for i in range(n)})},
    ),
    "records of an answer": Parser(
        lambda data: resolved(data, "g"),
        MEMBER,
        MAX_PAYLOAD_BYTES,
        {
            "records": lambda size: b"[" + b",".join([b"{}"] * (size // 3 - 1)) + b"]",
            "values": lambda size: b"[" + b",".join([b'{"v":1}'] * (size // 8 - 1)) + b"]",
            "names": lambda size: (
                b'[{"bn":"' + b"a" * (size // 2) + b'"}' + b',{"v":1}' * (size // 16 - 2) + b"]"
            ),
        },
    ),
    "proof of a link": Parser(
        _acceptor().receive,
        STRANGER,
        MAX_UNAUTHENTICATED_BYTES,
        {"fields": _packed(lambda n: [0] * n)},
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


# -- what no honest gateway sends ------------------------------------------------------------------


def _array(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")


def _lists_of(one: bytes, count: int, size: int) -> bytes:
    """A list of lists, each of which has so many of one element."""
    inner = _array(count) + one * count
    return _array(size // len(inner)) + inner * (size // len(inner))


HOSTILE: dict[str, Shape] = {
    "empty lists": lambda size: _array(size - 5) + b"\x90" * (size - 5),
    "numbers": lambda size: _array(size - 5) + bytes(size - 5),
    "many short lists": lambda size: _lists_of(b"\x91\0", 1_000, size),
    "many maps": lambda size: _lists_of(b"\x81\xa0\0", 1_000, size),
    "lists in lists": lambda _: _array(10_000) * 1_000 + bytes(20_000),
}
"""msgpack that makes the most of each byte."""


def in_batch(packed: bytes) -> bytes:
    """The same as a batch's body, in which a message has it in its properties."""
    row = msgpack.packb([["t", 0, b"", {38: None}]], use_bin_type=True)
    assert row[-1:] == b"\xc0"
    body = row[:-1] + packed
    name = b"gw"
    rest = struct.pack(">IQIQB", 1, 1, 1, 0, len(name)) + name + body
    crc = zlib.crc32(rest, zlib.crc32(b"\1"))
    return batch.FRAME.pack(batch.MAGIC, batch.VERSION, 1, len(rest), crc) + rest


TOPICS: dict[bytes, tuple[str, ...]] = {
    b"$hedgerow/batch": ("batch",),
    b"$hedgerow/repair": ("batch",),
    b"$hedgerow/summary": ("summary",),
    b"$hedgerow/request": ("repair request",),
    b"$hedgerow/done": (),  # nothing in it is read
    b"$hedgerow/seek": ("seek",),
    b"$hedgerow/sought": ("sought",),
    b"$hedgerow/behind": ("what is behind",),
    b"$hedgerow/routed": ("routed message",),
    b"$hedgerow/overlay": ("overlays",),
    b"$hedgerow/retained": ("retained topics",),
    b"$hedgerow/retained/sent-at": ("retained topics",),
    b"$hedgerow/to": ("message for one gateway",),
    b"$hedgerow/clocks": ("clocks",),
    b"$hedgerow/certificates": ("certificates",),
    b"$hedgerow/revocations": ("revocations",),
}
"""The parsers that read the messages of each topic of a link."""
