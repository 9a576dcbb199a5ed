from __future__ import annotations

import errno
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log.message_log import LogError, MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over


def make(
    first: int,
    count: int = 1,
    *,
    origin: str = "gw",
    size: int = 10,
    flags: int = Flags.LOGGED,
) -> tuple[bytes, Header]:
    entries = [Entry(f"t/{first + i}", bytes(size), 1) for i in range(count)]
    frame = batch.encode(origin, 1, first, entries, flags=flags, origin_time_us=0)
    return frame, batch.check(frame)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "log"


def opened(folder: Path, **options: int) -> MessageLog:
    log = MessageLog(folder, **options)
    log.open()
    return log


def test_what_was_appended_is_there_after_the_next_start(folder: Path) -> None:
    log = opened(folder)
    frames = [make(1, 3), make(4), make(1, origin="other")]
    for frame, header in frames:
        log.append(frame, header)
    log.close()
    again = opened(folder)
    assert again.have == {("gw", 1): Intervals([(1, 4)]), ("other", 1): Intervals([(1, 1)])}
    assert [frame for frame, _ in again.read(("gw", 1), Intervals([(1, 9)]))] == [
        frames[0][0],
        frames[1][0],
    ]
    again.close()


def test_messages_between_gateways_are_a_stream_of_their_own(folder: Path) -> None:
    log = opened(folder, segment_bytes=150)
    control = Flags.LOGGED | Flags.CONTROL
    for n in (1, 2, 3):
        log.append(*make(n))
        log.append(*make(n, flags=control))
    log.close()
    again = opened(folder, segment_bytes=150)
    assert again.have == {(name, 1): Intervals([(1, 3)]) for name in ("gw", "$gw")}
    read = [header for _, header in again.read(("$gw", 1), Intervals([(2, 3)]))]
    assert [(header.control, header.first) for header in read] == [(True, 2), (True, 3)]
    assert len(list(again.control())) == 3
    again.close()


@pytest.mark.parametrize("left", [1, 11, 12, 13, 30])
def test_a_torn_tail_is_cut_and_appending_goes_on_behind_it(folder: Path, left: int) -> None:
    log = opened(folder)
    log.append(*make(1))
    log.close()
    (segment,) = folder.glob("*.log")
    whole = segment.stat().st_size
    torn, _ = make(2)
    with segment.open("ab") as file:
        file.write(torn[:left])
    again = opened(folder)
    assert (again.cut_bytes, segment.stat().st_size) == (left, whole)
    again.append(*make(2))
    again.close()
    assert opened(folder).have == {("gw", 1): Intervals([(1, 2)])}


def test_a_tail_of_garbage_is_cut(folder: Path) -> None:
    log = opened(folder)
    log.append(*make(1))
    log.close()
    (segment,) = folder.glob("*.log")
    with segment.open("ab") as file:
        file.write(bytes(500))
    again = opened(folder)
    assert again.cut_bytes == 500
    assert again.have == {("gw", 1): Intervals([(1, 1)])}


@pytest.mark.parametrize("indexes", ["kept", "deleted", "damaged"])
def test_a_start_knows_every_segment_with_or_without_its_index(folder: Path, indexes: str) -> None:
    log = opened(folder, segment_bytes=400)
    for n in range(1, 41):
        log.append(*make(n))
    log.close()
    assert len(list(folder.glob("*.log"))) > 3
    for index in folder.glob("*.index"):
        if indexes == "deleted":
            index.unlink()
        elif indexes == "damaged":
            index.write_bytes(b"\x00\x00\x00\x03nonsense")
    again = opened(folder, segment_bytes=400)
    assert again.have == {("gw", 1): Intervals([(1, 40)])}
    headers = [header for _, header in again.read(("gw", 1), Intervals([(7, 9), (33, 33)]))]
    assert [header.first for header in headers] == [7, 8, 9, 33]


def by_start(folder: Path, segment_bytes: int) -> dict[str, object]:
    """All that a start knows."""
    log = opened(folder, segment_bytes=segment_bytes)
    told: dict[str, object] = {
        "have": log.have,
        "kept from": log.kept_from(),
        "control": list(log.control()),
        "length": log.length,
        "position": log.position,
    }
    for key in log.have:
        wanted = Intervals([(3, 11), (17, 17), (20, 200)])
        told[f"read {key}"] = list(log.read(key, wanted))
        for number in (1, 5, 9, 14):
            told[f"{number} of {key}"] = list(log.read(key, Intervals([(number, number)])))
    log.close()
    return told


