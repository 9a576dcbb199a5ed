"""The batch: one unit for log, wire and spool.

What a gateway accepts in one turn of its loop becomes one batch. Its bytes are made once, at
the origin, and never rewritten: the log appends them, links carry them, repair sends them
again, the collector's spool holds them and Spark decodes them.

Layout, big-endian::

    magic "HB" | version u8 | flags u8 | length u32 | crc u32          the frame, 12 bytes
    epoch u32 | first_sequence u64 | count u32 | origin_time_us u64    what stands behind it
    | origin_length u8 | origin | body | seal                          is `length` bytes

``crc`` is the CRC-32 of flags (one byte) and of all that stands behind the frame. ``body`` is
a msgpack array with an entry for each message; entry ``i`` has sequence
``first_sequence + i``. All that de-duplication, repair and the ledger need stands in the
header, so a gateway on the way never decodes a body that no local client asked for. ``seal`` is
there if `Flags.SEALED` says so: what proves who made the batch, and behind it one byte that says
how long that is (`tree_handler.seal`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final

import msgspec

from light_dataclasses import dataclass
from tree_handler.batch_body import MAX_ARRAY, MAX_ENTRIES, rows_of
from tree_handler.entry import Entry, Row, row_size
from tree_handler.errors import BatchError
from tree_handler.flags import ADDRESS_BYTES, Flags

__all__ = ["MAX_ARRAY", "MAX_ENTRIES", "Entry", "Flags", "Row"]  # the others are its own

MAGIC: Final = b"HB"
VERSION: Final = 1
FRAME: Final = struct.Struct(">2sBBII")
_HEAD: Final = struct.Struct(">IQIQB")
MAX_BODY_BYTES: Final = 256 * 1024
"""A batch is cut at so many bytes of messages; a larger message is a batch of its own."""
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""No batch is larger: a length field beyond it is damage or malice."""

Epoch = tuple[str, int]
"""A sequence of numbers: an origin's gateway id and its boot epoch; see `Header.stream`."""
Ref = tuple[Epoch, int]
"""Reference to a logged message: origin and epoch of its batch, and its number there."""
CONTROL_PREFIX: Final = "$"
"""The first character of the name of an origin's control stream; no gateway id begins with it."""

NOTE_PREFIX: Final = "!"
"""The first character of notes about an origin: no stream of messages, and never on a link."""

MAX_NUMBER: Final = (1 << 62) - 1
"""Of a message: more than anybody counts to, and room behind it for sums in 64 bits with a sign."""
MAX_PASSED: Final = (1 << 32) - 1
"""Numbers that one statement can pass over."""

_pack: Final = msgspec.msgpack.Encoder().encode


Seal = Callable[[int, bytes], bytes]
"""Makes the seal of flags and of all that stands between frame and seal."""


@dataclass(slots=True)  # not frozen: one is made for each batch, which may hold a single message
class Header:
    """The header of a batch: all that is known without decoding its body; nothing changes one.

    Attributes:
        origin: gateway id of the origin.
        epoch: the origin's boot epoch.
        first: sequence number of the first message.
        count: how many messages.
        flags: see `Flags`.
        origin_time_us: the origin's wall clock, microseconds since 1970.
        body_at: where the body starts in the frame.
        end: where the frame ends (its length in bytes).
        seal_bytes: how long its seal is, which stands last; 0 without one.
        last: sequence number of the last message.
        control: whether the messages are between gateways.
        local: whether it stays in this gateway's log.
        numbered: whether its numbers count in its stream: of logged messages, or of a statement.
        stream: the sequence that the numbers of a logged message are of, and apart those of others:
            ``(origin, epoch)`` for clients' messages; ``("$" + origin, epoch)`` for those between
            gateways, which go to all even where clients' do not.

    """

    origin: str
    epoch: int
    first: int
    count: int
    flags: int
    origin_time_us: int
    body_at: int
    end: int
    seal_bytes: int = 0
    # Asked for many times on the way of each batch, so they are made once.
    last: int = field(init=False, repr=False, compare=False)
    control: bool = field(init=False, repr=False, compare=False)
    local: bool = field(init=False, repr=False, compare=False)
    numbered: bool = field(init=False, repr=False, compare=False)
    stream: Epoch = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        flags, origin = self.flags, self.origin
        self.last = self.first + self.count - 1
        self.control = flags & Flags.CONTROL != 0
        self.local = flags & Flags.LOCAL != 0
        self.numbered = flags & Flags.NUMBERED != 0
        self.stream = (CONTROL_PREFIX + origin if self.control else origin, self.epoch)

    @property
    def logged(self) -> bool:
        """Return whether the messages are in the origin's log and numbered without gaps."""
        return bool(self.flags & Flags.LOGGED)

    @property
    def passed(self) -> bool:
        """Return whether it states numbers that are not for whoever reads it (`passed`)."""
        return bool(self.flags & Flags.PASSED)

    @property
    def clients(self) -> bool:
        """Return whether it is of a stream of clients' logged messages: some, or a statement."""
        return self.numbered and not (self.control or self.origin.startswith(NOTE_PREFIX))

    def __str__(self) -> str:
        name, epoch = self.stream
        kind = "passed" if self.passed else "logged" if self.logged else "QoS 0"
        return f"batch {name}/{epoch} {kind} {self.first}..{self.last}"


