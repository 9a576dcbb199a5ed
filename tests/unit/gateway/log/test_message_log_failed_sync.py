"""A sync that fails is not forgotten, though the kernel tells of it only once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gateway.log.message_log import LogError, MessageLog
from gateway.log.sealing import RETRY_S
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals

SEGMENT_BYTES = 400


def make(n: int) -> tuple[bytes, Header]:
    frame = batch.encode(
        "gw", 1, n, [Entry(f"t/{n}", b"x", 1)], flags=Flags.LOGGED, origin_time_us=0
    )
    return frame, batch.check(frame)


class Disk:
    """Forgets a file's bytes when it fails to sync it, and says so once: as ext4 does.

    Attributes:
        fails: how many syncs to come fail.
        lost: names and numbers of files whose bytes the disk does not have.

    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.fails = 0
        self.lost: set[tuple[str, int]] = set()
        self._real = os.fdatasync, os.fsync
        patch.setattr(os, "fdatasync", lambda fd: self._sync(fd, 0))
        patch.setattr(os, "fsync", lambda fd: self._sync(fd, 1))

    def _sync(self, fd: int, which: int) -> None:
        if self.fails:
            self.fails -= 1
            path = Path(f"/proc/self/fd/{fd}").readlink()
            if path.suffix == ".log":
                self.lost.add((path.name, os.fstat(fd).st_ino))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._real[which](fd)
        if which:  # the one number may be used again for a file that was written anew
            number = os.fstat(fd).st_ino
            self.lost = {one for one in self.lost if one[1] != number}

    def power_cut(self, folder: Path) -> None:
        for path in folder.glob("*.log"):
            if (path.name, path.stat().st_ino) in self.lost:
                path.write_bytes(bytes(path.stat().st_size))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def opened(folder: Path, clock: Clock | None = None) -> MessageLog:
    log = MessageLog(folder, segment_bytes=SEGMENT_BYTES, now=clock or Clock())
    log.open()
    return log


def numbers(folder: Path) -> list[int]:
    log = opened(folder)
    found = [header.first for _, header in log.read(("gw", 1), Intervals([(1, 1_000)]))]
    log.close()
    return found


def fails(log: MessageLog) -> bool:
    try:
        log.sync()
    except OSError:
        return True
    return False


def test_what_a_sync_covered_that_failed_is_written_again_before_one_succeeds(
    tmp_path: Path, disk: Disk
) -> None:
    log = opened(tmp_path)
    log.append(*make(1))
    disk.fails = 1
    assert fails(log)
    assert not fails(log)
    disk.power_cut(tmp_path)
    log.close()
    assert numbers(tmp_path) == [1]


def test_a_sync_that_was_under_way_with_one_that_failed_fails_too(
    tmp_path: Path, disk: Disk
) -> None:
    """A checkpoint's sync is told of the error, and the group commit's would be told nothing."""
    log = opened(tmp_path)
    log.append(*make(1))
    checkpoint = log.start_sync()
    log.append(*make(2))
    commit = log.start_sync()
    disk.fails = 1
    with pytest.raises(OSError, match="Input/output"):
        checkpoint()
    with pytest.raises(OSError, match="a sync of it failed before"):
        commit()
    assert not fails(log)
    disk.power_cut(tmp_path)
    log.close()
    assert numbers(tmp_path) == [1, 2]


def test_a_segment_whose_sync_failed_after_it_was_sealed_is_written_again(
    tmp_path: Path, disk: Disk
) -> None:
    log = opened(tmp_path)
    n = 0
    while log.length < SEGMENT_BYTES:
        n += 1
        log.append(*make(n))
    under_way = log.start_sync()
    log.append(*make(n + 1))  # begins a segment
    disk.fails = 1
    with pytest.raises(OSError, match="Input/output"):
        under_way()
    assert not fails(log)
    disk.power_cut(tmp_path)
    log.close()
    assert numbers(tmp_path) == list(range(1, n + 2))


@pytest.mark.parametrize("count", range(1, 8))
def test_whichever_sync_fails_none_succeeds_before_the_disk_has_what_it_covers(
    tmp_path: Path, disk: Disk, count: int
) -> None:
    clock = Clock()
    log = opened(tmp_path, clock)
    n, acknowledged, waiting = 0, list[int](), list[int]()
    for turn in range(40):
        clock.now_s += RETRY_S
        if turn == 15:
            disk.fails = count
        n += 1
        try:
            log.append(*make(n))
            waiting.append(n)
        except LogError:
            n -= 1
            continue
        if not fails(log):
            acknowledged += waiting
        waiting.clear()
    disk.power_cut(tmp_path)
    log.close()
    assert set(acknowledged) <= set(numbers(tmp_path))
    assert acknowledged[-1] == n


def test_a_segment_that_cannot_be_written_again_is_not_tried_at_each_message(
    tmp_path: Path, disk: Disk
) -> None:
    clock = Clock()
    log = opened(tmp_path, clock)
    log.append(*make(1))
    disk.fails = 100
    assert fails(log)
    for _ in range(20):
        with pytest.raises(LogError, match="Input/output"):
            log.append(*make(2))
    assert disk.fails == 98
    clock.now_s += RETRY_S
    with pytest.raises(LogError, match="Input/output"):
        log.append(*make(2))
    disk.fails = 0
    clock.now_s += RETRY_S
    log.append(*make(2))
    assert not fails(log)
    log.close()
    assert numbers(tmp_path) == [1, 2]
    assert not [*tmp_path.glob("*.new")]


def test_what_the_kernel_has_lost_before_it_was_written_again_is_told(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(tmp_path)
    for n in range(1, 4):
        log.append(*make(n))
    disk.fails = 1
    assert fails(log)
    (path,) = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(make(1)[0])] = 0
    path.write_bytes(data)
    assert not fails(log)
    assert "damaged at byte" in caplog.text
    assert log.survey() == {("gw", 1): Intervals([(2, 2)])}
    log.close()
    assert numbers(tmp_path) == [1, 3]


def test_a_log_that_cannot_be_synced_at_the_end_says_so_and_lets_go_of_all_it_held(
    tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    def held() -> list[Path]:
        links = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return [link for link in links if link.is_relative_to(tmp_path)]

    log = opened(tmp_path)
    n = 0
    while len(list(tmp_path.glob("*.log"))) < 3:  # two wait for a sync
        n += 1
        log.append(*make(n))
    assert len(held()) >= 4
    newest = max(tmp_path.glob("*.log"))
    disk.fails = 100
    log.close()
    assert f"{newest}: not synced at the end: Input/output error" in caplog.messages
    assert held() == []
    disk.fails = 0
    assert numbers(tmp_path) == list(range(1, n + 1))
