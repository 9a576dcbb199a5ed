"""Records of a directory's journal as they stand on the disk, whatever they say."""

from __future__ import annotations

import struct
import zlib

import msgpack


def record(content: object) -> bytes:
    """Write a record: the mark, the length and the checksum, and MessagePack behind them."""
    body: bytes = msgpack.packb(content)
    return struct.pack("!4sII", b"\xa5RD1", len(body), zlib.crc32(body)) + body
