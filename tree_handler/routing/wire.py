"""Messages between gateways in routed mode (C4), and their wire form.

As in BIER (RFC 8279) a message names the gateways that it is for; whoever is on the way splits
that list by its links and keeps nothing. Each is a msgpack array: its kind, how many gateways it
may still pass, and what the kind says. Behind that of a `Carry` stand the batch's own bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import MAX_FRAME_BYTES, MAX_NUMBER, Epoch
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.members.place import check_name
from tree_handler.proof import MAX_SIGNATURE_BYTES
from tree_handler.routing.locator import MAX_BEHIND
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack, unpack_head

TOPIC: Final = b"$hedgerow/routed"
MAX_HOPS: Final = 255
"""Gateways that a message passes at most, as a datagram's time to live."""
MAX_RANGES: Final = 256
"""Ranges in one message."""
SIZE: Final = MessageSize(
    MAX_FRAME_BYTES + (1 << 20), 5 * MAX_BEHIND + 6 * MAX_RANGES + LATER_ELEMENTS, MAX_BEHIND
)
"""A list of gateways with two numbers for each, or two of ranges, and a batch behind it."""

Pairs = tuple[tuple[str, int], ...]
"""Gateways, and for each a number of the stream."""
Claimed = tuple[str, int, int]
"""A gateway, a number of the stream, and which of the gateway's requests was answered last."""


@dataclass(slots=True)  # not frozen: one is made for each batch and link
class Carry:
    """A batch for these gateways.

    Attributes:
        to: each with the number that was the last one for it before this batch; whatever is
            between is not for it.
        frame: the bytes of the batch.
        is_repair: it was asked for.
        overlay: the overlay that it travels in; empty for the common tree.
        listed: all that the batch was for, as `pack_pairs` has them, where these are a part of
            them and the batch is sealed for the whole list.

    """

    to: Pairs
    frame: bytes
    is_repair: bool = False
    overlay: bytes = b""
    listed: bytes = b""

    def encode(self, hops: int = MAX_HOPS) -> bytes:
        """Return the wire form."""
        row = (0, hops, self.overlay, self.is_repair, self.to)
        return _pack(*row, self.listed) + self.frame if self.listed else _pack(*row) + self.frame

    def whole_list(self) -> bytes:
        """Return all that the batch was for, as `pack_pairs` has them."""
        return self.listed or pack_pairs(self.to)


@dataclass(frozen=True, slots=True)
class Claim:
    """An origin says which number of a stream was the last one for each of these gateways.

    It travels behind all batches that were sent before it.

    Attributes:
        stream: of its clients' messages.
        last: the last number that it has accepted at all.
        to: each with the last number for it, and the number of its last request that was answered
            (`Ask.number`).

    """

    stream: Epoch
    last: int
    to: tuple[Claimed, ...]
    seal: bytes = b""

    def encode(self, hops: int = MAX_HOPS) -> bytes:
        """Return the wire form."""
        return _word(1, hops, self.seal, *self.stream, self.last, self.to)

    @property
    def sayer(self) -> str:
        """Return the id of the gateway that says it."""
        return self.stream[0]


@dataclass(frozen=True, slots=True)
class Tell:
    """An origin's last word on a request: what was not sent, and why.

    Attributes:
        to: who asked.
        stream: of the origin's clients' messages.
        last: the last number that was accepted.
        tail: the last number for that gateway.
        passed: numbers that are not for it.
        gone: numbers that are, and that the log does not have any more.
        number: of the request.

    """

    to: str
    stream: Epoch
    last: int
    tail: int
    passed: Intervals
    gone: Intervals
    number: int = 0
    seal: bytes = b""

    def encode(self, hops: int = MAX_HOPS) -> bytes:
        """Return the wire form."""
        ranges = list(self.passed), list(self.gone)
        said = (self.to, *self.stream, self.last, self.tail, *ranges, self.number)
        return _word(2, hops, self.seal, *said)

    @property
    def sayer(self) -> str:
        """Return the id of the gateway that says it."""
        return self.stream[0]


@dataclass(frozen=True, slots=True)
class Ask:
    """A gateway asks a stream's origin for what it lacks.

    Attributes:
        stream: of the origin's clients' messages.
        asker: who asks.
        ranges: what it lacks.
        number: one higher at each of its requests; it is repeated with a request that may be lost.

    """

    stream: Epoch
    asker: str
    ranges: Intervals
    number: int = 0
    seal: bytes = b""

    def encode(self, hops: int = MAX_HOPS) -> bytes:
        """Return the wire form."""
        said = (*self.stream, self.asker, list(self.ranges), self.number)
        return _word(3, hops, self.seal, *said)

    @property
    def sayer(self) -> str:
        """Return the id of the gateway that says it."""
        return self.asker


@dataclass(frozen=True, slots=True)
class Ack:
    """A gateway tells a stream's origin that it has all that is for it, up to a number."""

    stream: Epoch
    gateway_id: str
    covered: int
    seal: bytes = b""

    def encode(self, hops: int = MAX_HOPS) -> bytes:
        """Return the wire form."""
        return _word(4, hops, self.seal, *self.stream, self.gateway_id, self.covered)

    @property
    def sayer(self) -> str:
        """Return the id of the gateway that says it."""
        return self.gateway_id


Word = Claim | Tell | Ask | Ack
RoutingMessage = Carry | Word