def encode(
    origin: str,
    epoch: int,
    first: int,
    entries: Iterable[Entry],
    *,
    flags: int,
    origin_time_us: int,
) -> bytes:
    """Return the bytes of a batch; see `make`."""
    rows = [entry.row() for entry in entries]
    return make(origin, epoch, first, rows, flags=flags, origin_time_us=origin_time_us)[0]


def make(
    origin: str,
    epoch: int,
    first: int,
    rows: Sequence[Row],
    *,
    flags: int,
    origin_time_us: int,
    seal: Seal | None = None,
    address: bytes = b"",
) -> tuple[bytes, Header]:
    """Make a batch: its bytes and its header.

    What stays in its gateway is not sealed: nobody else is to believe it. An ``address`` of
    `ADDRESS_BYTES` is sealed with it.

    Raises:
        BatchError: if there is no message, or the batch would be over `MAX_FRAME_BYTES`.

    """
    if not rows:
        raise BatchError("batch without entries")
    name = origin.encode()
    count = len(rows)
    rest = _HEAD.pack(epoch, first, count, origin_time_us, len(name)) + name + _pack(rows)
    seal_bytes = 0
    if seal is not None:
        flags, rest, seal_bytes = _sealed(flags, rest, seal, address)
    if FRAME.size + len(rest) > MAX_FRAME_BYTES:
        raise BatchError("batch too large, bytes", len(rest))
    body_at = FRAME.size + _HEAD.size + len(name)
    end = FRAME.size + len(rest)
    header = Header(origin, epoch, first, count, flags, origin_time_us, body_at, end, seal_bytes)
    return framed(flags, rest), header


def _sealed(flags: int, rest: bytes, seal: Seal, address: bytes) -> tuple[int, bytes, int]:
    if flags & Flags.LOCAL:
        return flags, rest, 0
    flags |= Flags.SEALED | Flags.ADDRESSED if address else Flags.SEALED
    proof = address + seal(flags, rest + address)
    return flags, rest + proof, len(proof)


def framed(flags: int, rest: bytes) -> bytes:
    """Return a frame: what follows its head, with its length and CRC."""
    crc = zlib.crc32(rest, zlib.crc32(bytes((flags,))))
    frame: bytes = FRAME.pack(MAGIC, VERSION, flags, len(rest), crc) + rest
    return frame


def passed(
    stream: Epoch, first: int, last: int, flags: int = Flags.PASSED, seal: Seal | None = None
) -> tuple[bytes, Header]:
    """Make a statement: the messages ``first..last`` of a stream are not for whoever reads it.

    It is a batch without messages, so that log, wire and spool carry it as they carry those.

    Raises:
        BatchError: more than `MAX_PASSED` numbers.

    """
    origin, epoch = stream
    count = last - first + 1
    if not 0 < count <= MAX_PASSED:
        raise BatchError("numbers passed over", (first, last))
    if origin.startswith(CONTROL_PREFIX):
        origin = origin.removeprefix(CONTROL_PREFIX)
        flags |= Flags.CONTROL
    name = origin.encode()
    rest = _HEAD.pack(epoch, first, count, 0, len(name)) + name
    seal_bytes = 0
    if seal is not None:
        flags, rest, seal_bytes = _sealed(flags, rest, seal, b"")
    frame = framed(flags, rest)
    end = len(frame)
    return frame, Header(origin, epoch, first, count, flags, 0, end - seal_bytes, end, seal_bytes)


