"""A base image as a stream of bytes: plain, xz, gzip, or alone in a zip archive.

What is compressed is unpacked as it is read, a piece at a time; nothing is kept on the disk, and a
file that unpacks to more than fits is cut off by whoever reads it.
"""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gateway.tools.flashing import partition_table
from gateway.tools.flashing.errors import CardWriteError, RefusalError
from gateway.tools.flashing.partition_table import PartitionTable

XZ_MEMORY_BYTES = 256 << 20
"""More than `xz -9` needs (65 MiB), less than a Pi or a small controller has."""
PIECE_BYTES = 1 << 20
_DAMAGE = (lzma.LZMAError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile, EOFError)


class BaseImage:
    """An image that is being read, from its first byte to its last, once.

    Args:
        name: of its file, for messages.
        stream: its bytes.

    Raises:
        RefusalError: it is no image of a Pi, or damaged in its first bytes.

    """

    def __init__(self, name: str, stream: Callable[[int], bytes]) -> None:
        self._name = name
        self._stream = stream
        self._ahead = b""
        try:
            self._ahead = self._filled(partition_table.TABLE_BYTES)
            self.table: PartitionTable = partition_table.parse(self._ahead)
            boot_bytes = self.table.boot.start_bytes
            wanted = boot_bytes + partition_table.SECTOR_BYTES - len(self._ahead)
            self._ahead += self._filled(max(wanted, 0))
            partition_table.check_boot_sector(
                self._ahead[boot_bytes : boot_bytes + partition_table.SECTOR_BYTES]
            )
        except CardWriteError as error:
            raise RefusalError(str(error)) from error
        except RefusalError as error:
            raise RefusalError(f"{name}: {error}") from error

    def read(self, size: int) -> bytes:
        """Return the next bytes, as many as are asked for unless it ends before.

        Raises:
            CardWriteError: the file is damaged, or can't be read.

        """
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken + self._filled(size - len(taken)) if len(taken) < size else taken

    def _filled(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            try:
                piece = self._stream(min(size, PIECE_BYTES))
            except _DAMAGE as error:
                raise CardWriteError(
                    f"{self._name}: damaged: {error or 'it ends too soon'}"
                ) from error
            except OSError as error:
                raise CardWriteError(f"{self._name}: {error.strerror or error}") from error
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


@contextmanager
def opened(path: Path) -> Iterator[BaseImage]:
    """Open an image; its first bytes say how it is packed, not its name.

    Raises:
        RefusalError: it can't be read, or is no image of a Pi.

    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise RefusalError(f"--image: {path}: {error.strerror or error}") from error
    with file, unpacked(path.name, file) as image:
        yield image


@contextmanager
def unpacked(name: str, file: BinaryIO) -> Iterator[BaseImage]:
    """Yield the image in an open file.

    Args:
        name: of the file, for messages.
        file: at its beginning.

    Raises:
        RefusalError: it is no image of a Pi.

    """
    magic = file.read(6)
    file.seek(0)
    if magic.startswith(b"PK\x03\x04"):
        with _unzipped(name, file) as member:
            yield BaseImage(name, member.read)
    elif magic == b"\xfd7zXZ\x00":
        yield BaseImage(name, _Unxz(file).read)
    elif magic.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=file) as stream:
            yield BaseImage(name, stream.read)
    else:
        yield BaseImage(name, file.read)


@contextmanager
def _unzipped(name: str, file: BinaryIO) -> Iterator[BinaryIO]:
    try:
        archive = zipfile.ZipFile(file)
        images = [one for one in archive.infolist() if one.filename.lower().endswith(".img")]
        if len(images) != 1:
            raise RefusalError(f"{name}: {len(images)} files end with .img in it, and one has to")
        member = archive.open(images[0])
    # A password or a method that Python lacks are errors of these two kinds.
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise RefusalError(f"{name}: {error}") from error
    with member:
        yield cast(BinaryIO, member)


class _Unxz(io.RawIOBase):
    """Streams of xz one after another, as `xz` itself reads them, in bounded memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._packed = b""
        self._unpacker: lzma.LZMADecompressor | None = None

    def read(self, size: int = -1) -> bytes:
        while True:
            if self._unpacker is None:
                if not self._more():
                    return b""
                self._unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_BYTES)
            if self._unpacker.needs_input and not self._more():
                raise EOFError
            packed, self._packed = self._packed, b""
            unpacked = self._unpacker.decompress(packed, max(size, 1))
            if self._unpacker.eof:
                # Padding between streams is zeros (The .xz File Format, section 2.2).
                self._packed = self._unpacker.unused_data.lstrip(b"\x00")
                self._unpacker = None
            if unpacked:
                return unpacked

    def _more(self) -> bool:
        if not self._packed:
            self._packed = self._file.read(PIECE_BYTES)
        return bool(self._packed)
