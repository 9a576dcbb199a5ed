"""An image's way onto a card that does not do what it should."""

from __future__ import annotations

import io

import flash_images
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.flashing import copying
from gateway.tools.flashing.card import CHUNK_BYTES
from gateway.tools.flashing.errors import CardWriteError, ReadBackError

IMAGE = flash_images.small(size_bytes=2 * CHUNK_BYTES + 12_345)
END_BYTES = 3 << 20


class MemoryDisk:
    """A disk that can be cut off, and turns a bit."""

    def __init__(self, *, writes: int = 1_000, wrong_at: int | None = None) -> None:
        self.data = bytearray()
        self.writes_left = writes
        self.wrong_at = wrong_at

    def write_at(self, offset_bytes: int, data: bytes) -> None:
        if not self.writes_left:
            raise CardWriteError("power")
        self.writes_left -= 1
        self.data[offset_bytes : offset_bytes + len(data)] = data

    def read_at(self, offset_bytes: int, size_bytes: int) -> bytes:
        return bytes(self.data[offset_bytes : offset_bytes + size_bytes])

    def sync(self) -> None:
        if self.wrong_at is not None:
            self.data[self.wrong_at] ^= 0x10
            self.wrong_at = None


def quiet(_done: int, _all: int) -> None:
    pass


def write(image: bytes, disk: MemoryDisk) -> copying.WrittenImage:
    return copying.write(io.BytesIO(image).read, disk, END_BYTES, quiet)


def test_what_was_written_is_read_back_whole() -> None:
    disk, told = MemoryDisk(), list[tuple[int, int]]()
    written = write(IMAGE, disk)
    copying.verify(disk, written, lambda done, total: told.append((done, total)))
    assert disk.data == IMAGE
    assert told[-1] == (len(IMAGE), len(IMAGE))


@given(at=st.integers(CHUNK_BYTES, len(IMAGE) - 1))
def test_a_single_bit_that_is_read_back_differently_is_found(at: int) -> None:
    disk = MemoryDisk(wrong_at=at)
    written = write(IMAGE, disk)
    with pytest.raises(ReadBackError, match="differs between"):
        copying.verify(disk, written, quiet)


@pytest.mark.parametrize("writes", range(4))
def test_a_card_that_was_cut_off_has_no_partition_table(writes: int) -> None:
    disk = MemoryDisk(writes=writes)
    disk.data = bytearray(IMAGE)  # of another time
    with pytest.raises(CardWriteError):
        write(IMAGE, disk)
    assert writes == 0 or disk.data[:512] == bytes(512)


def test_an_image_that_ends_before_its_last_partition_does_is_refused() -> None:
    disk = MemoryDisk()
    with pytest.raises(CardWriteError, match="cut off"):
        copying.write(io.BytesIO(IMAGE).read, disk, len(IMAGE) + 1, quiet)
    assert disk.data[:512] == bytes(512)


def test_an_image_that_does_not_end_is_cut_off() -> None:
    with pytest.raises(CardWriteError, match="goes on behind its last partition"):
        copying.write(bytes, MemoryDisk(), END_BYTES, quiet)


@pytest.mark.parametrize("head_bytes", [1 << 20, CHUNK_BYTES])
def test_an_image_has_no_beginning_until_what_comes_behind_it_is_read_back(head_bytes: int) -> None:
    disk = MemoryDisk()
    written = copying.write_but_head(io.BytesIO(IMAGE).read, disk, END_BYTES, quiet, head_bytes)
    assert disk.data[:head_bytes] == bytes(head_bytes)
    assert disk.data[head_bytes:] == IMAGE[head_bytes:]
    copying.verify(disk, written, quiet, has_head=False)
    # What is written behind it meanwhile, as a device's files are, stays.
    disk.data[head_bytes] ^= 0x10
    copying.write_head(disk, written)
    assert disk.data[:head_bytes] == IMAGE[:head_bytes]
    assert disk.data[head_bytes] == IMAGE[head_bytes] ^ 0x10


def test_a_beginning_that_is_read_back_differently_is_found() -> None:
    disk = MemoryDisk()
    written = copying.write_but_head(io.BytesIO(IMAGE).read, disk, END_BYTES, quiet, 1 << 20)
    disk.wrong_at = 511
    with pytest.raises(ReadBackError, match="partition table"):
        copying.write_head(disk, written)
