"""The notes of batches that hold the start of another, and their file on a disk that fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gateway.log.inner_starts import MAX_SINGLE, RUN_BYTES, InnerStarts
from tree_handler.noted_batches import FILE_NAME, NOWHERE, NotedBatches, record


def begun(folder: Path) -> InnerStarts:
    """The notes of a new log."""
    inner = InnerStarts(folder)
    inner.load(is_new=True)
    inner.begin(0, 0)
    return inner


def noted(folder: Path) -> list[tuple[int, int]]:
    """The notes in the file, all of which are whole records."""
    data = (folder / FILE_NAME).read_bytes()
    found = NotedBatches()
    assert found.take(data) == len(data)
    return found.spans


def broken(*_: object) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_note_stands_in_the_file_before_its_batch_and_those_within_a_noted_one_need_none(
    tmp_path: Path,
) -> None:
    inner = begun(tmp_path)
    inner.note(10, 40)
    inner.note(20, 30)  # ends where the noted one ends
    inner.note(20, 31)
    assert inner.spans == noted(tmp_path) == [(10, 50), (20, 51)]
    inner.close()


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        begun(tmp_path).close()
    finally:
        os.umask(before)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_so_many_are_noted_one_by_one_and_then_a_run_at_a_time(tmp_path: Path) -> None:
    inner = begun(tmp_path)
    inner.spans = [(2 * at, 2 * at + 1) for at in range(MAX_SINGLE - 1)]
    inner.note(100_000, 5)
    inner.note(200_000, 5)
    inner.note(200_005, RUN_BYTES - 5)  # within the run
    inner.note(300_000, RUN_BYTES + 1)  # longer than a run is noted as a whole
    runs = [(100_000, 100_005), (200_000, 200_000 + RUN_BYTES), (300_000, 300_001 + RUN_BYTES)]
    assert inner.spans[MAX_SINGLE - 1 :] == noted(tmp_path) == runs
    inner.close()


def test_a_note_that_the_disk_took_in_part_is_cut_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, write = begun(tmp_path), os.write
    inner.note(10, 40)
    size = (tmp_path / FILE_NAME).stat().st_size
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: write(fd, data[:5]))
        with pytest.raises(OSError, match=f"{FILE_NAME}: not written as a whole"):
            inner.note(60, 40)
    assert (tmp_path / FILE_NAME).stat().st_size == size + 5
    assert inner.spans == [(10, 50)]
    inner.note(200, 7)
    assert inner.spans == noted(tmp_path) == [(10, 50), (200, 207)]
    inner.close()


def test_a_note_is_taken_back_from_the_file_at_once_or_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = begun(tmp_path)
    inner.note(10, 40)
    inner.note(60, 40)
    inner.take_back(10)  # it is not the last
    assert noted(tmp_path) == [(10, 50), (60, 100)]
    inner.take_back(60)
    assert inner.spans == noted(tmp_path) == [(10, 50)]
    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", broken)
        inner.take_back(10)
    assert (inner.spans, noted(tmp_path)) == ([], [(10, 50)])
    inner.note(70, 5)
    assert inner.spans == noted(tmp_path) == [(70, 75)]
    inner.close()


def test_what_stood_in_trimmed_segments_leaves_the_file_with_the_next_sync(tmp_path: Path) -> None:
    inner = begun(tmp_path)
    for at in (10, 60, 110):
        inner.note(at, 40)
    before = inner.spans
    inner.trimmed(49)
    assert inner.spans is before, "the first one still reaches behind"
    inner.trimmed(60)
    assert inner.spans == [(60, 100), (110, 150)]
    assert noted(tmp_path) == before == [(10, 50), (60, 100), (110, 150)]
    inner.sync()
    assert noted(tmp_path) == [(60, 100), (110, 150)]
    inner.trimmed(100)
    inner.sync()
    inner.note(160, 2)
    assert noted(tmp_path) == [(110, 150), (160, 162)]
    inner.close()


def test_a_sync_writes_all_notes_anew_if_the_one_before_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = begun(tmp_path)
    inner.note(10, 40)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", broken)
        with pytest.raises(OSError, match="Input/output"):
            inner.sync()
    (tmp_path / FILE_NAME).write_bytes(b"what the disk made of it")
    inner.sync()
    assert noted(tmp_path) == [(10, 50)]
    (tmp_path / FILE_NAME).write_bytes(b"")
    inner.sync()  # nothing was noted since: there is nothing to do
    assert (tmp_path / FILE_NAME).read_bytes() == b""
    inner.close()


def test_a_start_keeps_the_notes_of_what_the_log_still_holds(tmp_path: Path) -> None:
    spans = [(0, 10), (10, 20), (20, 30), (30, 40), (35, 45)]
    records = [record(5, 0), *(record(start, end - start) for start, end in spans)]
    (tmp_path / FILE_NAME).write_bytes(b"".join(records) + b"torn")
    inner = InnerStarts(tmp_path)
    inner.load(is_new=False)
    inner.begin(10, 35)
    assert inner.complete_from == 5
    assert inner.spans == noted(tmp_path) == [(10, 20), (20, 30), (30, 40)]
    inner.close()


@pytest.mark.parametrize(
    ("data", "is_new", "complete_from"),
    [(None, True, 0), (None, False, 70), (b"", False, 70), (bytes(32), True, 70)],
    ids=["a new log", "an old log without the file", "an empty file", "zeros"],
)
def test_without_a_whole_file_the_notes_are_complete_from_the_end_of_the_log(
    tmp_path: Path, data: bytes | None, complete_from: int, *, is_new: bool
) -> None:
    if data is not None:
        (tmp_path / FILE_NAME).write_bytes(data)
    inner = InnerStarts(tmp_path)
    inner.load(is_new=is_new)
    assert inner.complete_from == (0 if is_new and data is None else NOWHERE)
    inner.begin(0, 70)
    assert (inner.complete_from, noted(tmp_path)) == (complete_from, [])
    again = InnerStarts(tmp_path)
    again.load(is_new=False)
    assert again.complete_from == complete_from
    inner.close()
