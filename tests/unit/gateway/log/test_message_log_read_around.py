"""A start reads around damage anywhere in a log, and reports the loss."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.log import inner_starts
from gateway.log.damage import Damage
from gateway.log.errors import LogError
from gateway.log.inner_starts import InnerStarts
from gateway.log.message_log import MessageLog
from gateway.log.segment import PAGE_BYTES
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.batch_walk import BLOCK_BYTES
from tree_handler.intervals import Intervals
from tree_handler.noted_batches import FILE_NAME

OURS, THEIRS = ("gw", 7), ("other", 3)
EVERYTHING = Intervals([(1, 100_000)])
SEGMENT_BYTES = 400
Frame = tuple[bytes, Header]


def make(n: int, payload: bytes = b"payload", stream: Epoch = OURS) -> Frame:
    rows = [Entry(f"t/{n}", payload, 1)]
    frame = batch.encode(*stream, n, rows, flags=Flags.LOGGED, origin_time_us=0)
    return frame, batch.check(frame)


def opened(folder: Path, segment_bytes: int = SEGMENT_BYTES, *, mark: bool = False) -> MessageLog:
    log = MessageLog(folder, segment_bytes=segment_bytes, mark=mark)
    log.open()
    return log


def filled(
    folder: Path, frames: Iterable[Frame], segment_bytes: int = SEGMENT_BYTES, *, mark: bool = False
) -> list[Path]:
    log = opened(folder, segment_bytes, mark=mark)
    for frame in frames:
        log.append(*frame)
        if mark:
            log.sync()
    log.close()
    return sorted(folder.glob("*.log"))


def numbers(log: MessageLog, stream: Epoch = OURS) -> list[int]:
    return [header.first for _, header in log.read(stream, EVERYTHING)]


def surveyed(log: MessageLog, folder: Path) -> None:
    for _ in folder.glob("*.log"):  # one at a time is looked through
        log.survey()


def failing(number: int) -> Callable[..., bytes]:
    def fail(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    return fail


def flip(path: Path, at: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


# -- the end of the newest segment -----------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("byte", range(12))
def test_one_bad_byte_in_the_newest_segment_costs_one_batch(
    tmp_path: Path, share: float, byte: int
) -> None:
    frames = [make(n) for n in range(1, 101)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    hurt = int(share * len(frames))
    size = path.stat().st_size
    flip(path, sum(len(frame) for frame, _ in frames[:hurt]) + byte, 0x80)
    log = opened(tmp_path, 1 << 20)
    assert numbers(log) == [n for n in range(1, 101) if n != hurt + 1]
    assert log.have == {OURS: Intervals((n, n) for n in range(1, 101) if n != hurt + 1)}
    assert (log.cut_bytes, path.stat().st_size) == (0, size)
    assert log.damaged_bytes == len(frames[hurt][0])
    log.append(*make(101))
    log.close()
    again = opened(tmp_path, 1 << 20)
    assert numbers(again) == [n for n in range(1, 102) if n != hurt + 1]
    assert again.have[OURS].missing(1, 101) == [(hurt + 1, hurt + 1)]
    again.close()


def test_what_is_lost_is_told_with_its_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frames = [make(n, stream=stream) for n in range(1, 16) for stream in (OURS, THEIRS)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    flip(path, sum(len(frame) for frame, _ in frames[:10]))
    flip(path, sum(len(frame) for frame, _ in frames[:13]))
    with caplog.at_level(logging.ERROR):
        log = opened(tmp_path, 1 << 20)
    assert "gw/7 6..6" in caplog.text
    assert "other/3 7..7" in caplog.text
    log.close()


@pytest.mark.parametrize("left", [1, 2, 3, 11, 12, 20, -1])
def test_the_beginning_of_a_batch_that_a_kill_left_is_cut_and_nothing_is_lost_by_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: int
) -> None:
    frames = [make(n) for n in range(1, 4)]
    (path,) = filled(tmp_path, frames)
    whole = path.read_bytes()
    torn, _ = make(4)
    path.write_bytes(whole + torn[:left])
    with caplog.at_level(logging.ERROR):
        log = opened(tmp_path)
    assert (log.cut_bytes, log.damaged_bytes) == (len(torn[:left]), 0)
    assert not caplog.records
    assert path.read_bytes() == whole
    log.append(*make(4))
    assert numbers(log) == [1, 2, 3, 4]
    log.close()


@pytest.mark.parametrize("empty", [1, 30, BLOCK_BYTES, 3 * BLOCK_BYTES + 5])
def test_zeros_that_a_power_cut_left_are_cut_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, empty: int
) -> None:
    (path,) = filled(tmp_path, [make(n) for n in range(1, 4)])
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(empty))
    log = opened(tmp_path)
    assert (log.cut_bytes, log.damaged_bytes) == (empty, empty)
    assert f"{path}: damaged at byte {len(whole)}" in caplog.text
    assert (path.read_bytes(), numbers(log)) == (whole, [1, 2, 3])
    log.close()


def test_what_follows_a_block_of_zeros_is_kept(tmp_path: Path) -> None:
    """Blocks that were not synced reach the disk in any order."""
    frames = [make(n, bytes([n]) * 500) for n in range(1, 41)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    data = bytearray(path.read_bytes())
    data[2 * BLOCK_BYTES : 3 * BLOCK_BYTES] = bytes(BLOCK_BYTES)
    path.write_bytes(data)
    log = opened(tmp_path, 1 << 20)
    found = numbers(log)
    assert (found[0], found[-1]) == (1, 40)
    assert len(found) >= 40 - BLOCK_BYTES // len(frames[0][0]) - 2
    assert log.have[OURS].count() == len(found)
    log.close()


def test_garbage_at_the_end_is_not_taken_for_what_a_kill_left(tmp_path: Path) -> None:
    (path,) = filled(tmp_path, [make(n) for n in range(1, 4)])
    size = path.stat().st_size
    flip(path, size - 1)
    log = opened(tmp_path)
    assert (log.cut_bytes, path.stat().st_size, numbers(log)) == (0, size, [1, 2])
    log.append(*make(4))
    log.close()
    again = opened(tmp_path)
    assert numbers(again) == [1, 2, 4]
    again.close()


# -- whole segments --------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["emptied", "gone"])
@pytest.mark.parametrize("which", [-1, -2, 2])
def test_a_segment_that_is_emptied_or_gone_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str, which: int
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    path = paths[which]
    held = [header.first for _, header in read_by_itself(path)]
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    with caplog.at_level(logging.ERROR):
        log = opened(tmp_path)
    assert "damaged at byte" in caplog.text
    left = [n for n in range(1, 41) if n not in held]
    assert numbers(log) == left
    assert log.have == {OURS: Intervals((n, n) for n in left)}
    if which != -1:
        assert f"gw/7 {held[0]}..{held[-1]}" in caplog.text
        assert log.lost_messages == len(held)
    log.append(*make(41))
    log.close()
    again = opened(tmp_path)
    assert numbers(again) == [*left, 41]
    again.close()


def read_by_itself(path: Path) -> Iterator[Frame]:
    data = path.read_bytes()
    for at, header in batch.frames(data):
        yield data[at : at + header.end], header


def test_what_was_trimmed_is_not_asked_for_though_what_was_damaged_is(tmp_path: Path) -> None:
    log = MessageLog(tmp_path, segment_bytes=SEGMENT_BYTES, max_bytes=4 * SEGMENT_BYTES)
    log.open()
    for n in range(1, 61):
        log.append(*make(n))
    log.sync()
    assert log.trim()
    log.close()
    second = sorted(tmp_path.glob("*.log"))[1]
    held = [header.first for _, header in read_by_itself(second)]
    data = second.read_bytes()
    second.write_bytes(data[: len(data) // 2])
    again = opened(tmp_path)
    (gap,) = again.have[OURS].missing(1, 60)
    assert gap[0] > held[0]
    assert gap[1] == held[-1]
    again.close()


def test_what_was_trimmed_is_not_taken_for_lost_where_repair_brought_older_numbers_later(
    tmp_path: Path,
) -> None:
    order = [*range(5, 21), *range(1, 5), *range(21, 41)]
    paths = filled(tmp_path, [make(n) for n in order])
    holder = next(p for p in paths if any(h.first == 1 for _, h in read_by_itself(p)))
    trimming = opened(tmp_path)
    trimming.max_bytes = trimming.position - int(holder.stem)
    assert trimming.trim()
    trimming.close()
    assert min(tmp_path.glob("*.log")) == holder
    last = [header.first for _, header in read_by_itself(holder)][-1]
    holder.write_bytes(holder.read_bytes()[:-1])
    log = opened(tmp_path)
    assert log.have[OURS].missing(1, 40) == [(last, last)]
    assert log.lost_messages == 1
    log.close()


def test_damage_in_a_sealed_segment_that_is_met_later_is_not_what_the_log_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    flip(paths[1], 0)
    hurt = 1 + sum(1 for _ in read_by_itself(paths[0]))
    log = opened(tmp_path)
    assert not log.survey()
    assert hurt not in numbers(log)
    assert log.survey() == {OURS: Intervals([(hurt, hurt)])}
    assert not log.survey()
    assert log.have[OURS].missing(1, 40) == [(hurt, hurt)]
    assert f"gw/7 {hurt}..{hurt}" in caplog.text
    log.close()
    again = opened(tmp_path)
    assert again.have[OURS].missing(1, 40) == [(hurt, hurt)]
    again.append(*make(hurt))  # a neighbour had it
    again.close()
    last = opened(tmp_path)
    assert last.have == {OURS: Intervals([(1, 40)])}
    assert sorted(numbers(last)) == list(range(1, 41))
    last.close()


def test_blocks_that_the_disk_does_not_give_are_read_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [make(n, bytes([n]) * 500) for n in range(1, 41)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    size = path.stat().st_size
    whole, piece = Path.read_bytes, os.pread

    def read_bytes(one: Path) -> bytes:
        if one == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(one))
        return whole(one)

    def pread(fd: int, count: int, at: int) -> bytes:
        if at == 2 * BLOCK_BYTES:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return piece(fd, count, at)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_bytes)
        patched.setattr(os, "pread", pread)
        log = opened(tmp_path, 1 << 20)
    held = log.have[OURS]
    assert held.count() >= 40 - BLOCK_BYTES // len(frames[0][0]) - 2
    assert (held.contiguous_from(1) > 1, held.last) == (True, 40)
    assert path.stat().st_size == size
    log.close()


def test_a_block_that_the_disk_stops_giving_while_the_log_is_open_costs_what_stood_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [make(n, bytes([n]) * 500) for n in range(1, 41)]
    filled(tmp_path, frames, segment_bytes=1 << 14)
    hurt = sorted(tmp_path.glob("*.log"))[0]
    log = opened(tmp_path, 1 << 14)
    whole, piece = Path.read_bytes, os.pread

    def read_bytes(one: Path) -> bytes:
        if one == hurt:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(one))
        return whole(one)

    def pread(fd: int, count: int, at: int) -> bytes:
        is_meant = Path(f"/proc/self/fd/{fd}").readlink() == hurt
        if is_meant and at <= BLOCK_BYTES < at + count:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return piece(fd, count, at)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_bytes)
        patched.setattr(os, "pread", pread)
        found = numbers(log)
        assert [header.first for _, header in log.read_from(0)] == found
        lost = log.survey()
        assert lost == {OURS: Intervals([(1, 40)]).without(log.have[OURS])}
        assert 40 - len(found) == lost[OURS].count() <= BLOCK_BYTES // len(frames[0][0]) + 2
        for n in range(1, 41):
            if n not in found:  # a neighbour has it
                log.append(*frames[n - 1])
        assert sorted(numbers(log)) == list(range(1, 41))
    log.close()


class FailingBlocks:
    """A disk that does not give some blocks of a file.

    Attributes:
        reads: how often it was asked for any of the file.
        refusals: how often it refused.

    """

    def __init__(self, path: Path, bad: range, patched: pytest.MonkeyPatch) -> None:
        self.reads = self.refusals = 0
        self.bad = bad
        whole, piece = Path.read_bytes, os.pread

        def refuse(at: int, end: int) -> None:
            self.reads += 1
            if self.bad and at < self.bad.stop and self.bad.start < end:
                self.refusals += 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        def read_bytes(one: Path) -> bytes:
            if one == path:
                refuse(0, one.stat().st_size)
            return whole(one)

        def pread(fd: int, count: int, at: int) -> bytes:
            if Path(f"/proc/self/fd/{fd}").readlink() == path:
                refuse(at, at + count)
            return piece(fd, count, at)

        patched.setattr(Path, "read_bytes", read_bytes)
        patched.setattr(os, "pread", pread)


def test_a_block_that_the_disk_refuses_costs_a_look_at_what_is_read_and_is_not_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, 1 << 20)
    for n in range(1, 401):
        log.append(*make(n, bytes([n % 256]) * 1_000))
    (path,) = tmp_path.glob("*.log")
    disk = FailingBlocks(path, range(4 * BLOCK_BYTES, 6 * BLOCK_BYTES), monkeypatch)
    found = [header.first for _, header in log.read(OURS, Intervals([(1, 4)]))]
    assert found == [1, 2, 3, 4]
    assert (disk.reads, disk.refusals) == (1 + PAGE_BYTES // BLOCK_BYTES + 1, 1 + 2)
    disk.reads = disk.refusals = 0
    assert [header.first for _, header in log.read(OURS, Intervals([(390, 390)]))] == [390]
    assert (disk.reads, disk.refusals) == (1, 0), "it is in another page"
    assert log.survey()
    disk.refusals = 0
    for _ in range(3):
        assert [header.first for _, header in log.read(OURS, Intervals([(1, 4)]))] == found
        assert len(list(log.read_from(0))) == log.have[OURS].count()
    assert disk.refusals == 0
    log.close()


def test_blocks_that_the_disk_refused_for_a_moment_are_asked_for_once_more_before_they_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, [make(n, bytes([n]) * 1_000) for n in range(1, 101)], 1 << 16)
    path = min(tmp_path.glob("*.log"))
    log = opened(tmp_path, 1 << 16)
    disk = FailingBlocks(path, range(BLOCK_BYTES, 2 * BLOCK_BYTES), monkeypatch)
    assert len(numbers(log)) < 100
    disk.bad = range(0)
    assert log.survey() == {}
    assert numbers(log) == list(range(1, 101))
    log.close()


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
@pytest.mark.parametrize("how", ["by number", "in a piece"])
def test_damage_is_looked_for_again_where_more_of_a_segment_is_damaged_later(
    tmp_path: Path, order: tuple[int, ...], how: str
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    held = [header for _, header in read_by_itself(paths[1])]
    log = opened(tmp_path)

    def read() -> list[int]:
        if how == "by number":
            return numbers(log)
        found, _ = log.reading_on(int(paths[1].stem), 1 << 20)()
        return [header.first for _, header in found]

    for which in order:
        number = held[which].first
        flip(paths[1], sum(header.end for header in held[:which]) + 20)
        assert number not in read()
        assert log.survey() == {OURS: Intervals([(number, number)])}
        assert not log.survey()
        read()
        assert log.survey() is None
    log.close()


def test_a_look_that_fails_at_what_came_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment was read in a thread, and what was appended to it meanwhile can't be for now."""
    filled(tmp_path, [make(1), make(2)], 1 << 20)
    log = opened(tmp_path, 1 << 20)
    (path,) = tmp_path.glob("*.log")
    flip(path, 20)
    assert numbers(log) == [2]
    look = log.start_survey()
    assert look is not None
    found = look()
    log.append(*make(3))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", failing(errno.EMFILE))
        with pytest.raises(LogError):
            log.end_survey(found)
    assert log.survey() == {OURS: Intervals([(1, 1)])}
    log.close()


