"""An image of a whole system as a stream: its boot partition and its root, in their order.

What was read is digested as it passes, so that what is written is what the signature vouched for.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable
from typing import BinaryIO

from gateway.tools.flashing.base_image import PIECE_BYTES, BaseImage
from gateway.tools.flashing.errors import CardWriteError, RefusalError
from gateway.tools.flashing.partition_table import SECTOR_BYTES, Partition
from gateway.tools.system_slots.slots import EXTENDED_PARTITION, Slot
from light_dataclasses import dataclass

_LINUX_KIND = 0x83


class DigestedFile(io.RawIOBase):
    """A file that is read once from its beginning, and its SHA-256.

    Args:
        file: at its beginning.

    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        self._digest.update(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To its beginning; nowhere else, for what is passed over is not digested."""
        if offset or whence != io.SEEK_SET:
            raise CardWriteError("an image of a system is .img, .img.xz or .img.gz")
        self._digest = hashlib.sha256()
        return self._file.seek(0)

    def sha256(self) -> str:
        """Return the digest of all of it, what has not been read yet included."""
        while self.read(PIECE_BYTES):
            pass
        return self._digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ImageStretch:
    """Some bytes of an image that are next.

    Attributes:
        size_bytes: how many.
        read: gives the next of them; nothing after the last.

    """

    size_bytes: int
    read: Callable[[int], bytes]


class ImageParts:
    """The parts of an image of a system; each is asked for once, boot before root.

    Args:
        image: at its beginning.

    Raises:
        RefusalError: it has no two slots.

    """

    def __init__(self, image: BaseImage) -> None:
        self._image = image
        self._at = 0
        by_number = {one.number: one for one in image.table.partitions}
        wanted = (Slot.A.boot_partition, Slot.B.boot_partition, EXTENDED_PARTITION)
        if image.table.scheme != "MBR" or any(number not in by_number for number in wanted):
            raise RefusalError(
                "no image of a system with two slots: `deploy/image/build` makes one"
            )
        self._boot: Partition = by_number[Slot.A.boot_partition]
        self._extended: Partition = by_number[EXTENDED_PARTITION]

    def boot(self) -> ImageStretch:
        """Return the boot partition of slot A."""
        return self._stretch(self._boot.start_bytes, self._boot.size_bytes)

    def root(self) -> ImageStretch:
        """Return the root of slot A: the first partition in the extended one.

        Raises:
            RefusalError: there is none.
            CardWriteError: the image is damaged.

        """
        record = self._stretch(self._extended.start_bytes, SECTOR_BYTES).read(SECTOR_BYTES)
        if len(record) < SECTOR_BYTES or record[510:512] != b"\x55\xaa":
            raise RefusalError("no image of a system: its extended partition has no record")
        start, count = struct.unpack_from("<II", record, 446 + 8)
        if record[446 + 4] != _LINUX_KIND or not start or not count:
            raise RefusalError("no image of a system: its first logical partition is no root")
        at = self._extended.start_bytes + start * SECTOR_BYTES
        return self._stretch(at, count * SECTOR_BYTES)

    def _stretch(self, start_bytes: int, size_bytes: int) -> ImageStretch:
        while self._at < start_bytes:
            passed = len(self._image.read(min(PIECE_BYTES, start_bytes - self._at)))
            if not passed:
                raise CardWriteError(f"the image is cut off at {self._at} bytes")
            self._at += passed
        left = size_bytes

        def read(size: int) -> bytes:
            nonlocal left
            data = self._image.read(min(size, left))
            left -= len(data)
            self._at += len(data)
            return data

        return ImageStretch(size_bytes, read)
