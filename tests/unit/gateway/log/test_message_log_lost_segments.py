"""Segments and indexes of a log that are gone: what was lost is told apart from what was deleted.

Method: a log is filled over several segments, and trimmed or not. Files are taken away, and the log
is opened: what it has is what can be read and what was deleted to make room; all else is told with
its numbers, counted, and not among what it has, so that neighbours are asked for it.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.base import replaced_file
from gateway.log.index import SUFFIX, SegmentIndex
from gateway.log.loading import missing
from gateway.log.message_log import MessageLog
from gateway.log.trimmed import FILE_NAME
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals

OURS: Epoch = ("gw", 7)
SEGMENT_BYTES = 400
MAX_BYTES = 5 * SEGMENT_BYTES
COUNT = 60
EVERYTHING = Intervals([(1, 100_000)])


def make(n: int) -> tuple[bytes, Header]:
    rows = [Entry(f"t/{n}", b"payload", 1)]
    frame = batch.encode(*OURS, n, rows, flags=Flags.LOGGED, origin_time_us=0)
    return frame, batch.check(frame)


def opened(folder: Path) -> MessageLog:
    log = MessageLog(folder, segment_bytes=SEGMENT_BYTES, max_bytes=MAX_BYTES)
    log.open()
    return log


def filled(folder: Path, *, is_trimmed: bool, numbers: Iterable[int] = range(1, COUNT + 1)) -> None:
    log = opened(folder)
    for n in numbers:
        log.append(*make(n))
    log.sync()
    assert not is_trimmed or log.trim()
    log.close()


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def held(path: Path) -> list[int]:
    return [header.first for _, header in batch.frames(path.read_bytes())]


def readable(log: MessageLog) -> list[int]:
    return sorted(header.first for _, header in log.read(OURS, EVERYTHING))


def lacking(log: MessageLog) -> list[int]:
    return [n for n in range(1, COUNT + 1) if n not in log.have.get(OURS, Intervals())]


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def indexed(path: Path) -> SegmentIndex:
    return SegmentIndex.unpack(path.with_suffix(SUFFIX).read_bytes())


def lose(path: Path, what: str) -> None:
    if what != "index":
        path.unlink()
    if what != "segment":
        path.with_suffix(".index").unlink()


TRIMMED = pytest.mark.parametrize("is_trimmed", [False, True], ids=["whole", "trimmed"])


@TRIMMED
@pytest.mark.parametrize("what", ["segment", "both"])
@pytest.mark.parametrize("which", [[0], [0, 1], [1], [0, 2], [-2]], ids=str)
def test_sealed_segments_that_are_gone_are_lost_and_told_wherever_they_stood(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    is_trimmed: bool,
    what: str,
    which: list[int],
) -> None:
    filled(tmp_path, is_trimmed=is_trimmed)
    paths = segments(tmp_path)
    lost = sorted(n for at in which for n in held(paths[at]))
    left = sorted(n for path in paths for n in held(path) if n not in lost)
    for at in which:
        lose(paths[at], what)
    with caplog.at_level(logging.ERROR):
        log = opened(tmp_path)
    assert readable(log) == left
    assert lacking(log) == lost
    assert log.lost_messages == log.still_lost_messages == len(lost)
    assert log.damaged_bytes == sum(len(make(n)[0]) for n in lost)
    assert f"damage cost the log {len(lost)} messages: gw/7 {lost[0]}.." in caplog.text
    for n in lost:  # a neighbour has them
        log.append(*make(n))
    assert (log.lost_messages, log.still_lost_messages) == (len(lost), 0)
    log.close()
    caplog.clear()
    again = opened(tmp_path)
    assert (lacking(again), again.lost_messages) == ([], 0)
    assert readable(again) == sorted([*left, *lost])
    again.close()


@TRIMMED
def test_of_a_log_whose_segments_are_all_gone_the_indexes_tell_what_was_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_trimmed: bool
) -> None:
    filled(tmp_path, is_trimmed=is_trimmed)
    paths = segments(tmp_path)
    lost = [n for path in paths[:-1] for n in held(path)]
    deleted = held(paths[0])[0] - 1
    behind = int(paths[-1].stem)
    for path in paths:
        path.unlink()
    for _ in range(2):  # what nobody brings back is lost at the next start, too
        log = opened(tmp_path)
        assert log.have == ({OURS: Intervals([(1, deleted)])} if deleted else {OURS: Intervals()})
        assert log.lost_messages == len(lost)
        assert log.position >= behind
        log.close()
    assert f"gw/7 {lost[0]}..{lost[-1]}" in caplog.text
    log = opened(tmp_path)
    for n in range(COUNT + 1, COUNT + 20):
        log.append(*make(n))
    log.close()
    again = opened(tmp_path)
    assert readable(again) == list(range(COUNT + 1, COUNT + 20))
    again.close()


@TRIMMED
@pytest.mark.parametrize("which", [[0], [1], [-2], [0, 1, 2], None], ids=str)
def test_without_indexes_nothing_is_lost_and_nothing_that_was_deleted_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_trimmed: bool, which: list[int] | None
) -> None:
    filled(tmp_path, is_trimmed=is_trimmed)
    paths = segments(tmp_path)
    left = [n for path in paths for n in held(path)]
    for path in [paths[at] for at in which] if which else paths[:-1]:
        lose(path, "index")
    log = opened(tmp_path)
    assert (readable(log), lacking(log), log.lost_messages) == (left, [], 0)
    assert not caplog.records
    log.close()


@pytest.mark.parametrize("left", ["nothing", "the note"])
def test_a_folder_whose_segments_and_indexes_are_gone_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: str
) -> None:
    filled(tmp_path, is_trimmed=True)
    before = int(segments(tmp_path)[0].stem)
    for path in tmp_path.iterdir():
        if left == "nothing" or path.name != FILE_NAME:
            path.unlink()
    log = opened(tmp_path)
    told = "missing, and it was there" if left == "nothing" else "the file is gone"
    assert told in caplog.text
    assert log.position == (before if left == "the note" else 0)
    log.append(*make(1))
    log.close()
    caplog.clear()
    opened(tmp_path).close()
    assert not caplog.records


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_a_new_log_and_one_that_was_trimmed_have_nothing_to_tell(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_trimmed: bool
) -> None:
    opened(tmp_path).close()
    filled(tmp_path, is_trimmed=is_trimmed)
    log = opened(tmp_path)
    assert (lacking(log), log.lost_messages, log.damaged_bytes) == ([], 0, 0)
    assert not caplog.records
    log.close()


# -- the note of what was deleted ------------------------------------------------------------------

HARMS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "other version": lambda path: path.write_bytes(b"\x93\x63\x00\x80"),
}


@TRIMMED
@pytest.mark.parametrize("harm", HARMS)
def test_without_the_note_nothing_counts_as_lost_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_trimmed: bool, harm: str
) -> None:
    filled(tmp_path, is_trimmed=is_trimmed)
    HARMS[harm](tmp_path / FILE_NAME)
    log = opened(tmp_path)
    assert (lacking(log), log.lost_messages) == ([], 0)
    assert f"{tmp_path / FILE_NAME}: " in caplog.text
    log.close()
    caplog.clear()
    oldest = segments(tmp_path)[0]
    lost = held(oldest)
    lose(oldest, "both")
    again = opened(tmp_path)  # by a new note
    assert lacking(again) == lost
    again.close()


@pytest.mark.parametrize("harm", ["missing", "zeros"])
def test_without_the_note_what_is_behind_the_oldest_segment_is_lost_all_the_same(
    tmp_path: Path, harm: str
) -> None:
    filled(tmp_path, is_trimmed=True)
    HARMS[harm](tmp_path / FILE_NAME)
    middle = segments(tmp_path)[1]
    lost = held(middle)
    lose(middle, "both")
    log = opened(tmp_path)
    assert (lacking(log), log.lost_messages) == (lost, len(lost))
    log.close()


@TRIMMED
@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize("is_noted", [True, False], ids=["its index", "the newest index"])
def test_what_a_log_without_the_note_says_that_it_lost_is_not_taken_for_deleted(
    tmp_path: Path, is_trimmed: bool, which: int, is_noted: bool
) -> None:
    """So a release that kept no note left it, before or after the next segment was sealed."""
    filled(tmp_path, is_trimmed=is_trimmed)
    path = segments(tmp_path)[which]
    lost = held(path)[0]
    flip(path, 20)
    numbers = {OURS: Intervals([(lost, lost)])}
    index = indexed(path)
    holds = missing(index.holds, numbers)
    told = replace(index, holds=holds, lost=numbers if is_noted else {})
    path.with_suffix(SUFFIX).write_bytes(told.pack())
    if not is_noted:
        newest = segments(tmp_path)[-2]
        told = replace(indexed(newest), ever=missing(indexed(newest).ever, numbers))
        newest.with_suffix(SUFFIX).write_bytes(told.pack())
    (tmp_path / FILE_NAME).unlink(missing_ok=True)
    for _ in range(2):
        log = opened(tmp_path)
        assert lacking(log) == [lost]
        log.close()
    log = opened(tmp_path)
    log.append(*make(lost))  # a neighbour had it
    log.close()
    again = opened(tmp_path)
    assert (lacking(again), again.lost_messages) == ([], 0)
    again.close()


def test_a_disk_that_is_too_full_for_the_note_gets_room_and_nothing_counts_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, is_trimmed=False)
    log = opened(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(replaced_file, "replace", full)
        assert log.trim()
    log.close()
    again = opened(tmp_path)
    assert (lacking(again), again.lost_messages) == ([], 0)
    assert not caplog.records
    again.close()


def test_a_kill_between_the_note_and_the_deletion_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, is_trimmed=False)
    log = opened(tmp_path)
    unlink, left = Path.unlink, 3

    def killed(path: Path, missing_ok: bool = False) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        assert log.trim()
    left_behind = tmp_path.with_suffix(".killed")
    shutil.copytree(tmp_path, left_behind)
    log.close()
    again = opened(left_behind)
    assert (lacking(again), again.lost_messages, again.damaged_bytes) == ([], 0, 0)
    assert not caplog.records
    again.close()


# -- what was lost, came back, and is lost again ---------------------------------------------------


@pytest.mark.parametrize("is_trimmed", [False, True], ids=["damage stays", "damage is trimmed"])
@pytest.mark.parametrize("is_rewritten", [True, False], ids=["index told", "index old"])
@pytest.mark.parametrize("holder", ["sealed gone", "sealed and index gone", "newest emptied"])
def test_a_number_that_came_back_and_is_lost_again_is_asked_for_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_trimmed: bool,
    is_rewritten: bool,
    holder: str,
) -> None:
    filled(tmp_path, is_trimmed=False, numbers=range(1, 31))
    hurt = segments(tmp_path)[1]
    number = held(hurt)[0]
    flip(hurt, 20)
    log = opened(tmp_path)
    readable(log)
    with monkeypatch.context() as patched:
        if not is_rewritten:
            patched.setattr("gateway.log.loading._index", lambda _: None)
        assert log.survey() == {OURS: Intervals([(number, number)])}
    at = log.position
    log.append(*make(number))  # a neighbour had it
    log.append(*make(31))
    begins = segments(tmp_path)
    for n in range(32, COUNT + 1) if holder != "newest emptied" else ():
        log.append(*make(n))
    log.sync()
    if is_trimmed:
        log.max_bytes = log.position - int(begins[2].stem)
        assert log.trim()
        assert not hurt.exists()
    log.close()
    path = max(path for path in segments(tmp_path) if int(path.stem) <= at)
    others = [n for n in held(path) if n != number]
    if holder == "newest emptied":
        path.write_bytes(b"")
    else:
        lose(path, "segment" if holder == "sealed gone" else "both")
    again = opened(tmp_path)
    if not is_rewritten and number in again.have[OURS]:  # all that tells of it is gone
        assert number not in readable(again)
        again.survey()
    assert number not in again.have[OURS]
    if holder != "newest emptied":
        assert lacking(again) == sorted([number, *others])
    again.close()


@pytest.mark.parametrize("what", ["segment", "and the index before it"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_newest_segment_that_is_empty_is_told_if_the_one_before_was_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, what: str
) -> None:
    log = opened(tmp_path)
    n = 1
    while len(segments(tmp_path)) < count:
        log.append(*make(n))
        n += 1
    log.append(*make(n))
    log.close()
    paths = segments(tmp_path)
    paths[-1].write_bytes(b"")
    if what != "segment" and count > 1:
        paths[-2].with_suffix(SUFFIX).unlink()
    with caplog.at_level(logging.ERROR):
        opened(tmp_path).close()
    told = f"{paths[-1]}: damaged at byte 0 (empty, though something stood in it)"
    assert (told in caplog.text) == (count > 1 and what == "segment")


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_where_the_newest_segment_is_gone_the_index_before_it_tells_what_the_file_lacks_too(
    tmp_path: Path, cut: int
) -> None:
    filled(tmp_path, is_trimmed=False)
    *_, before, newest = segments(tmp_path)
    had, gone = held(before), held(newest)
    newest.unlink()
    data = before.read_bytes()
    frame_bytes = len(make(had[-1])[0])
    before.write_bytes(data[: len(data) - cut * frame_bytes])
    log = opened(tmp_path)
    assert log.damaged_bytes == cut * frame_bytes
    assert log.lost_messages == cut
    assert lacking(log) == [*had[len(had) - cut :], *gone]
    assert log.position == int(before.stem) + len(data)
    log.append(*make(gone[0]))
    log.close()
    again = opened(tmp_path)
    assert gone[0] in readable(again)
    again.close()
