"""Index beside a sealed segment: which numbers it holds, so that a start need not read it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import field
from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers, unpack_numbers

SUFFIX: Final = ".index"
_CRC_BYTES: Final = 4
_NOTHING: Final = Intervals()

IndexedNumbers = Mapping[Epoch, Intervals]


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """The index of one segment of the log.

    Attributes:
        start: the position of its first byte over all segments.
        length: its bytes.
        control: where its batches between gateways start.
        holds: numbers in it, by stream.
        ever: all numbers that the log had up to its end.
        lost: of them, what damage took, as releases before the log's `trimmed` noted it.

    """

    start: int
    length: int
    control: list[int]
    holds: dict[Epoch, Intervals]
    ever: IndexedNumbers
    lost: IndexedNumbers = field(default_factory=dict)

    def pack(self) -> bytes:
        """Make the bytes of the file."""
        numbers = [pack_numbers(one) for one in (self.holds, self.ever, self.lost)]
        packed: bytes = msgpack.packb([self.start, self.length, self.control, *numbers])
        # It is not synced: after a power cut a part of it may be zeros.
        return zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") + packed

    @staticmethod
    def unpack(data: bytes) -> SegmentIndex:
        """Read what `pack` made.

        Raises:
            ValueError: it is damaged, or says what can't be.

        """
        packed = data[_CRC_BYTES:]
        if zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") != data[:_CRC_BYTES]:
            raise ValueError("index")
        try:
            start, length, control, holds_packed, ever_packed, *more = msgpack.unpackb(packed)
            holds, ever = unpack_numbers(holds_packed), unpack_numbers(ever_packed)
            lost = unpack_numbers(more[0]) if more else {}
            if any(not 0 <= at < length for at in control):
                raise ValueError("index")
        except (TypeError, msgpack.UnpackException) as error:
            raise ValueError("index") from error
        for stream, numbers in holds.items():
            if any(ever.get(stream, _NOTHING).missing(*part) for part in numbers):
                raise ValueError("index")
        return SegmentIndex(start, length, control, holds, ever, lost)