batches = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(1, 30),
        st.integers(1, 4),
        st.sampled_from(
            [Flags.LOGGED, Flags.LOGGED | Flags.CONTROL, Flags.PASSED, Flags.LOCAL, Flags.NONE]
        ),
    ),
    min_size=1,
    max_size=40,
)


@settings(deadline=None)
@given(batches)
def test_an_index_tells_a_start_what_its_segment_does(
    appended: list[tuple[str, int, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "log"
        log = opened(folder, segment_bytes=300)
        for origin, first, count, flags in appended:
            if flags & Flags.PASSED:
                log.append(*batch.passed((origin, 1), first, first + count - 1))
            else:
                log.append(*make(first, count, origin=origin, flags=flags))
        log.close()
        with_indexes = by_start(folder, 300)
        for index in folder.glob("*.index"):
            index.unlink()
        assert by_start(folder, 300) == with_indexes


WRONG = {
    "of another segment": lambda start, length, rest: [start + 1, length, *rest],
    "of a segment of another length": lambda start, length, rest: [start, length - 1, *rest],
    "with a batch outside": lambda start, length, rest: [start, length, [length], *rest[1:]],
    "with numbers that never were": lambda start, length, rest: [start, length, *rest[:2], []],
    "without a field": lambda start, length, rest: [start, length, *rest[:2]],
    "of other types": lambda start, length, rest: [start, length, "x", 7, None],
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_an_index_that_cannot_be_right_is_not_believed(
    folder: Path, change: Callable[[int, int, list[object]], list[object]]
) -> None:
    log = opened(folder, segment_bytes=400)
    for n in range(1, 41):
        log.append(*make(n))
    log.close()
    before = by_start(folder, 400)
    for index in folder.glob("*.index"):
        start, length, *rest = msgpack.unpackb(index.read_bytes()[4:])
        packed = msgpack.packb(change(start, length, rest))
        index.write_bytes(zlib.crc32(packed).to_bytes(4, "big") + packed)
    assert by_start(folder, 400) == before


def test_an_index_that_stands_beside_another_segment_is_not_believed(folder: Path) -> None:
    log = opened(folder, segment_bytes=400)
    for n in range(1, 41):
        log.append(*make(n))
    log.close()
    before = by_start(folder, 400)
    indexes = sorted(folder.glob("*.index"))
    told = [index.read_bytes() for index in indexes]
    for index, other in zip(indexes, [*told[1:], told[0]], strict=True):
        index.write_bytes(other)
    assert by_start(folder, 400) == before


@pytest.mark.parametrize("needed", [0, 1, 7, 20, 39, 40])
def test_nothing_is_trimmed_that_the_next_start_needs(folder: Path, needed: int) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=800)
    positions = []
    for n in range(1, 41):
        positions.append(log.position)
        log.append(*make(n))
    positions.append(log.position)
    log.sync()
    log.may_trim(positions[needed])
    log.trim()
    log.close()
    again = opened(folder, segment_bytes=400, max_bytes=800)
    found = [header.first for _, header in again.read_from(positions[needed])]
    assert found == list(range(needed + 1, 41))
    again.close()


def test_a_position_before_a_number_is_where_its_segment_begins(folder: Path) -> None:
    log = opened(folder, segment_bytes=400)
    for n in range(1, 41):
        log.append(*make(n))
    starts = sorted(int(path.stem) for path in folder.glob("*.log"))
    for n in (1, 7, 40):
        at = log.where(("gw", 1), n)
        assert at in starts
        assert n in [header.first for _, header in log.read_from(at)]
        later = [start for start in starts if start > at]
        assert not later or n not in [h.first for _, h in log.read_from(later[0])]
    assert log.where(("gw", 1), 41) == log.where(("gw", 2), 1) == log.position
    log.close()


def test_trimming_deletes_whole_segments_and_remembers_what_they_held(folder: Path) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=1000)
    for n in range(1, 41):
        log.append(*make(n))
    log.sync()
    assert log.trim()
    assert log.length <= 1000
    kept_from = log.kept_from()["gw", 1]
    assert 20 < kept_from <= 40
    log.close()
    again = opened(folder, segment_bytes=400, max_bytes=1000)
    assert again.have == {("gw", 1): Intervals([(1, 40)])}
    assert again.kept_from() == {("gw", 1): kept_from}
    assert not again.trim()


def test_what_was_trimmed_is_remembered_though_the_last_segments_have_no_index_yet(
    folder: Path,
) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=1000)
    for n in range(1, 41):
        log.append(*make(n))
    log.trim()
    crashed = opened(_copied(folder), segment_bytes=400, max_bytes=1000)
    assert crashed.have == {("gw", 1): Intervals([(1, 40)])}


def _copied(folder: Path) -> Path:
    """Copy the log as a kill would leave it, and return the folder of the copy."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    return copy


def test_batches_that_repair_brought_in_any_order_are_read_in_sequence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.log.scan.IN_SEQUENCE", 3)
    log = opened(folder)
    for first, count in ((9, 3), (8, 1), (1, 2), (4, 4), (3, 1)):
        log.append(*make(first, count))
    assert [header.first for _, header in log.in_sequence(("gw", 1), 1, 11)] == [1, 3, 4, 8, 9]
    assert [header.first for _, header in log.in_sequence(("gw", 1), 5, 10)] == [4, 8, 9]


def test_numbers_that_are_passed_over_are_not_gone_through_one_by_one(folder: Path) -> None:
    log = opened(folder)
    far = 3 * batch.MAX_PASSED
    log.append(*make(far + 1))
    for first in (1, batch.MAX_PASSED + 1, 2 * batch.MAX_PASSED + 1):
        log.append(*batch.passed(("gw", 1), first, first + batch.MAX_PASSED - 1))
    log.append(*make(7))  # it was on its way when its number was given up
    found = [header for _, header in log.in_sequence(("gw", 1), 1, far + 1)]
    assert [header.first for header in found if not header.passed] == [7, far + 1]


def test_a_second_process_is_refused(folder: Path) -> None:
    log = opened(folder)
    with pytest.raises(LogError, match="in use by another process"):
        opened(folder)
    log.close()
    opened(folder).close()


def test_the_mark_tells_readers_how_far_the_newest_segment_is_synced(folder: Path) -> None:
    log = opened(folder, mark=True)
    frame, header = make(1)
    log.append(frame, header)
    name = next(folder.glob("*.log")).name
    assert (folder / "synced").exists() is False or (folder / "synced").read_text() == f"{name} 0\n"
    log.sync()
    assert (folder / "synced").read_text() == f"{name} {len(frame)}\n"


def test_a_mark_that_can_not_be_read_now_is_not_taken_for_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(folder, mark=True)
    frame, header = make(1)
    log.append(frame, header)
    log.sync()
    log.close()
    segment = next(folder.glob("*.log"))
    segment.write_bytes(b"")  # what readers were told to be safe is gone
    read = Path.read_text

    def full(path: Path, *how: str) -> str:
        if path.name == "synced":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return read(path, *how)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", full)
        with pytest.raises(LogError, match="synced: Too many open files"):
            opened(folder, mark=True)
    opened(folder, mark=True)
    assert segment.stat().st_size == len(frame), "readers have gone on from there"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a Linux device")
def test_a_full_disk_refuses_the_append_and_names_the_file(folder: Path) -> None:
    log = opened(folder)
    log.append(*make(1))
    (segment,) = folder.glob("*.log")
    full = os.open("/dev/full", os.O_WRONLY)
    for fd in Path("/proc/self/fd").iterdir():
        if fd.exists() and fd.samefile(segment):
            os.dup2(full, int(fd.name))
    os.close(full)
    with pytest.raises(LogError, match="No space left"):
        log.append(*make(2))
    assert log.have == {("gw", 1): Intervals([(1, 1)])}


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(LogError, match=str(tmp_path / "log")):
        opened(tmp_path / "log")


def test_streams_that_are_over_are_not_remembered_and_a_start_learns_so_from_the_notes(
    folder: Path,
) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=1000)
    for epoch in range(1, 60):
        frame, header = batch.make(
            "gw", epoch, 1, [("t", 1, bytes(50))], flags=Flags.LOGGED, origin_time_us=0
        )
        log.append(frame, header)
        if log.trim():
            kept_from = log.kept_from()
            over = {e for (name, e), first in kept_from.items() if name == "gw" and first > 1}
            for note in epochs_over.notes(log.have, "gw", over, []):
                log.append(*note)
                log.forget(("gw", one) for one in over)
    assert len(log.have) < 20
    log.sync()
    for again in (opened(_copied(folder)), log):
        assert ("gw", 59) in again.have
        assert ("gw", 1) not in again.have
        assert again.have[epochs_over.note_of("gw")].covers(1, 40)
        assert again.have == log.have


def test_what_a_start_needs_keeps_the_log_within_its_limit(folder: Path) -> None:
    """Without a checkpoint nothing is trimmed, so the log refuses appends in the end."""
    log = MessageLog(folder, segment_bytes=400, max_bytes=800, limit_bytes=1_600)
    log.open()
    log.may_trim(0)
    n = 0
    with pytest.raises(LogError, match="no checkpoint could be written"):
        for n in range(1, 1_000):
            log.append(*make(n))
            log.trim()
    assert log.length < 1_600 + 400 + 100
    log.append(*make(n, flags=Flags.LOCAL))  # a frame of the journal, which a checkpoint needs
    assert [header.first for _, header in log.read(("gw", 1), Intervals([(1, n)]))] == [
        *range(1, n)
    ]
    log.sync()
    log.may_trim(log.position)
    assert log.trim()
    log.append(*make(n))
    assert log.length < 1_600
    log.close()


def test_the_newest_index_is_never_trimmed_for_it_tells_what_was_before(folder: Path) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=100)
    for n in range(1, 41):
        log.append(*make(n))
        log.sync()
        log.trim()
    log.close()
    again = opened(folder, segment_bytes=400, max_bytes=100)
    assert again.have == {("gw", 1): Intervals([(1, 40)])}
    again.close()


def test_a_segment_that_a_kill_left_half_written_again_is_removed_and_nothing_else(
    folder: Path,
) -> None:
    log = opened(folder)
    log.append(*make(1))
    log.close()
    left = folder / f"{0:020d}.log.4711.new"
    others = [folder / name for name in ("mine.log.1.new", f"{0:019d}.log.1.new")]
    for path in (left, *others):
        path.write_bytes(b"half")
    opened(folder).close()
    assert [path.exists() for path in (left, *others)] == [False, True, True]


def test_an_index_that_a_power_cut_gave_back_to_a_trimmed_segment_goes_too(folder: Path) -> None:
    log = opened(folder, segment_bytes=400, max_bytes=1000)
    for n in range(1, 41):
        log.append(*make(n))
        log.sync()
    indexes = {path: path.read_bytes() for path in sorted(folder.glob("*.index"))}
    assert log.trim()
    log.close()
    trimmed = [path for path in indexes if not path.exists()]
    assert len(trimmed) > 1
    for path in trimmed:
        path.write_bytes(indexes[path])
    again = opened(folder, segment_bytes=400, max_bytes=1000)
    assert not [path for path in trimmed if path.exists()]
    assert (again.lost_messages, again.damaged_bytes) == (0, 0)
    again.close()


def test_a_log_counts_what_was_appended_and_forced_to_the_disk_and_lets_go_of_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    fdatasync = os.fdatasync

    def noted(fd: int) -> None:
        forced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fdatasync(fd)

    def held() -> int:
        return sum(
            one.is_symlink() and one.readlink().is_relative_to(folder)
            for one in Path("/proc/self/fd").iterdir()
        )

    log = opened(folder)
    assert (log.appends, log.appended_bytes, log.cut_bytes, log.failure) == (0, 0, 0, "")
    syncs = sum(log.syncs.counts)
    size = 0
    for n in range(1, 4):
        frame, header = make(n)
        log.append(frame, header)
        size += len(frame)
    assert (log.appends, log.appended_bytes, log.length, log.position) == (3, size, size, size)
    before = held()
    monkeypatch.setattr(os, "fdatasync", noted)
    finish = log.start_sync()
    assert (forced, held()) == ([], before + 1)
    finish()
    assert forced == [f"{0:020d}.log"]
    assert (sum(log.syncs.counts), held()) == (syncs + 1, before)
    log.close()
    assert held() == 0


def test_a_segment_is_sealed_at_8_mib_and_256_mib_are_kept_unless_said_otherwise(
    folder: Path,
) -> None:
    log = opened(folder)
    assert log.max_bytes == 256 << 20
    frame, header = make(1, size=1 << 20)
    while log.position + len(frame) < 8 << 20:
        log.append(frame, header)
    log.append(frame, header)
    assert len(list(folder.glob("*.log"))) == 1
    log.append(frame, header)
    assert len(list(folder.glob("*.log"))) == 2
    log.close()
