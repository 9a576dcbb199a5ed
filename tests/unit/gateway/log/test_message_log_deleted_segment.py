"""Another program deletes a file of the log while it is written: nothing acknowledged is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals

STREAM = ("gw", 1)


def made(number: int) -> tuple[bytes, Header]:
    entry = Entry(f"t/{number}", bytes(10), 1)
    frame = batch.encode(*STREAM, number, [entry], flags=Flags.LOGGED, origin_time_us=0)
    return frame, batch.check(frame)


@pytest.fixture
def log(tmp_path: Path) -> MessageLog:
    found = MessageLog(tmp_path / "log", mark=True)
    found.open()
    for number in (1, 2):
        found.append(*made(number))
    found.sync()
    return found


def newest(log: MessageLog) -> Path:
    return max(log.folder.glob("*.log"))


def kept(log: MessageLog) -> list[bytes]:
    """Return what a new process finds, which misses nothing."""
    again = MessageLog(log.folder, mark=True)
    again.open()
    assert (again.damaged_bytes, again.lost_messages) == (0, 0)
    found = [frame for frame, _ in again.read(STREAM, Intervals([(1, 9)]))]
    again.close()
    return found


@pytest.mark.parametrize("replaced", [False, True])
def test_it_is_told_of_and_written_again(log: MessageLog, replaced: bool) -> None:
    newest(log).unlink()
    if replaced:
        newest_again = log.folder / f"{0:020d}.log"
        newest_again.write_bytes(b"of another program")
    log.append(*made(3))
    with pytest.raises(OSError, match="another program has deleted it"):
        log.sync()
    assert log.failure == "another program has deleted it"
    log.sync()
    assert log.failure == ""
    log.append(*made(4))
    log.sync()
    log.close()
    assert kept(log) == [made(number)[0] for number in (1, 2, 3, 4)]


def test_it_is_written_again_at_the_end(log: MessageLog) -> None:
    newest(log).unlink()
    log.close()
    assert kept(log) == [made(1)[0], made(2)[0]]


def test_one_that_is_empty_is_made_anew(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "log", mark=True)
    log.open()
    newest(log).unlink()
    with pytest.raises(OSError, match="another program has deleted it"):
        log.sync()
    log.sync()
    log.append(*made(1))
    log.sync()
    log.close()
    assert kept(log) == [made(1)[0]]


def test_one_that_is_full_by_then_is_written_again(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=1)
    log.open()
    log.append(*made(1))
    log.sync()
    newest(log).unlink()
    log.append(*made(2))  # goes to the next one
    with pytest.raises(OSError, match="another program has deleted it"):
        log.sync()
    log.sync()
    log.close()
    assert kept(log) == [made(1)[0], made(2)[0]]


def test_a_file_system_that_counts_no_names_is_believed_that_they_are_there(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fstat

    def without_names(fd: int) -> os.stat_result:
        found = real(fd)
        return os.stat_result((*found[:3], 0, *found[4:]))

    monkeypatch.setattr(os, "fstat", without_names)
    log.append(*made(3))
    log.sync()
    log.close()
