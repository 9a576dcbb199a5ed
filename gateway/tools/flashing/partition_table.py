"""Partitions of an image: MBR, and GPT (UEFI specification 2.10, section 5).

Pure: it is given the first bytes of an image or of a disk.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from enum import Enum

from gateway.tools.flashing.errors import RefusalError
from light_dataclasses import dataclass

SECTOR_BYTES = 512
TABLE_BYTES = 1 << 20
"""As much of an image as may be asked for to find its partitions."""
BOOT_WITHIN_BYTES = 64 << 20
"""The boot partition begins before that: at 4 or 8 MiB in Raspberry Pi OS."""

_FAT_KINDS = frozenset({0x01, 0x04, 0x06, 0x0B, 0x0C, 0x0E})
_LINUX_KIND = 0x83
_PROTECTIVE_KIND = 0xEE
_FAT_GUIDS = frozenset(
    {"c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7"}
)
_LINUX_GUIDS = frozenset(
    {"0fc63daf-8483-4772-8e79-3d69d8477de4", "b921b045-1df0-41c3-af44-4c6f280d3fae"}
)
_MOST_GPT_ENTRIES = 256
_GPT_AFTER_SECTORS = 33
"""The second table and its header, behind the last partition."""


class PartitionKind(Enum):
    """A kind of partition."""

    FAT = "FAT"
    LINUX = "Linux"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Partition:
    """One of a table.

    Attributes:
        number: as the kernel counts it, from 1.
        start_bytes: where it begins on the disk.
        size_bytes: how long it is.
        kind: what the table says of it.

    """

    number: int
    start_bytes: int
    size_bytes: int
    kind: PartitionKind

    @property
    def end_bytes(self) -> int:
        """Return the byte at which the next partition may begin."""
        return self.start_bytes + self.size_bytes


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """All partitions of an image.

    Attributes:
        scheme: ``"MBR"`` or ``"GPT"``.
        partitions: in the order of the table.
        end_bytes: how large a disk has to be for them.

    """

    scheme: str
    partitions: tuple[Partition, ...]
    end_bytes: int

    @property
    def boot(self) -> Partition:
        """The first FAT partition, which a Pi's firmware starts from.

        Raises:
            RefusalError: there is none, or it begins too far behind.

        """
        for one in self.partitions:
            if one.kind is PartitionKind.FAT:
                if one.start_bytes >= BOOT_WITHIN_BYTES:
                    raise RefusalError(
                        f"no image of a Pi: its boot partition begins at {one.start_bytes} bytes"
                    )
                return one
        raise RefusalError(f"no image of a Pi: no FAT partition in its {self.scheme}")

    @property
    def root(self) -> Partition | None:
        """The first Linux partition."""
        return next((one for one in self.partitions if one.kind is PartitionKind.LINUX), None)


def parse(head: bytes) -> PartitionTable:
    """Read the table.

    Args:
        head: the first bytes of the image, `TABLE_BYTES` or all there are.

    Raises:
        RefusalError: there is none, or it contradicts itself.

    """
    if len(head) < SECTOR_BYTES or head[510:512] != b"\x55\xaa":
        raise RefusalError("no image of a disk: it begins with no partition table (MBR or GPT)")
    entries = [head[446 + 16 * n : 462 + 16 * n] for n in range(4)]
    if any(entry[4] == _PROTECTIVE_KIND for entry in entries):
        return _gpt(head)
    partitions = tuple(_of_mbr(entries))
    _check(partitions, "MBR")
    return PartitionTable("MBR", partitions, max(one.end_bytes for one in partitions))


def described(head: bytes) -> str:
    """Say what is on a disk that is to be written over; empty if its beginning is blank.

    Args:
        head: the first bytes of the disk, as `parse` takes them.

    """
    if not any(head):
        return ""
    try:
        table = parse(head)
    except RefusalError:
        return "data without a partition table"
    # Others than FAT and Linux are most often exFAT or NTFS, of cameras and PCs.
    each = (f"{one.kind.value} {one.size_bytes / 1e9:.1f} GB" for one in table.partitions)
    count = len(table.partitions)
    return f"{count} partition{'s' if count > 1 else ''} ({', '.join(each)})"


def check_boot_sector(sector: bytes) -> None:
    """Refuse what is no FAT file system (FAT specification, section 3.1).

    Args:
        sector: the first of the partition.

    Raises:
        RefusalError: it is none.

    """
    is_fat = sector[54:57] == b"FAT" or sector[82:87] == b"FAT32"
    if len(sector) < SECTOR_BYTES or sector[510:512] != b"\x55\xaa" or not is_fat:
        raise RefusalError("no image of a Pi: its first partition has no FAT file system")


def _of_mbr(entries: list[bytes]) -> Iterator[Partition]:
    for number, entry in enumerate(entries, 1):
        start, count = struct.unpack("<II", entry[8:16])
        if entry[4] and count:
            kind = PartitionKind.FAT if entry[4] in _FAT_KINDS else PartitionKind.OTHER
            if entry[4] == _LINUX_KIND:
                kind = PartitionKind.LINUX
            yield Partition(number, start * SECTOR_BYTES, count * SECTOR_BYTES, kind)


def _gpt(head: bytes) -> PartitionTable:
    header = head[SECTOR_BYTES : SECTOR_BYTES + 92]
    if len(header) < 92 or header[:8] != b"EFI PART":
        raise RefusalError("no image of a disk: its MBR promises a GPT, and there is none")
    (first_sector,) = struct.unpack("<Q", header[72:80])
    count, size = struct.unpack("<II", header[80:88])
    end = first_sector * SECTOR_BYTES + count * size
    if not 0 < count <= _MOST_GPT_ENTRIES or size not in (128, 256, 512) or end > len(head):
        raise RefusalError("no image of a disk: the GPT's header is wrong")
    partitions: list[Partition] = []
    for number in range(count):
        at = first_sector * SECTOR_BYTES + number * size
        first, last = struct.unpack("<QQ", head[at + 32 : at + 48])
        guid = str(uuid.UUID(bytes_le=head[at : at + 16]))
        if head[at : at + 16] != bytes(16):
            if last < first:
                raise RefusalError(
                    f"no image of a disk: partition {number + 1} ends before it begins"
                )
            size_bytes = (last - first + 1) * SECTOR_BYTES
            partitions.append(
                Partition(number + 1, first * SECTOR_BYTES, size_bytes, _kind_of_guid(guid))
            )
    _check(tuple(partitions), "GPT")
    last_end = max(one.end_bytes for one in partitions)
    return PartitionTable("GPT", tuple(partitions), last_end + _GPT_AFTER_SECTORS * SECTOR_BYTES)


def _kind_of_guid(guid: str) -> PartitionKind:
    if guid in _FAT_GUIDS:
        return PartitionKind.FAT
    return PartitionKind.LINUX if guid in _LINUX_GUIDS else PartitionKind.OTHER


def _check(partitions: tuple[Partition, ...], scheme: str) -> None:
    if not partitions:
        raise RefusalError(f"no image of a disk: its {scheme} has no partitions")
    end = 0
    for one in sorted(partitions, key=lambda each: each.start_bytes):
        if one.start_bytes < max(end, SECTOR_BYTES):
            raise RefusalError(f"no image of a disk: partition {one.number} begins in another one")
        end = one.end_bytes
