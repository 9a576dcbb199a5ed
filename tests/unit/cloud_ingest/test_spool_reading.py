"""Goal: a reader of the spool sees all that is safe on disk, and no damage passes unseen."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.spool.segments import (
    SpoolError,
    SpoolMark,
    position_of,
    ranges,
    read_mark,
    read_notes,
    segments,
)
from cloud_ingest.spool.walk import SEARCH_BYTES, DamagedBytes, walk
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags


def stamps(folder: Path) -> list[tuple[str, int, int] | DamagedBytes]:
    mark, notes = read_mark(folder), read_notes(folder)
    return [
        found
        if isinstance(found, DamagedBytes)
        else (found[1].origin, found[1].first, found[1].last)
        for one in ranges(folder, segments(folder, mark), 0, position_of(mark))
        for found in walk(
            (folder / one.segment).read_bytes(),
            one.start,
            one.end,
            int(one.segment.removesuffix(".log")),
            notes,
        )
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


def test_a_corrupt_frame_is_told_with_its_place_and_the_next_is_read(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    at = spool.readings("gw-a", 1, 2)
    end = spool.readings("gw-a", 1, 3)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[end - 1] ^= 1
    spool.segment.write_bytes(data)
    first, damaged, third = stamps(spool.folder)
    assert (first, third) == (("gw-a", 1, 1), ("gw-a", 3, 3))
    assert isinstance(damaged, DamagedBytes)
    assert (damaged.at, damaged.end) == (at, end)
    assert "CRC" in damaged.why


def test_a_mark_inside_a_frame_makes_its_beginning_damaged(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    at = spool.readings("gw-a", 1, 2)
    spool.length -= 1
    spool.sync()
    damaged = stamps(spool.folder)[-1]
    assert isinstance(damaged, DamagedBytes)
    assert (damaged.at, damaged.end) == (at, spool.length)
    assert "torn" in damaged.why


def test_a_payload_that_looks_like_a_batch_is_not_read_as_one_behind_damage(spool: Any) -> None:
    inner = batch.encode("gw-evil", 1, 1, [Entry("t", b"1")], flags=1, origin_time_us=0)
    spool.payloads("gw-a", 1, 1, [bytes(50) + inner])
    end = spool.readings("gw-a", 1, 2)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[14] ^= 1
    spool.segment.write_bytes(data)
    assert stamps(spool.folder) == [DamagedBytes(0, end, stamps_why(data)), ("gw-a", 2, 2)]


def stamps_why(data: bytes) -> str:
    found = next(walk(bytes(data), 0, len(data)))
    assert isinstance(found, DamagedBytes)
    return found.why


def test_a_damaged_length_is_passed_over_to_the_next_batch_that_checks(spool: Any) -> None:
    spool.readings("gw-a", 1, 1)
    end = spool.readings("gw-a", 1, 2)
    spool.sync()
    data = bytearray(spool.segment.read_bytes())
    data[6] ^= 1
    spool.segment.write_bytes(data)
    damaged, second = stamps(spool.folder)
    assert isinstance(damaged, DamagedBytes)
    assert (damaged.at, damaged.end, second) == (0, end, ("gw-a", 2, 2))


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


@given(data=st.data())
def test_no_single_changed_byte_passes_unseen_nor_costs_another_batch(data: st.DataObject) -> None:
    frames = [
        batch.encode("gw-a", 1, n, [Entry("t", bytes(n))], flags=Flags.LOGGED, origin_time_us=n)
        for n in range(1, 4)
    ]
    whole = b"".join(frames)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    starts = [0, len(frames[0]), len(frames[0]) + len(frames[1])]
    found = list(walk(bytes(changed), 0, len(whole)))
    damaged = [one for one in found if isinstance(one, DamagedBytes)]
    assert [one.at for one in damaged] == [max(start for start in starts if start <= at)]
    others = {one[1].first for one in found if not isinstance(one, DamagedBytes)}
    assert others == {1, 2, 3} - {starts.index(damaged[0].at) + 1}


@given(data=st.binary(max_size=300), cut=st.integers(0, 60))
def test_any_bytes_are_walked_to_their_end(data: bytes, cut: int) -> None:
    frame = batch.encode("gw-a", 1, 1, [Entry("t", b"x")], flags=1, origin_time_us=0)
    whole = data + frame[cut:] + frame
    at = 0
    for found in walk(whole, 0, len(whole)):
        if isinstance(found, DamagedBytes):
            assert found.at == at < found.end
            at = found.end
        else:
            assert found[0] == at
            at += found[1].end
    assert at == len(whole)


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


@pytest.mark.parametrize("at", [0, 2, 6, 9, 14])
def test_a_payload_that_looks_like_a_batch_is_not_read_as_one_whatever_is_damaged(
    tmp_path: Path, at: int
) -> None:
    """The collector noted it before it was appended; its length need not be right."""
    log = MessageLog(tmp_path / "spool", segment_bytes=300, mark=True)
    log.open()
    inner = batch.encode("gw-evil", 1, 1, [Entry("t", b"1")], flags=1, origin_time_us=0)
    hurt = 0, tmp_path
    for number in range(1, 13):
        if number == 7:
            hurt = log.position, max(log.folder.glob("*.log"))
        payload = inner * 2 if number == 7 else b""
        rows = [Entry("t", payload)]
        frame = batch.encode("gw-a", 1, number, rows, flags=Flags.LOGGED, origin_time_us=0)
        log.append(frame, batch.check(frame))
    log.sync()
    log.close()
    position, path = hurt
    data = bytearray(path.read_bytes())
    data[position - int(path.stem) + at] ^= 0x10
    path.write_bytes(data)
    found = [one for one in stamps(log.folder) if not isinstance(one, DamagedBytes)]
    assert found == [("gw-a", number, number) for number in range(1, 13) if number != 7]


def test_behind_damage_no_more_is_searched_than_frames_that_are_none_claim() -> None:
    """Each claims to be long, and is not whole: to check it costs as many bytes."""
    good = batch.encode("gw-a", 1, 1, [Entry("t", b"1")], flags=1, origin_time_us=0)
    large = bytearray(
        batch.encode("gw-a", 1, 1, [Entry("t", bytes(400_000))], flags=1, origin_time_us=0)
    )
    large[-1] ^= 1
    times = SEARCH_BYTES // len(large)
    head = bytes(large[:40])
    for many, is_found in ((times - 2, True), (times + 2, False)):
        data = b"damage" + head * many + bytes(len(large)) + good
        found = list(walk(data, 0, len(data)))
        assert isinstance(found[0], DamagedBytes)
        assert (found[0].end == len(data) - len(good)) == is_found
