"""A repair reads the pages of the log that hold what is asked for, and misses nothing."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.log.message_log import MessageLog
from gateway.log.segment import PAGE_BYTES, Segment
from tree_handler import batch
from tree_handler.batch import Flags
from tree_handler.intervals import Intervals

STREAMS = ("a", "b", "c")


def made(origin: str, first: int, count: int, size: int) -> tuple[bytes, batch.Header]:
    rows = [("t", 1, bytes(size))] * count
    return batch.make(origin, 1, first, rows, flags=Flags.LOGGED, origin_time_us=0)


def filled(folder: Path, batches: list[tuple[str, int, int, int]]) -> MessageLog:
    log = MessageLog(folder, segment_bytes=3 * PAGE_BYTES)
    log.open()
    for origin, first, count, size in batches:
        log.append(*made(origin, first, count, size))
    return log


appended = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.integers(1, 200),
        st.integers(1, 5),
        st.sampled_from([10, 5_000, 20_000]),
    ),
    max_size=60,
)
wanted = st.lists(st.tuples(st.integers(1, 210), st.integers(0, 20)), min_size=1, max_size=4)


@given(batches=appended, asked=wanted, restarts=st.booleans())
def test_every_batch_that_holds_a_wanted_number_is_read_in_the_order_of_the_log(
    tmp_path_factory: object,
    batches: list[tuple[str, int, int, int]],
    asked: list[tuple[int, int]],
    restarts: bool,
) -> None:
    folder = tmp_path_factory.mktemp("log")  # type: ignore[attr-defined]  # a pytest factory
    log = filled(folder, batches)
    if restarts:
        log.close()
        log = filled(folder, [])
    ranges = Intervals((first, first + more) for first, more in asked)
    try:
        for _ in range(2):  # the first reading after a start learns where numbers stand
            for origin in STREAMS:
                expected = [
                    (first, count)
                    for one, first, count, _ in batches
                    if one == origin
                    and ranges.missing(first, first + count - 1) != [(first, first + count - 1)]
                ]
                found = [(h.first, h.count) for _, h in log.read((origin, 1), ranges)]
                assert found == expected
    finally:
        log.close()


def test_the_newest_messages_are_read_from_one_page_and_not_from_a_whole_segment(
    tmp_path: Path,
) -> None:
    log = MessageLog(tmp_path)
    log.open()
    try:
        for number in range(1, 5_001):
            log.append(*made("a", number, 1, 64))
        newest = Intervals([(4_999, 5_000)])
        (segment,) = tmp_path.glob("*.log")
        length = segment.stat().st_size
        assert length > 8 * PAGE_BYTES
        # Who read what stands before these pages would meet damage.
        with segment.open("r+b") as file:
            file.write(bytes(length - 2 * PAGE_BYTES))
        assert [header.first for _, header in log.read(("a", 1), newest)] == [4_999, 5_000]
        assert log.is_whole_from(0)
    finally:
        log.close()


def test_a_batch_that_begins_just_where_a_page_is_full_begins_the_next_one(tmp_path: Path) -> None:
    segment = Segment(tmp_path, 0)
    for number, at in enumerate((0, PAGE_BYTES - 1, PAGE_BYTES), 1):
        segment.note(at, made("a", number, 1, 10)[1])
    assert segment.stretches(("a", 1), Intervals([(2, 2)])) == [(0, PAGE_BYTES)]
    assert segment.stretches(("a", 1), Intervals([(3, 3)])) == [(PAGE_BYTES, segment.length)]
