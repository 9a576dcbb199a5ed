"""The log on a disk that is full, fails, or has damaged its content."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest

from gateway.log.message_log import MAX_SEALED, LogError, MessageLog
from gateway.log.sealing import RETRY_S
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals

EVERYTHING = Intervals([(1, 1_000)])
SEGMENT_BYTES = 400
DAMAGE = "gateway.log.damage"


def make(first: int, *, size: int = 10) -> tuple[bytes, Header]:
    entries = [Entry(f"t/{first}", bytes(size), 1)]
    frame = batch.encode("gw", 1, first, entries, flags=Flags.LOGGED, origin_time_us=0)
    return frame, batch.check(frame)


def opened(folder: Path) -> MessageLog:
    log = MessageLog(folder, segment_bytes=SEGMENT_BYTES)
    log.open()
    return log


def filled(folder: Path, count: int) -> list[bytes]:
    log = opened(folder)
    frames = []
    for n in range(1, count + 1):
        frame, header = make(n)
        log.append(frame, header)
        frames.append(frame)
    log.close()
    return frames


def numbers(log: MessageLog) -> list[int]:
    return [header.first for _, header in log.read(("gw", 1), EVERYTHING)]


# -- a damaged segment -----------------------------------------------------------------------------


@pytest.mark.parametrize("indexes", ["kept", "deleted", "zeroed"])
@pytest.mark.parametrize("harm", ["crc", "magic", "truncated", "emptied"])
def test_a_damaged_sealed_segment_is_named_and_skipped_and_no_other_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str, indexes: str
) -> None:
    frames = filled(tmp_path, 20)
    harmed = sorted(tmp_path.glob("*.log"))[1]
    data = bytearray(harmed.read_bytes())
    per_segment = len(data) // len(frames[0])
    in_it = list(range(per_segment + 1, 2 * per_segment + 1))
    if harm == "crc":
        data[-1] ^= 1
        lost = in_it[-1:]
    elif harm == "magic":
        data[len(frames[0])] ^= 1
        lost = in_it[1:2]
    elif harm == "truncated":
        del data[-1]
        lost = in_it[-1:]
    else:
        data.clear()
        lost = in_it
    harmed.write_bytes(data)
    for index in tmp_path.glob("*.index"):
        if indexes == "deleted":
            index.unlink()
        elif indexes == "zeroed":
            index.write_bytes(bytes(index.stat().st_size))
    with caplog.at_level(logging.ERROR):
        log = opened(tmp_path)
        assert numbers(log) == [n for n in range(1, 21) if n not in lost]
        assert numbers(log) == [n for n in range(1, 21) if n not in lost]
    told = [record.getMessage() for record in caplog.records if record.name == DAMAGE]
    assert sum(line.startswith(f"{harmed}: damaged at byte ") for line in told) == 1
    log.append(*make(21))
    assert numbers(log)[-1] == 21
    log.close()


def test_a_batch_between_gateways_in_a_damaged_segment_does_not_stop_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened(tmp_path)
    for n in range(1, 21):
        entries = [Entry(f"$hedgerow/{n}", b"", 1)]
        flags = Flags.LOGGED | Flags.CONTROL
        frame = batch.encode("gw", 1, n, entries, flags=flags, origin_time_us=0)
        log.append(frame, batch.check(frame))
    log.close()
    harmed = min(tmp_path.glob("*.log"))
    data = bytearray(harmed.read_bytes())
    data[20] ^= 1
    harmed.write_bytes(data)
    again = opened(tmp_path)
    assert [header.first for _, header in again.control()] == list(range(2, 21))
    assert f"{harmed}: damaged at byte 0" in caplog.text
    again.close()


def test_a_payload_never_poses_as_a_batch_where_one_is_damaged(tmp_path: Path) -> None:
    forged, _ = make(900)
    entries = [Entry("t", forged, 1)]
    frame = batch.encode("gw", 1, 1, entries, flags=Flags.LOGGED, origin_time_us=0)
    log = opened(tmp_path)
    log.append(frame, batch.check(frame))
    for n in range(2, 12):
        log.append(*make(n))
    log.close()
    first = min(tmp_path.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[0] ^= 1
    first.write_bytes(data)
    for index in tmp_path.glob("*.index"):
        index.unlink()
    again = opened(tmp_path)
    assert 900 not in numbers(again)
    assert 11 in numbers(again)
    again.close()


def test_a_file_of_another_name_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    (tmp_path / "notes.log").write_text("mine")
    log = opened(tmp_path)
    assert numbers(log) == [1, 2, 3]
    log.close()


# -- a disk that refuses ---------------------------------------------------------------------------


class Disk:
    """Makes a system call of the log fail while it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
        self.error: int | None = None
        self.partly = False
        real = getattr(os, call)

        def refusing(fd: int, *rest: bytes) -> object:
            if self.error is None:
                return real(fd, *rest)
            if self.partly:
                real(fd, rest[0][:7])
            raise OSError(self.error, os.strerror(self.error))

        monkeypatch.setattr(os, call, refusing)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_an_append_that_fails_leaves_the_log_as_it_was_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    log = opened(tmp_path)
    log.append(*make(1))
    disk = Disk(monkeypatch, "write")
    disk.error, disk.partly = error, True
    with pytest.raises(LogError, match=os.strerror(error)):
        log.append(*make(2))
    disk.error = None
    log.append(*make(2))
    assert numbers(log) == [1, 2]
    log.close()
    again = opened(tmp_path)
    assert (numbers(again), again.cut_bytes) == ([1, 2], 0)
    again.close()