def cut(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Split messages so that each part makes a batch within `MAX_ENTRIES` and `MAX_BODY_BYTES`."""
    if len(rows) == 1:
        return [rows]
    parts: list[Sequence[Row]] = []
    for at in range(0, len(rows), MAX_ENTRIES):
        part = rows[at : at + MAX_ENTRIES]
        # Most have a topic and a payload alone; a call for each would cost more than its sum.
        sizes = [len(row[0]) + len(row[2]) if len(row) == 3 else row_size(row) for row in part]
        start = 0
        if sum(sizes) > MAX_BODY_BYTES:
            size = 0
            for i, row_bytes in enumerate(sizes):
                if i > start and size + row_bytes > MAX_BODY_BYTES:
                    parts.append(part[start:i])
                    start, size = i, 0
                size += row_bytes
        parts.append(part[start:] if start else part)
    return parts


def check(data: bytes | memoryview, at: int = 0) -> Header:
    """Read the header of the batch that starts at ``at`` and check its CRC.

    Raises:
        BatchError: torn, corrupt, or not a batch of this version.

    """
    length = _whole(data, at)
    _, _, flags, rest_length, crc = FRAME.unpack_from(data, at)
    if rest_length < _HEAD.size:
        raise BatchError("batch too short, bytes", rest_length)
    rest = memoryview(data)[at + FRAME.size : at + length]
    if zlib.crc32(rest, zlib.crc32(bytes((flags,)))) != crc:
        raise BatchError("batch CRC is wrong", crc)
    return _header(data, at, length)


def _whole(data: bytes | memoryview, at: int) -> int:
    length = frame_length(data, at)
    if length is None or at + length > len(data):
        raise BatchError("batch torn, bytes", len(data) - at)
    return length


def _header(data: bytes | memoryview, at: int, length: int) -> Header:
    flags = data[at + 3]
    rest_at = at + FRAME.size
    epoch, first, count, origin_time_us, name_length = _HEAD.unpack_from(data, rest_at)
    name_at = rest_at + _HEAD.size
    seal_bytes = 0
    if flags & Flags.SEALED:
        address_bytes = ADDRESS_BYTES if flags & Flags.ADDRESSED else 0
        seal_bytes = address_bytes + data[at + length - 1] + 1
    if name_at + name_length + seal_bytes > at + length or count == 0 or first == 0:
        raise BatchError("batch header", (first, count, name_length))
    if first + count - 1 > MAX_NUMBER:
        raise BatchError("batch number", first + count - 1)
    name = bytes(data[name_at : name_at + name_length])
    try:
        origin = name.decode()
    except UnicodeDecodeError as error:
        raise BatchError("batch origin", name) from error
    if origin.startswith(CONTROL_PREFIX):  # it would pose as another's control stream
        raise BatchError("batch origin", origin)
    body_at = name_at + name_length - at
    return Header(origin, epoch, first, count, flags, origin_time_us, body_at, length, seal_bytes)


def rows(frame: bytes, header: Header) -> list[Row]:
    """Decode the messages of a batch that `check` passed, as they stand in its body.

    Raises:
        BatchError: if the body is not what an origin makes.

    """
    if header.count > MAX_ENTRIES:
        raise BatchError("batch entries", header.count)
    found = rows_of(memoryview(frame)[header.body_at : header.end - header.seal_bytes])
    if len(found) != header.count:
        raise BatchError("batch count", (header.count, len(found)))
    return found


def decode(frame: bytes, header: Header) -> list[Entry]:
    """Return the messages of a batch as entries.

    Raises:
        BatchError: as for `rows`.

    """
    return [Entry.of(row) for row in rows(frame, header)]


def frame_length(data: bytes | memoryview, at: int = 0) -> int | None:
    """Length in bytes of the frame that starts at ``at``; None if its 12 bytes are not all there.

    Raises:
        BatchError: if what starts there is no batch of this version.

    """
    if len(data) - at < FRAME.size:
        return None
    magic, version, _, rest_length, _ = FRAME.unpack_from(data, at)
    if magic != MAGIC:
        raise BatchError("batch magic", bytes(magic))
    if version != VERSION:
        raise BatchError("batch version", version)
    length = FRAME.size + int(rest_length)
    if length > MAX_FRAME_BYTES:
        raise BatchError("batch too large, bytes", length)
    return length


def frames(data: bytes | memoryview, at: int = 0) -> Iterator[tuple[int, Header]]:
    """Walk the batches of a segment: (position, header) of each whole one.

    Ends quietly where the data ends inside a frame: that is a torn tail, and what follows it
    can't be read.

    Raises:
        BatchError: at bytes that no append of ours could have left behind.

    """
    while True:
        length = frame_length(data, at)
        if length is None or at + length > len(data):
            return
        yield at, check(data, at)
        at += length
