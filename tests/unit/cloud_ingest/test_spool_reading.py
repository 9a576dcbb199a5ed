"""Goal: a reader of the spool sees all that is safe on disk, and no damage passes unseen."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloud_ingest.spool import SpoolError, SpoolMark, SpoolSegment, batches, read_mark, segments
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags


def stamps(folder: Path) -> list[tuple[str, int, int]]:
    return [
        (found.header.origin, found.header.first, found.header.last)
        for segment in segments(folder, read_mark(folder))
        for found in batches(segment)
    ]


def test_a_spool_without_a_mark_has_nothing_to_read_yet(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    assert read_mark(spool.folder) is None
    assert stamps(spool.folder) == []


def test_a_reader_never_passes_the_mark(spool: Any) -> None:
    spool.readings("gw-a", 1, 1, 3)
    spool.sync()
    spool.append(b"HB\x01 torn by a power cut")
    assert stamps(spool.folder) == [("gw-a", 1, 3)]


def test_a_segment_newer_than_the_mark_is_left_alone(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    spool.sync()
    spool.readings("gw-a", 1, 2)
    spool.roll()
    spool.readings("gw-a", 1, 3)
    assert stamps(spool.folder) == [("gw-a", 1, 1)]


def test_older_segments_are_read_whole_and_first(spool: Any) -> None:
    spool.readings("gw-a", 1, 1, 2)
    spool.roll()
    spool.readings("gw-b", 1, 1)
    spool.roll()
    spool.readings("gw-a", 1, 3)
    spool.sync()
    assert stamps(spool.folder) == [("gw-a", 1, 2), ("gw-b", 1, 1), ("gw-a", 3, 3)]


def test_what_stands_beside_the_segments_is_not_read(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    spool.sync()
    (spool.folder / "00000000000000000000.index").write_bytes(b"index")
    (spool.folder / "notes.log").write_text("not a segment")
    assert stamps(spool.folder) == [("gw-a", 1, 1)]


def test_a_corrupt_frame_is_named_by_segment_and_byte(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    at = spool.readings("gw-a", 1, 2)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[-1] ^= 1
    spool.segment.write_bytes(data)
    with pytest.raises(SpoolError) as raised:
        stamps(spool.folder)
    assert (raised.value.file, raised.value.at) == (spool.segment.name, at)
    assert "CRC" in str(raised.value)


def test_a_mark_inside_a_frame_is_an_error_at_that_frame(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    at = spool.readings("gw-a", 1, 2)
    spool.length -= 1
    spool.sync()
    with pytest.raises(SpoolError, match=f"byte {at}: batch torn"):
        stamps(spool.folder)


def test_a_segment_shorter_than_its_mark_is_an_error(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    spool.length += 10
    spool.sync()
    with pytest.raises(SpoolError, match=r"ends here, but \d+ bytes are synced"):
        stamps(spool.folder)


def test_a_missing_middle_segment_is_an_error_and_a_trimmed_oldest_is_not(spool: Any) -> None:
    paths = []
    for number in range(1, 4):
        spool.readings("gw-a", 1, number)
        paths.append(spool.segment)
        spool.roll()
    spool.readings("gw-a", 1, 4)
    spool.sync()
    paths[0].unlink()
    assert stamps(spool.folder) == [("gw-a", 2, 2), ("gw-a", 3, 3), ("gw-a", 4, 4)]
    paths[2].unlink()
    with pytest.raises(SpoolError, match=f"{paths[1].name}, byte .* ends here, but"):
        stamps(spool.folder)


def test_a_mark_that_names_a_missing_segment_is_an_error(spool: Any) -> None:
    spool.sync()
    with pytest.raises(SpoolError, match="is missing, though synced names it"):
        stamps(spool.folder)


@pytest.mark.parametrize(
    "text", ["", "x", "1.log 5", f"{0:020d}.log", f"{0:020d}.log -1", f"../{0:020d}.log 1"]
)
def test_a_mark_that_is_none_is_an_error(spool: Any, text: str) -> None:
    (spool.folder / "synced").write_text(text)
    with pytest.raises(SpoolError, match="spool synced, byte 0"):
        read_mark(spool.folder)


def test_a_body_that_no_origin_made_is_an_error_when_decoded(spool: Any) -> None:
    entries: list[Any] = [Entry("t", b"1"), Entry(5, b"2")]  # type: ignore[arg-type]  # the fault
    spool.append(batch.encode("gw-a", 1, 1, entries, flags=Flags.LOGGED, origin_time_us=0))
    spool.sync()
    (found,) = batches(segments(spool.folder, read_mark(spool.folder))[0])
    with pytest.raises(SpoolError, match=r"batch gw-a/1 logged 1\.\.2"):
        found.entries()


def test_a_segment_that_vanished_is_an_error(tmp_path: Path) -> None:
    gone = SpoolSegment(tmp_path / f"{0:020d}.log", 10)
    with pytest.raises(SpoolError, match="No such file"):
        list(batches(gone))


def test_an_error_survives_a_worker_and_a_longer_text() -> None:
    error = SpoolError(f"{0:020d}.log", 77, "batch CRC is wrong: 5")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    quoted = SpoolError.quoted_in(f"Traceback\n  x\ncloud_ingest.spool.SpoolError: {error}\n\tat")
    assert quoted is not None
    assert (quoted.file, quoted.at, quoted.what) == (error.file, error.at, error.what)
    assert SpoolError.quoted_in("another error") is None


def test_a_mark_reads_back_as_it_is_written() -> None:
    mark = SpoolMark(f"{123:020d}.log", 456)
    assert SpoolMark.parse(str(mark)) == mark


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_no_single_changed_byte_passes_unseen(tmp_path: Path, data: st.DataObject) -> None:
    frames = [
        batch.encode("gw-a", 1, n, [Entry("t", bytes(n))], flags=Flags.LOGGED, origin_time_us=n)
        for n in range(1, 4)
    ]
    whole = b"".join(frames)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(changed)
    starts = [0, len(frames[0]), len(frames[0]) + len(frames[1])]
    with pytest.raises(SpoolError) as raised:
        list(batches(SpoolSegment(path, len(whole))))
    assert raised.value.at == max(start for start in starts if start <= at)


def test_what_the_collectors_log_wrote_reads_back(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "spool", segment_bytes=500, mark=True)
    log.open()
    try:
        for number in range(1, 41):
            frame = batch.encode(
                "gw-a", 1, number, [Entry("t", bytes(20))], flags=Flags.LOGGED, origin_time_us=0
            )
            log.append(frame, batch.check(frame))
        log.sync()
        frame = batch.encode("gw-a", 1, 41, [Entry("t", b"")], flags=Flags.LOGGED, origin_time_us=0)
        log.append(frame, batch.check(frame))
        assert len(segments(log.folder, read_mark(log.folder))) > 2
        assert stamps(log.folder) == [("gw-a", number, number) for number in range(1, 41)]
    finally:
        log.close()