def test_nothing_is_appended_behind_a_torn_frame_that_cannot_be_cut_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    log.append(*make(1))
    write, cut = Disk(monkeypatch, "write"), Disk(monkeypatch, "ftruncate")
    write.error, write.partly, cut.error = errno.EIO, True, errno.EIO
    with pytest.raises(LogError):
        log.append(*make(2))
    write.error = None
    with pytest.raises(LogError):
        log.append(*make(2))
    cut.error = None
    log.append(*make(2))
    log.close()
    again = opened(tmp_path)
    assert (numbers(again), again.cut_bytes) == ([1, 2], 0)
    again.close()


def full_segment(folder: Path) -> tuple[MessageLog, int]:
    """A log whose next append begins a new segment, and the number of its last message."""
    log = opened(folder)
    return log, fill_segment(log)


def fill_segment(log: MessageLog) -> int:
    n = 0
    while log.length < SEGMENT_BYTES:
        n += 1
        log.append(*make(n))
    return n


def test_an_append_that_begins_a_segment_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, n = full_segment(tmp_path)
    calls: list[str] = []
    with monkeypatch.context() as patched:
        for name in ("fdatasync", "fsync"):
            patched.setattr(os, name, lambda fd, name=name: calls.append(name))
        log.append(*make(n + 1))
        assert not calls
        log.sync()
    assert calls == ["fdatasync", "fsync", "fdatasync"]  # the sealed one, its name, the newest
    assert len(list(tmp_path.glob("*.index"))) == 1
    log.close()


@pytest.mark.parametrize("call", ["fdatasync", "fsync"])
def test_a_segment_that_the_disk_does_not_take_fails_the_sync_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    now_s = 0.0
    log = MessageLog(tmp_path, segment_bytes=SEGMENT_BYTES, now=lambda: now_s)
    log.open()
    n = fill_segment(log)
    log.append(*make(n + 1))
    disk, rewriting = Disk(monkeypatch, call), Disk(monkeypatch, "fsync")
    disk.error = rewriting.error = errno.ENOSPC
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            log.sync()
        with pytest.raises(LogError, match="No space left"):
            log.append(*make(n + 2))
    disk.error = rewriting.error = None
    now_s += RETRY_S
    log.append(*make(n + 2))
    log.sync()
    log.close()
    again = opened(tmp_path)
    assert numbers(again) == list(range(1, n + 3))
    again.close()


def test_with_too_many_segments_to_sync_an_append_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, n = full_segment(tmp_path)
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd)))
    while not synced:
        n += 1
        log.append(*make(n))
        assert len(list(tmp_path.glob("*.log"))) <= MAX_SEALED + 2
    assert len(synced) == MAX_SEALED
    log.close()


def test_an_index_that_does_not_fit_is_written_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, n = full_segment(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "index")

    log.append(*make(n + 1))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", full)
        log.sync()
        assert not list(tmp_path.glob("*.index"))
    log.sync()
    assert len(list(tmp_path.glob("*.index"))) == 1
    assert numbers(log) == list(range(1, n + 2))
    log.close()


def test_after_a_sync_that_failed_what_follows_goes_to_a_segment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    log.append(*make(1))
    disk = Disk(monkeypatch, "fdatasync")
    disk.error = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    disk.error = None
    log.append(*make(2))
    log.sync()
    lost, kept = sorted(tmp_path.glob("*.log"))
    log.close()
    lost.write_bytes(bytes(lost.stat().st_size))  # what the disk did not take
    again = opened(tmp_path)
    assert numbers(again) == [2]
    assert kept.stat().st_size
    again.close()


def test_a_segment_that_cannot_be_deleted_is_still_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 20)
    log = MessageLog(tmp_path, segment_bytes=SEGMENT_BYTES, max_bytes=2 * SEGMENT_BYTES)
    log.open()

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", read_only)
        with pytest.raises(OSError, match="Read-only"):
            log.trim()
    assert numbers(log) == list(range(1, 21))
    assert log.trim()
    assert numbers(log)[0] > 1
    log.close()


@pytest.mark.parametrize(
    ("call", "error"),
    [("fsync", errno.ENOSPC), ("fdatasync", errno.EIO), ("open", errno.EROFS)],
)
def test_a_log_that_cannot_be_opened_says_why_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    def refusing(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, refusing)
        with pytest.raises(LogError, match=f"^{tmp_path}.*: {os.strerror(error)}$"):
            opened(tmp_path)
    opened(tmp_path).close()
