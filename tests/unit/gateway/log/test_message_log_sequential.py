"""The log is read on from a position, in pieces, past what is damaged or was trimmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.log.damage import Damage
from gateway.log.inner_starts import InnerStarts
from gateway.log.message_log import LogError, MessageLog
from gateway.log.sequential import read_piece
from tree_handler import batch
from tree_handler.batch import Flags, Header


def made(first: int, payload_bytes: int) -> tuple[bytes, Header]:
    rows = [("t", 1, bytes(payload_bytes))]
    return batch.make("gw", 1, first, rows, flags=Flags.LOGGED, origin_time_us=1)


def read_all(log: MessageLog, position: int, limit_bytes: int) -> list[int]:
    """The numbers of all batches from a position on."""
    found: list[int] = []
    while position < log.position:
        batches, after = log.reading_on(position, limit_bytes)()
        assert after > position
        assert all(batch.check(frame) == header for frame, header in batches)
        found += [header.first for _, header in batches]
        position = after
    return found


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=40),
    limit_bytes=st.integers(1, 5_000),
    segment_bytes=st.integers(500, 10_000),
)
def test_every_batch_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    limit_bytes: int,
    segment_bytes: int,
) -> None:
    log = MessageLog(tmp_path_factory.mktemp("log"), segment_bytes=segment_bytes)
    log.open()
    positions = []
    for number, size in enumerate(sizes, 1):
        positions.append(log.position)
        log.append(*made(number, size))
    for number, position in enumerate(positions, 1):
        assert read_all(log, position, limit_bytes) == list(range(number, len(sizes) + 1))
    log.close()


@pytest.fixture
def log(tmp_path: Path) -> MessageLog:
    log = MessageLog(tmp_path / "log", segment_bytes=1_000, max_bytes=3_000)
    log.open()
    for number in range(1, 21):
        log.append(*made(number, 400))
    return log


def test_what_is_appended_meanwhile_is_read_by_the_next_piece(log: MessageLog) -> None:
    position = log.position
    log.append(*made(21, 100))
    read = log.reading_on(position, 1_000)
    log.append(*made(22, 100))
    batches, after = read()
    assert [header.first for _, header in batches] == [21]
    assert read_all(log, after, 1_000) == [22]


def test_what_was_trimmed_is_passed_over(log: MessageLog) -> None:
    assert log.trim()
    found = read_all(log, 0, 1_000)
    assert found == list(range(found[0], 21))
    assert found[0] > 1


def test_a_segment_that_goes_while_it_is_to_be_read_is_a_log_error(log: MessageLog) -> None:
    read = log.reading_on(0, 1_000)
    assert log.trim()
    with pytest.raises(LogError):
        read()


@pytest.mark.parametrize(
    ("where", "lost"),
    [(20, {4}), (0, {4}), (7, {4})],  # in a batch's header, at its start, in its length
)
def test_what_is_damaged_is_left_out_and_the_rest_is_read(
    log: MessageLog, where: int, lost: set[int]
) -> None:
    segment = sorted(log.folder.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[where] ^= 0xFF
    segment.write_bytes(data)
    assert read_all(log, 0, 700) == [n for n in range(1, 21) if n not in lost]


@pytest.mark.parametrize("limit_bytes", [1, 500, 700, 900])
def test_a_piece_ends_with_the_batch_that_fills_it_behind_damage_too(
    tmp_path: Path, limit_bytes: int
) -> None:
    log = MessageLog(tmp_path / "log", segment_bytes=10_000)
    log.open()
    for number in range(1, 11):
        log.append(*made(number, 400))
    [segment] = log.folder.glob("*.log")
    frame_bytes = segment.stat().st_size // 10
    data = bytearray(segment.read_bytes())
    data[0] ^= 0xFF
    segment.write_bytes(data)
    position, sizes = 0, []
    while position < log.position:
        _, after = log.reading_on(position, limit_bytes)()
        sizes.append(after - position)
        position = after
    whole = max(limit_bytes // frame_bytes, 1)
    assert sizes[0] == frame_bytes * (1 if limit_bytes < frame_bytes else 2)
    assert {size // frame_bytes for size in sizes[1:]} == {whole}
    assert sum(sizes) == 10 * frame_bytes
    log.close()


PIECES: list[tuple[int, int, int | None, list[int], int, int]] = [
    (0, 1, None, [1], 1, 0),
    (0, 99, None, [1], 1, 0),
    (0, 100, None, [1], 1, 0),
    (0, 199, None, [1], 1, 0),
    (0, 200, None, [1, 2], 2, 0),
    (100, 200, None, [2, 3], 3, 0),
    (100, 999, None, [2, 3, 4], 4, 0),
    (300, 50, None, [4], 4, 0),
    (0, 200, 2, [1], 1, 0),  # what is damaged may go on behind the piece
    (0, 300, 2, [1, 3], 3, 1),
    (100, 50, 2, [], 2, 1),
    (100, 150, 2, [3], 3, 1),
    (300, 50, 4, [], 4, 1),  # nothing is behind it
    (0, 999, 4, [1, 2, 3], 4, 1),
]
"""Its beginning and its limit in hundredths of a batch; which batch is damaged; which are read,
and behind how many the next stands; whether the damage is noted."""


@pytest.mark.parametrize(("at", "limit", "damaged", "found", "behind", "noted"), PIECES)
def test_a_piece_has_the_whole_batches_within_its_limit_and_one_at_least(
    tmp_path: Path,
    at: int,
    limit: int,
    damaged: int | None,
    found: list[int],
    behind: int,
    noted: int,
) -> None:
    frames = [made(number, 200)[0] for number in range(1, 6)]
    size = len(frames[0])
    data = bytearray(b"".join(frames))
    if damaged is not None:
        data[(damaged - 1) * size] ^= 0xFF
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    inner = InnerStarts(tmp_path)
    inner.load(is_new=True)
    damage = Damage(inner)
    piece, after = read_piece(path, at * size // 100, 4 * size, limit * size // 100, damage)
    assert [header.first for _, header in piece] == found
    assert [frame for frame, _ in piece] == [frames[number - 1] for number in found]
    assert after == behind * size
    told = {} if damaged is None or not noted else {path: (damaged - 1, damaged)}
    met = {path: [(begin * size, end * size - 1)] for path, (begin, end) in told.items()}
    assert {path: list(bad) for path, bad in damage.segments.items()} == met
