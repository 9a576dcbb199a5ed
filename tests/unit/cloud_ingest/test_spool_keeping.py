"""A spool keeps segments that the tables lack, and notes the time of arrival beside them."""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

import pytest

from cloud_ingest.collector import keeping as spool_keeping
from cloud_ingest.given_folder import folder_fault
from cloud_ingest.spool import committed, identity, receipts
from cloud_ingest.spool.receipts import PAIR, Receipts
from cloud_ingest.spool.segments import SpoolRange
from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import MessageLog
from gateway.process.configuration.config import ConfigError, LogSection
from tree_handler import batch
from tree_handler.batch import Entry, Flags


def grow(log: MessageLog, count: int, start: int = 1) -> None:
    for number in range(start, start + count):
        frame = batch.encode(
            "gw-a", 1, number, [Entry("t", bytes(100))], flags=Flags.LOGGED, origin_time_us=0
        )
        log.append(frame, batch.check(frame))
        log.sync()
    log.trim()


def test_segments_go_when_all_tables_have_them_and_not_before(tmp_path: Path) -> None:
    log = MessageLog(tmp_path, segment_bytes=300, max_bytes=600, mark=receipts.note)
    log.open()
    refusals = CountedLines(logging.getLogger(), time.monotonic)
    try:
        spool_keeping.keep(log, ["ingest", "other"], refusals)
        grow(log, 20)
        segments = sorted(tmp_path.glob("*.log"))
        assert len(segments) > 5
        third = segments[3]
        for query, segment in (("ingest", segments[-1]), ("other", third)):
            size = segment.stat().st_size
            committed.note([SpoolRange(str(tmp_path), segment.name, 0, size)], query)
        spool_keeping.keep(log, ["ingest", "other"], refusals)
        grow(log, 1, 21)
        spool_keeping.keep(log, ["ingest", "other"], refusals)
        left = sorted(tmp_path.glob("*.log"))
        assert left[: len(segments) - 4] == segments[4:]
        assert {path.with_suffix(".log") for path in tmp_path.glob("*.times")} == set(left)
    finally:
        log.close()


@pytest.mark.parametrize("text", [None, "half a l", ""])
def test_a_note_that_is_missing_or_torn_lets_nothing_go(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "committed.a").write_text(f"{500:020d}.log 20\n")
    assert committed.position(tmp_path, ["a"]) == 520
    if text is not None:
        (tmp_path / "committed.b").write_text(text)
    assert committed.position(tmp_path, ["a", "b"]) == 0


def test_when_a_batch_was_on_disk_is_known_by_its_place(tmp_path: Path) -> None:
    before_us = time.time_ns() // 1_000
    log = MessageLog(tmp_path, mark=receipts.note)
    log.open()
    grow(log, 3)
    log.close()
    (segment,) = tmp_path.glob("*.log")
    found = Receipts(segment)
    times = [found.time_us(at) for at in (0, segment.stat().st_size // 3, 10**9)]
    assert before_us <= times[0] < times[1]
    assert times[2] == segment.stat().st_mtime_ns // 1_000  # not noted: the last change


def test_a_torn_or_senseless_companion_leaves_what_stands_before_it(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(bytes(100))
    sound = PAIR.pack(10, 7) + PAIR.pack(20, 8)
    changed_us = segment.stat().st_mtime_ns // 1_000
    for rest in (b"", b"\x00torn", PAIR.pack(5, 9), PAIR.pack(30, 2**63)):
        segment.with_suffix(".times").write_bytes(sound + rest)
        found = Receipts(segment)
        assert [found.time_us(at) for at in (0, 9, 10, 20)] == [7, 7, 8, changed_us]


def test_a_spool_keeps_the_name_that_its_first_start_gave_it_and_another_has_another(
    tmp_path: Path,
) -> None:
    names = []
    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        spool_keeping.opened(folder, [], LogSection()).close()
        names.append(identity.read(folder))
    assert names[0] == names[1] != names[2]
    assert all(len(name) == 32 for name in names)


@pytest.mark.parametrize("text", ["", "half a name", "g" * 32, "a" * 33])
def test_a_name_that_is_torn_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "identity").write_text(text)
    assert not identity.read(tmp_path)


def test_a_disk_without_room_for_a_second_note_has_the_last_one_written_over(
    tmp_path: Path,
) -> None:
    for number, end in ((0, 123_456), (700_000, 7)):
        committed.note([SpoolRange(str(tmp_path), f"{number:020d}.log", 0, end)], "a")
        assert committed.position(tmp_path, ["a"]) == number + end
        (tmp_path / f"committed.a.{os.getpid()}.new").mkdir(exist_ok=True)  # as a full disk


def test_a_segment_that_is_gone_was_never_changed(tmp_path: Path) -> None:
    assert Receipts(tmp_path / f"{0:020d}.log").time_us(0) == 0


def test_a_folder_that_can_not_be_tidied_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog(tmp_path, mark=receipts.note)
    log.open()
    refusals = CountedLines(logging.getLogger(), time.monotonic)

    def refuse(self: Path, pattern: str) -> None:
        raise OSError("I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", refuse)
        spool_keeping.keep(log, [], refusals)
    log.close()
    assert refusals.counts == {"folder of the spool that can't be tidied": 1}


def test_why_a_folder_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert folder_fault(tmp_path) == ""
    assert folder_fault(tmp_path / "none") == "no such folder"
    assert folder_fault(tmp_path / "file" / "below") == "no such folder"
    assert folder_fault(tmp_path / "file") == "not a folder"
    assert folder_fault(tmp_path / "circle") == os.strerror(errno.ELOOP)
    assert folder_fault("x" * 300) == os.strerror(errno.ENAMETOOLONG)


@pytest.mark.parametrize("queries", [[], ["ingest"], ["ingest", "other"]])
def test_a_spool_that_is_opened_keeps_at_once_what_the_tables_of_any_lack(
    tmp_path: Path, queries: list[str]
) -> None:
    committed.note([SpoolRange(str(tmp_path), f"{0:020d}.log", 0, 1)], "other")
    log = spool_keeping.opened(tmp_path, queries, LogSection(segment_bytes=4_096, max_bytes=8_192))
    try:
        grow(log, 200)
        assert (tmp_path / f"{0:020d}.log").exists() is bool(queries)
    finally:
        log.close()


def test_a_spool_that_would_not_be_synced_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^log\.durability: readers of a spool need 'sync'"):
        spool_keeping.opened(tmp_path, [], LogSection(durability="write"))
    assert list(tmp_path.iterdir()) == []
