"""A log says that it refuses batches for as long as it does, though a short one still fits."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.message_log import LogError, MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header

BLOCK_BYTES = 512


class NearlyFullDisk:
    """A disk on which a short batch fits behind what stands there, and a long one does not.

    Attributes:
        free_bytes: how much room there is; so much more fits into the last block.

    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.free_bytes = 1 << 30
        self.is_broken = False
        self._write, self._fdatasync = os.write, os.fdatasync
        patch.setattr(os, "write", self._written)
        patch.setattr(os, "fdatasync", self._synced)
        patch.setattr(os, "statvfs", self._room)

    def _written(self, fd: int, data: bytes) -> int:
        if len(data) > self.free_bytes + BLOCK_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)

    def _synced(self, fd: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fdatasync(fd)

    def _room(self, _path: object) -> os.statvfs_result:
        free = self.free_bytes // BLOCK_BYTES
        return os.statvfs_result((BLOCK_BYTES, BLOCK_BYTES, free, free, free, 0, 0, 0, 0, 255))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> NearlyFullDisk:
    return NearlyFullDisk(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    made = MessageLog(tmp_path / "log")
    made.open()
    yield made
    made.close()


def frame(number: int, size: int) -> tuple[bytes, Header]:
    made = batch.encode(
        "gw", 1, number, [Entry("t", bytes(size), 1)], flags=Flags.LOGGED, origin_time_us=0
    )
    return made, batch.check(made)


def test_a_log_that_has_room_for_a_short_batch_alone_refuses_others_still(
    log: MessageLog, disk: NearlyFullDisk
) -> None:
    disk.free_bytes = 0
    with pytest.raises(LogError, match="No space left"):
        log.append(*frame(1, 5_000))
    log.append(*frame(1, 10))
    assert log.failure == "No space left on device"
    disk.free_bytes = 1 << 20
    log.append(*frame(2, 10))
    assert log.failure == ""


def test_a_log_that_takes_a_batch_as_long_as_the_refused_one_takes_all(
    log: MessageLog, disk: NearlyFullDisk
) -> None:
    disk.free_bytes = 0
    with pytest.raises(LogError, match="No space left"):
        log.append(*frame(1, 600))
    disk.free_bytes = 512  # less than that batch, which fits with the rest of a block
    log.append(*frame(1, 600))
    assert log.failure == ""


def test_a_log_whose_sync_fails_refuses_until_one_succeeds(
    log: MessageLog, disk: NearlyFullDisk
) -> None:
    log.append(*frame(1, 10))
    disk.is_broken = True
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    assert log.failure == "Input/output error"
    log.append(*frame(2, 10))
    assert log.failure == "Input/output error", "nobody's message is acknowledged yet"
    disk.is_broken = False
    log.sync()
    assert log.failure == ""