def signed_part(word: Word) -> bytes:
    """Return what a word's seal is of: all that it says, and nothing that changes on its way."""
    return replace(word, seal=b"").encode(0)


def pack_pairs(pairs: Pairs) -> bytes:
    """Return whom a batch is for, as bytes that are the same everywhere."""
    return _pack(*pairs)


def decode(data: bytes) -> tuple[RoutingMessage, int]:
    """Read a message, and how many gateways it may still pass.

    Raises:
        ProtocolError: not a message of this version, or over a limit.

    """
    row, end = unpack_head("routed message", data, SIZE)
    if not isinstance(row, tuple) or len(row) < 2:
        raise ProtocolError("routed message", row)
    kind, hops, *fields = row
    if not isinstance(kind, int) or (kind, len(fields)) not in _FIELDS:
        raise ProtocolError("routed message", row)
    if not isinstance(hops, int) or not 0 <= hops <= MAX_HOPS:
        raise ProtocolError("routed hops", hops)
    if kind != 0 and end != len(data):
        raise ProtocolError("routed message followed by other bytes", len(data))
    if kind == 0:
        overlay, is_repair, to, *listed = fields
        if not isinstance(overlay, bytes) or len(overlay) > 64 or not isinstance(is_repair, bool):
            raise ProtocolError("routed overlay", overlay)
        whole = listed[0] if listed else b""
        if not isinstance(whole, bytes):
            raise ProtocolError("routed list", whole)
        return Carry(_pairs(to), data[end:], is_repair, overlay, whole), hops
    seal = fields.pop() if len(fields) > _WORD_FIELDS[kind] else b""
    if not isinstance(seal, bytes) or len(seal) > MAX_SIGNATURE_BYTES:
        raise ProtocolError("routed seal", seal)
    return _control(kind, fields, seal), hops


def before_in(listed: bytes, gateway_id: str) -> int | None:
    """Return the number of a gateway in a list that `pack_pairs` made.

    It is None if the gateway is not in it, or if it is no list: whoever sealed it, those on the way
    are not to blame.
    """
    try:
        return dict(_pairs(unpack("routed list", listed, SIZE, tuples=True))).get(gateway_id)
    except ProtocolError:
        return None


_WORD_FIELDS = {1: 4, 2: 8, 3: 5, 4: 4}
_FIELDS = frozenset(((0, 3), (0, 4))).union(
    *(((kind, count), (kind, count + 1)) for kind, count in _WORD_FIELDS.items())
)


def _control(kind: int, fields: list[Any], seal: bytes) -> Word:
    if kind == 1:
        return Claim(_stream(*fields[:2]), _number(fields[2]), _claimed(fields[3]), seal)
    if kind == 2:
        to, origin, epoch, last, tail, passed, gone, number = fields
        name = check_name("routed destination", to)
        ranges = _ranges(passed), _ranges(gone)
        numbers = _number(last), _number(tail)
        return Tell(name, _stream(origin, epoch), *numbers, *ranges, _number(number), seal)
    if kind == 3:
        origin, epoch, asker, wanted, number = fields
        name = check_name("routed sender", asker)
        return Ask(_stream(origin, epoch), name, _ranges(wanted), _number(number), seal)
    origin, epoch, sender, covered = fields
    name = check_name("routed sender", sender)
    return Ack(_stream(origin, epoch), name, _number(covered), seal)


def _word(kind: int, hops: int, seal: bytes, *said: Any) -> bytes:
    return _pack(kind, hops, *said, seal) if seal else _pack(kind, hops, *said)


def _pack(*row: Any) -> bytes:
    packed: bytes = msgpack.packb(row)
    return packed


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise ProtocolError("routed number", value)
    return value


def _stream(origin: object, epoch: object) -> Epoch:
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 < epoch <= MAX_BOOT_EPOCH:
        raise ProtocolError("routed epoch", epoch)
    return check_name("routed origin", origin), epoch


def _pairs(rows: object) -> Pairs:
    return tuple(
        (check_name("routed destination", row[0]), _number(row[1]))
        for row in _destinations(rows, 2)
    )


def _claimed(rows: object) -> tuple[Claimed, ...]:
    return tuple(
        (check_name("routed destination", row[0]), _number(row[1]), _number(row[2]))
        for row in _destinations(rows, 3)
    )


def _destinations(rows: object, size: int) -> Iterator[tuple[Any, ...]]:
    if not isinstance(rows, tuple) or not 0 < len(rows) <= MAX_BEHIND:
        raise ProtocolError("routed destinations", rows)
    for row in rows:
        if not isinstance(row, tuple) or len(row) != size:
            raise ProtocolError("routed destination", row)
        yield row


def first_of(ranges: Intervals) -> Intervals:
    """Return as many ranges as one message holds; the rest is asked for again."""
    return Intervals(list(ranges)[:MAX_RANGES])


def _ranges(rows: object) -> Intervals:
    if not isinstance(rows, tuple) or len(rows) > MAX_RANGES:
        raise ProtocolError("routed ranges", rows)
    ranges = Intervals()
    for row in rows:
        if not isinstance(row, tuple) or len(row) != 2:
            raise ProtocolError("routed range", row)
        first, last = [_number(number) for number in row]
        if not 0 < first <= last:
            raise ProtocolError("routed range", row)
        ranges.add(first, last)
    return ranges
