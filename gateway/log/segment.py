"""One segment of the message log: what it holds, and the index that tells so at a start."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgpack

from gateway.log.pages import Pages
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers, unpack_numbers

_CRC_BYTES: Final = 4


@dataclass(slots=True)
class Segment:
    """A file of the log.

    Attributes:
        path: the file.
        start: the position of its first byte over all segments.
        length: bytes of whole batches.
        holds: numbers in it, of logged messages and statements, by stream.
        control: where its batches between gateways start.
        pages: where numbers stand in it; None if that is not known, as after a start.

    """

    path: Path
    start: int
    length: int = 0
    holds: dict[Epoch, Intervals] = field(default_factory=dict)
    control: list[int] = field(default_factory=list)
    pages: Pages | None = field(default_factory=Pages)

    def note(self, at: int, header: Header) -> None:
        """Take a batch that stands at a position into account."""
        self.length = at + header.end
        if header.control and not header.passed:
            self.control.append(at)
        if header.numbered:
            key = header.stream
            held = self.holds.get(key)
            if held is None:
                held = self.holds[key] = Intervals()
            held.add(header.first, header.last)
            if self.pages is not None:
                self.pages.note(at, header)

    def stretches(self, key: Epoch, ranges: Intervals) -> list[tuple[int, int]]:
        """From where to where it must be read for some numbers of a stream."""
        if self.pages is None:
            return [(0, self.length)]
        return list(self.pages.stretches(key, ranges, self.length))

    def index(self, ever: Mapping[Epoch, Intervals]) -> bytes:
        """What a start needs to know of it, and all numbers that the log had up to its end."""
        numbers = pack_numbers(self.holds), pack_numbers(ever)
        packed: bytes = msgpack.packb([self.start, self.length, self.control, *numbers])
        # It is not synced: after a power cut a part of it may be zeros.
        return zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") + packed

    def read_index(self, data: bytes) -> dict[Epoch, Intervals]:
        """Take over an index; return all numbers that the log had up to its end.

        Raises:
            ValueError: it is damaged, of another segment, or says what can't be.

        """
        packed = data[_CRC_BYTES:]
        if zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") != data[:_CRC_BYTES]:
            raise ValueError("index")
        try:
            start, length, control, holds_packed, ever = msgpack.unpackb(packed)
            holds, found = unpack_numbers(holds_packed), unpack_numbers(ever)
            is_ours = (start, length) == (self.start, self.path.stat().st_size)
            if not is_ours or any(not 0 <= at < length for at in control):
                raise ValueError("index")
            for stream, numbers in holds.items():
                if any(found.get(stream, Intervals()).missing(*part) for part in numbers):
                    raise ValueError("index")
        except (TypeError, msgpack.UnpackException) as error:
            raise ValueError("index") from error
        self.length, self.control, self.holds = length, control, holds
        self.pages = None
        return found
