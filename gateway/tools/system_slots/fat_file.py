"""Place of a small file's bytes on a FAT16 file system (Microsoft FAT specification 1.03).

Pure: it is given what reads. So ``autoboot.txt`` is written anew within its one sector, and no
table and no folder of its file system is touched: there is nothing that a power cut leaves half.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from gateway.tools.system_slots.slots import SystemSlotError

SECTOR_BYTES = 512
_ENTRY_BYTES = 32
_VOLUME_LABEL, _FOLDER = 0x08, 0x10
_FIRST_CLUSTER = 2
_MOST_ENTRIES = 4096

ReadAt = Callable[[int, int], bytes]
"""Reads so many bytes from there."""


def offset_of(read_at: ReadAt, name: str, size_bytes: int) -> int:
    """Return where a file begins that is within one sector and in the first folder.

    Args:
        read_at: reads the partition.
        name: with at most eight letters before the dot, and three behind it.
        size_bytes: what its size has to be.

    Raises:
        SystemSlotError: this is no FAT16, there is no such file, or it has another size.

    """
    boot = read_at(0, SECTOR_BYTES)
    if len(boot) < SECTOR_BYTES or boot[510:512] != b"\x55\xaa" or boot[54:59] != b"FAT16":
        raise SystemSlotError("the first partition has no FAT16 file system: no card of ours")
    numbers: tuple[int, ...] = struct.unpack_from("<HBHBH", boot, 11)
    sector_bytes, cluster_sectors, reserved, tables, entries = numbers
    table_sectors = int.from_bytes(boot[22:24], "little")
    if sector_bytes != SECTOR_BYTES or not cluster_sectors or not 0 < entries <= _MOST_ENTRIES:
        raise SystemSlotError("the first partition's FAT16 has numbers that are not ours")
    folder = (reserved + tables * table_sectors) * SECTOR_BYTES
    data = folder + -(-entries * _ENTRY_BYTES // SECTOR_BYTES) * SECTOR_BYTES
    stem, _, ending = name.upper().partition(".")
    wanted = stem.ljust(8).encode() + ending.ljust(3).encode()
    listed = read_at(folder, entries * _ENTRY_BYTES)
    for at in range(0, len(listed) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        entry = listed[at : at + _ENTRY_BYTES]
        if entry[0] == 0:
            break
        if entry[:11] != wanted or entry[11] & (_VOLUME_LABEL | _FOLDER):
            continue
        cluster = int.from_bytes(entry[26:28], "little")
        size = int.from_bytes(entry[28:32], "little")
        if size != size_bytes:
            raise SystemSlotError(f"{name} has {size} bytes, and ours {size_bytes}")
        if cluster < _FIRST_CLUSTER:
            raise SystemSlotError(f"{name} is at no place of its own")
        return data + (cluster - _FIRST_CLUSTER) * cluster_sectors * SECTOR_BYTES
    raise SystemSlotError(f"the first partition has no {name}: no card of ours")
