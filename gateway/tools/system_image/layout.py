"""Layout of an image: where its partitions are, and the names that they are found by.

Pure. Four partitions are what an MBR has, and each Pi's firmware reads an MBR: the roots and the
data are logical partitions in the fourth, and numbered from 5.
"""

from __future__ import annotations

import hashlib
import uuid

from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_slots import slots
from gateway.tools.system_slots.slots import Slot
from light_dataclasses import dataclass

MIB = 1 << 20
ALIGNMENT_BYTES = 4 * MIB
"""The erase blocks of most cards."""
AUTOBOOT_BYTES = 16 * MIB
SECTOR_BYTES = 512
_FAT16_KIND, _FAT32_KIND, _EXTENDED_KIND, _LINUX_KIND = "e", "c", "f", "83"


@dataclass(frozen=True, slots=True)
class ImageSizes:
    """The sizes of the partitions, in MiB, each a multiple of 4.

    Attributes:
        boot: of each boot partition.
        root: of each root.
        data: as the image has it: the first start makes it as large as the card.

    """

    boot: int = 256
    root: int = 2560
    data: int = 64

    def check(self) -> None:
        """Refuse what makes no card.

        Raises:
            ImageBuildError: a size is out of range; it names it.

        """
        for name, value, least in (
            ("boot", self.boot, 36),  # as FAT32 has it: 65,525 clusters of a sector
            ("root", self.root, 8),
            ("data", self.data, 8),
        ):
            if not least <= value <= 1 << 17 or value % 4:
                raise ImageBuildError(
                    f"--{name}-mib: {value} is not {least} to {1 << 17}, a multiple of 4"
                )


@dataclass(frozen=True, slots=True)
class PlacedPartition:
    """A partition of an image.

    Attributes:
        start_bytes: where it begins.
        size_bytes: how long it is.
        kind: of the MBR, as sfdisk names it.

    """

    start_bytes: int
    size_bytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class ImageNames:
    """All that identifies a card's file systems, derived from what the system holds.

    Attributes:
        digest: of the root's content, in hexadecimal.

    """

    digest: str

    @property
    def disk_id(self) -> str:
        """Of the MBR: 8 hexadecimal digits, as ``PARTUUID=`` has them."""
        return self._derived("disk")[:4].hex()

    def uuid(self, name: str) -> str:
        """Return the UUID of a file system, or of the seed of its hashes."""
        return str(uuid.UUID(bytes=self._derived(name)[:16], version=5))

    def volume_id(self, name: str) -> str:
        """Return the id of a FAT file system: 8 hexadecimal digits."""
        return self._derived(name)[:4].hex()

    def _derived(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.digest} {name}".encode()).digest()


class ImageLayout:
    """The partitions of an image by their numbers.

    Args:
        sizes: of them.

    Raises:
        ImageBuildError: a size is out of range.

    """

    def __init__(self, sizes: ImageSizes) -> None:
        sizes.check()
        self.partitions: dict[int, PlacedPartition] = {}
        at = ALIGNMENT_BYTES
        firsts = (
            (slots.AUTOBOOT_PARTITION, AUTOBOOT_BYTES, _FAT16_KIND),
            (Slot.A.boot_partition, sizes.boot * MIB, _FAT32_KIND),
            (Slot.B.boot_partition, sizes.boot * MIB, _FAT32_KIND),
        )
        for number, size, kind in firsts:
            self.partitions[number] = PlacedPartition(at, size, kind)
            at += size
        extended = at
        for number, mib in (
            (Slot.A.root_partition, sizes.root),
            (Slot.B.root_partition, sizes.root),
            (slots.DATA_PARTITION, sizes.data),
        ):
            at += ALIGNMENT_BYTES  # its record is before it
            self.partitions[number] = PlacedPartition(at, mib * MIB, _LINUX_KIND)
            at += mib * MIB
        self.partitions[slots.EXTENDED_PARTITION] = PlacedPartition(
            extended, at - extended, _EXTENDED_KIND
        )
        self.size_bytes = at

    def sfdisk_script(self, disk_id: str) -> str:
        """Return what makes the partition table (sfdisk(8))."""
        lines = ["label: dos", f"label-id: 0x{disk_id}", "unit: sectors"]
        for number, one in sorted(self.partitions.items()):
            start, size = one.start_bytes // SECTOR_BYTES, one.size_bytes // SECTOR_BYTES
            lines.append(f"{number} : start={start}, size={size}, type={one.kind}")
        return "\n".join(lines) + "\n"