def test_no_block_is_asked_of_a_bad_disk_any_more_when_the_log_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process waits for the thread that does, and a card may take seconds for each."""
    (path,) = filled(tmp_path, [make(n, bytes(BLOCK_BYTES)) for n in range(1, 9)], 1 << 20)
    log = opened(tmp_path, 1 << 20)
    flip(path, 20)
    numbers(log)
    look = log.start_survey()
    assert look is not None
    asked: list[int] = []

    def pread(_: int, __: int, at: int) -> bytes:
        asked.append(at)
        if len(asked) == 2:
            log.close()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_bytes", failing(errno.EIO))
    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(OSError, match="closed"):
        look()
    assert len(asked) == 2


def test_a_segment_that_was_trimmed_while_it_was_looked_through_is_no_damage_any_more(
    tmp_path: Path,
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    log = opened(tmp_path)
    flip(paths[0], 20)
    numbers(log)
    look = log.start_survey()
    assert look is not None
    found = look()
    numbers(log)  # the damage is met once more
    assert not log.has_trimmed(str(paths[0]))
    log.max_bytes = log.position - int(paths[1].stem)
    assert log.trim()
    with pytest.raises(FileNotFoundError):
        look()
    assert log.has_trimmed(str(paths[0]))
    assert log.end_survey(found) == {}
    assert log.start_survey() is None
    log.close()


def test_bytes_that_were_bad_for_a_moment_are_looked_for_when_they_are_bad_again(
    tmp_path: Path,
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    first = next(read_by_itself(paths[1]))[1].first
    log = opened(tmp_path)
    flip(paths[1], 20)
    assert first not in numbers(log)
    flip(paths[1], 20)
    assert log.survey() == {}
    flip(paths[1], 20)
    assert first not in numbers(log)
    assert log.survey() == {OURS: Intervals([(first, first)])}
    log.close()


@pytest.mark.parametrize("indexes", ["kept", "gone"])
def test_a_sealed_segment_that_cannot_be_opened_now_stops_no_start_and_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indexes: str
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    if indexes == "gone":
        paths[1].with_suffix(".index").unlink()
    whole = Path.read_bytes

    def read_bytes(one: Path) -> bytes:
        if one == paths[1]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(one))
        return whole(one)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_bytes)
        log = opened(tmp_path)
    assert log.have == {OURS: Intervals([(1, 40)])}
    assert log.lost_messages == 0
    log.close()
    again = opened(tmp_path)
    assert numbers(again) == list(range(1, 41))
    again.close()


def test_a_sealed_segment_that_lost_its_end_and_cannot_be_read_now_counts_as_lost_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    last = list(read_by_itself(paths[1]))[-1][1]
    size = paths[1].stat().st_size
    os.truncate(paths[1], size - last.end)
    whole = Path.read_bytes

    def read_bytes(one: Path) -> bytes:
        if one == paths[1]:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(one))
        return whole(one)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_bytes)
        log = opened(tmp_path)
    assert (log.have, log.lost_messages) == ({OURS: Intervals([(1, 40)])}, 0)
    assert log.damaged_bytes == last.end
    log.close()
    again = opened(tmp_path)
    assert again.have[OURS].missing(1, 40) == [(last.first, last.first)]
    assert (again.lost_messages, again.damaged_bytes) == (1, last.end)
    again.close()


def test_a_look_for_which_a_segment_cannot_be_read_now_names_it_and_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 41)])
    first = next(read_by_itself(paths[1]))[1].first
    log = opened(tmp_path)
    flip(paths[1], 20)
    numbers(log)

    def busy(one: Path) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(one))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", busy)
        with pytest.raises(LogError, match=f"^{paths[1]}: Too many open files$"):
            log.survey()
    assert log.lost_messages == 0
    assert log.survey() == {OURS: Intervals([(first, first)])}
    assert log.lost_messages == 1
    log.close()


@pytest.mark.parametrize(("ranges", "told"), [(20, ""), (21, " and 1 more ranges")])
def test_a_line_names_twenty_ranges_of_what_is_lost_and_counts_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ranges: int, told: str
) -> None:
    damage = Damage(InnerStarts(tmp_path))
    damage.lost({})
    assert not caplog.records
    damage.lost({OURS: Intervals((n, n + 1) for n in range(1, 4 * ranges, 4))})
    named = ", ".join(f"gw/7 {n}..{n + 1}" for n in range(1, 80, 4))
    lost = f"damage cost the log {2 * ranges} messages: {named}{told}; who may have them is asked"
    assert caplog.messages == [lost]
    assert damage.messages == 2 * ranges


# -- payloads that pose as batches -----------------------------------------------------------------


@pytest.mark.parametrize("notes", ["kept", "gone", "damaged"])
@pytest.mark.parametrize("hurt", [0, 5, 13])
def test_a_payload_never_poses_as_a_batch_where_the_one_around_it_is_damaged(
    tmp_path: Path, notes: str, hurt: int
) -> None:
    forged, _ = make(900)
    payload = b"".join(b"x" * n + forged for n in range(20))
    frames = [make(n, payload if n == 3 else b"", OURS) for n in range(1, 9)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    flip(path, sum(len(frame) for frame, _ in frames[:2]) + hurt, 0x40)
    if notes == "gone":
        (tmp_path / FILE_NAME).unlink()
    elif notes == "damaged":
        flip(tmp_path / FILE_NAME, 0)
    for _ in range(2):
        log = opened(tmp_path, 1 << 20)
        found = numbers(log)
        assert set(found) <= {1, 2, 4, 5, 6, 7, 8}
        if notes == "kept":
            assert found == [1, 2, 4, 5, 6, 7, 8]
        log.close()


def test_a_batch_that_a_kill_cut_short_gives_none_of_those_in_its_payload(tmp_path: Path) -> None:
    forged, _ = make(900)
    log = opened(tmp_path, 1 << 20)
    log.append(*make(1))
    frame, header = make(2, forged * 3)
    log.append(frame, header)
    log.close()
    (path,) = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes()[:-5])
    path.write_bytes(data)
    again = opened(tmp_path, 1 << 20)
    assert numbers(again) == [1]
    assert again.cut_bytes == len(frame) - 5
    again.append(*make(2))
    again.close()
    last = opened(tmp_path, 1 << 20)
    assert numbers(last) == [1, 2]
    last.close()


def test_a_note_of_a_batch_that_was_refused_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged, _ = make(900)
    log = opened(tmp_path, 1 << 20)
    log.append(*make(1))
    size, real = log.length, os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 100:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            log.append(*make(2, forged * 9))
    for n in range(2, 10):
        log.append(*make(n))
    log.close()
    (path,) = tmp_path.glob("*.log")
    flip(path, size)
    again = opened(tmp_path, 1 << 20)
    assert numbers(again) == [1, *range(3, 10)]
    again.close()


def test_who_fills_the_log_with_posing_payloads_fills_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inner_starts, "MAX_SINGLE", 5)
    forged, _ = make(900)
    frames = [make(n, forged) for n in range(1, 501)]
    (path,) = filled(tmp_path, frames, segment_bytes=1 << 20)
    records = (tmp_path / FILE_NAME).stat().st_size // 16
    assert records <= 1 + 5 + path.stat().st_size // inner_starts.RUN_BYTES + 1
    flip(path, 0)
    log = opened(tmp_path, 1 << 20)
    assert numbers(log) == list(range(2, 501))
    log.close()


def test_a_log_of_an_earlier_release_goes_on_in_a_segment_of_its_own(tmp_path: Path) -> None:
    filled(tmp_path, [make(1)])
    (tmp_path / FILE_NAME).unlink()
    log = opened(tmp_path)
    log.append(*make(2))
    log.close()
    first, second = sorted(tmp_path.glob("*.log"))
    assert int(second.stem) == first.stat().st_size
    again = opened(tmp_path)
    assert (numbers(again), again.damaged_bytes) == ([1, 2], 0)
    again.close()
    assert len(list(tmp_path.glob("*.log"))) == 2


# -- a spool's mark --------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", ["emptied", "gone", "cut", "zeros"])
def test_nothing_comes_to_stand_where_readers_of_a_spool_have_been(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 21)], mark=True)
    path = paths[-1]
    size = path.stat().st_size
    if harm == "gone":
        path.unlink()
    elif harm == "zeros":
        path.write_bytes(bytes(size))
    else:
        path.write_bytes(path.read_bytes()[: 0 if harm == "emptied" else size // 2])
    log = opened(tmp_path, mark=True)
    assert "damaged at byte" in caplog.text
    assert log.position == int(path.stem) + size
    assert path.stat().st_size == size
    log.append(*make(21))
    log.close()
    assert (tmp_path / "synced").read_text().startswith(f"{int(path.stem) + size:020d}.log ")


# -- any damage ------------------------------------------------------------------------------------


def whole_frames(folder: Path) -> list[tuple[Path, int, bytes]]:
    return [
        (path, at, data[at : at + header.end])
        for path in sorted(folder.glob("*.log"))
        for data in [path.read_bytes()]
        for at, header in batch.frames(data)
    ]


def is_intact(path: Path, at: int, frame: bytes) -> bool:
    try:
        return path.read_bytes()[at : at + len(frame)] == frame
    except FileNotFoundError:
        return False


@st.composite
def harms(draw: st.DrawFn) -> tuple[str, int, float, float, bytes]:
    kind = draw(st.sampled_from(["flip", "zeros", "overwrite", "cut", "empty", "gone", "grow"]))
    junk = draw(st.binary(min_size=1, max_size=60))
    share = st.floats(0, 1, exclude_max=True)
    return kind, draw(st.integers(0, 9)), draw(share), draw(share), junk


def do_harm(folder: Path, harm: tuple[str, int, float, float, bytes]) -> bool:
    """Damage a log; return True if no trace is left, as its newest segment is shorter."""
    kind, which, begin, end, junk = harm
    paths = sorted(folder.glob("*.log"))
    path = paths[-1 - which % len(paths)]
    data = bytearray(path.read_bytes())
    start, stop = sorted((int(begin * len(data)), int(end * len(data))))
    if kind == "flip" and data:
        data[start] ^= 1 << junk[0] % 8
    elif kind == "zeros":
        data[start:stop] = bytes(stop - start)
    elif kind == "overwrite":
        data[start : start + len(junk)] = junk[: len(data) - start]
    elif kind == "cut":
        del data[start:]
    elif kind == "empty":
        data.clear()
    elif kind == "grow":
        data += junk
    path.write_bytes(data)
    if kind == "gone" and len(paths) > 1:
        path.unlink()
    return path == paths[-1] and kind in {"cut", "empty", "gone"}


FORGED, _ = make(900)
PAYLOADS = st.one_of(
    st.binary(max_size=60), st.just(bytes(40)), st.just(FORGED), st.just(b"y" + FORGED + b"HB\x01")
)


def test_a_segment_that_is_emptied_is_told_though_the_one_behind_it_is_gone(
    tmp_path: Path,
) -> None:
    log = opened(tmp_path)
    for n in range(1, 41):
        log.append(*make(n))
    log.close()
    first, second, *_ = sorted(tmp_path.glob("*.log"))
    first.write_bytes(b"")
    second.unlink()
    log = opened(tmp_path)
    held = numbers(log, OURS)
    assert held[0] > 1
    assert log.have[OURS] == Intervals([(held[0], 40)])
    assert log.lost_messages == held[0] - 1
    log.close()


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    payloads=st.lists(st.tuples(PAYLOADS, st.booleans()), min_size=8, max_size=40),
    harmed=st.lists(harms(), min_size=1, max_size=3),
    indexes=st.sampled_from(["kept", "kept", "gone", "zeros"]),
)
def test_whatever_is_damaged_all_that_is_whole_is_read_and_the_loss_is_told(
    payloads: list[tuple[bytes, bool]],
    harmed: list[tuple[str, int, float, float, bytes]],
    indexes: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    counts = {OURS: 0, THEIRS: 0}
    log = opened(folder)
    for payload, is_ours in payloads:
        stream = OURS if is_ours else THEIRS
        counts[stream] += 1
        log.append(*make(counts[stream], payload, stream))
    log.close()
    appended = whole_frames(folder)
    shorter = [do_harm(folder, harm) for harm in harmed]
    for index in folder.glob("*.index"):
        if indexes == "gone":
            index.unlink()
        elif indexes == "zeros":
            index.write_bytes(bytes(index.stat().st_size))
    whole = [frame for path, at, frame in appended if is_intact(path, at, frame)]
    for _ in range(2):
        log = opened(folder)
        found = [frame for stream in counts for frame, _ in log.read(stream, EVERYTHING)]
        assert sorted(found) == sorted(whole)
        surveyed(log, folder)
        for stream in counts:
            held = Intervals((n, n) for n in numbers(log, stream))
            assert log.have.get(stream, Intervals()) == held
        cost = len(appended) - len(whole)
        if indexes == "kept" and log.lost_messages + log.cut_bytes + log.damaged_bytes == 0:
            assert not cost or any(shorter)
        log.close()
    log = opened(folder)
    for stream, count in counts.items():
        log.append(*make(count + 1, stream=stream))
    log.close()
    again = opened(folder)
    for stream, count in counts.items():
        assert count + 1 in numbers(again, stream)
    again.close()


def test_a_log_is_whole_from_behind_the_last_byte_that_is_damaged(tmp_path: Path) -> None:
    frames = [make(n) for n in range(1, 10)]
    filled(tmp_path, frames, 1 << 20)
    damaged = frames[0][1].end, frames[0][1].end + frames[1][1].end
    flip(tmp_path / f"{0:020d}.log", damaged[1] - 1)
    log = opened(tmp_path, 1 << 20)
    assert len(list(log.read_from(0))) == 8
    assert not log.is_whole_from(0)
    assert not log.is_whole_from(damaged[0])
    assert not log.is_whole_from(damaged[1] - 1)
    assert log.is_whole_from(damaged[1])
    assert log.is_whole_from(log.position)
    log.close()


def test_a_log_that_was_trimmed_is_whole_from_its_first_byte(tmp_path: Path) -> None:
    paths = filled(tmp_path, [make(n) for n in range(1, 40)])
    assert len(paths) > 2
    paths[0].unlink()
    log = opened(tmp_path)
    begins = int(paths[1].stem)
    assert log.is_whole_from(begins)
    assert not log.is_whole_from(begins - 1)
    log.close()
