"""A trigger reads each spool up to its part, and reads another spool from its first byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from cloud_ingest.job.source import SpoolStream, fair_shares

MANY = 1 << 30


def rows(stream: SpoolStream, start: Any, end: Any) -> list[Any]:
    return [row for part in stream.partitions(start, end) for row in stream.read(part)]


def read_on(stream: SpoolStream, start: Any, max_bytes: int = MANY) -> tuple[Any, list[Any]]:
    end = stream.latestOffset(start, ReadMaxBytes(max_bytes))
    return end, rows(stream, start, end)


def fill(spool: Any, batches: int, first: int = 1, origin: str = "gw-a") -> None:
    for number in range(first, first + batches):
        spool.readings(origin, 1, number)
        spool.roll()
    spool.sync()


def replaced(spool: Any, batches: int) -> None:
    """Another disk in the folder of a spool, with what its collector wrote since."""
    for path in spool.folder.iterdir():
        path.unlink()
    spool.start = spool.length = 0
    if batches:
        fill(spool, batches, first=1_000)


@pytest.mark.parametrize("batches", [2, 3, 9])
def test_a_replaced_disk_is_read_from_its_first_byte_however_long_it_is(
    spool: Any, batches: int
) -> None:
    fill(spool, 3)
    stream = SpoolStream([str(spool.folder)], MANY)
    end, _ = read_on(stream, stream.initialOffset())
    replaced(spool, batches)
    again, found = read_on(stream, end)
    assert sum(last - first for _, _, first, last in found) == spool.start
    assert stream.latestOffset(again, ReadMaxBytes(MANY)) == again


def test_a_spool_that_grows_or_is_trimmed_is_read_on_where_it_was(spool: Any) -> None:
    fill(spool, 3)
    stream = SpoolStream([str(spool.folder)], MANY)
    end, _ = read_on(stream, stream.initialOffset())
    old = spool.start
    fill(spool, 2, first=4)
    for path in sorted(spool.folder.glob("*.log"))[:4]:
        path.unlink()
    _, found = read_on(stream, end)
    assert [int(row[1].partition(".")[0]) for row in found] > [old]


def test_the_bare_positions_of_a_checkpoint_of_before_are_read_on(spool: Any) -> None:
    fill(spool, 3)
    stream = SpoolStream([str(spool.folder)], MANY)
    end, found = read_on(stream, {str(spool.folder): spool.start})
    assert not found
    assert stream.latestOffset(end, ReadMaxBytes(MANY)) == end


def test_of_several_spools_that_catch_up_each_has_its_share_of_a_trigger(
    spool: Any, tmp_path: Path
) -> None:
    spools = [spool, *(type(spool)(tmp_path / f"spool-{number}") for number in range(2))]
    for each, batches in zip(spools, (90, 90, 4), strict=True):
        fill(each, batches)
    folders = [str(each.folder) for each in spools]
    size = spools[2].start // 4
    stream = SpoolStream(folders, 24 * size)
    end, _ = read_on(stream, stream.initialOffset(), 24 * size)
    read = [end[folder][0] for folder in folders]
    assert read[2] == spools[2].start
    assert min(read[:2]) >= 8 * size
    assert sum(read) <= 24 * size


def test_a_share_that_one_does_not_want_goes_to_the_others() -> None:
    assert fair_shares({"a": 100, "b": 2, "c": 30}, 90) == {"b": 2, "c": 30, "a": 58}
    assert fair_shares({"a": 100, "b": 100}, 50) == {"a": 25, "b": 25}
    assert fair_shares({"a": 1, "b": 0}, 50) == {"b": 0, "a": 1}
    assert fair_shares({}, 50) == {}


def test_a_replaced_disk_with_the_same_bytes_before_the_place_is_read_from_its_first_byte(
    spool: Any,
) -> None:
    named = spool.folder / "identity"
    named.write_text("a" * 32)
    spool.readings("gw-a", 1, 1)
    spool.roll()
    spool.readings("gw-a", 1, 2)
    spool.sync()
    stream = SpoolStream([str(spool.folder)], MANY)
    end, _ = read_on(stream, stream.initialOffset())
    replaced(spool, 0)
    named.write_text("b" * 32)
    spool.readings("gw-b", 1, 1)
    spool.roll()
    spool.readings("gw-a", 1, 2)
    spool.sync()
    again, found = read_on(stream, end)
    assert [row[2] for row in found] == [0, 0]
    assert stream.latestOffset(again, ReadMaxBytes(MANY)) == again


def test_a_spool_that_has_no_name_yet_and_gets_one_is_read_on_where_it_was(spool: Any) -> None:
    fill(spool, 3)
    stream = SpoolStream([str(spool.folder)], MANY)
    end, _ = read_on(stream, stream.initialOffset())
    (spool.folder / "identity").write_text("a" * 32)
    fill(spool, 1, first=4)
    _, found = read_on(stream, end)
    assert len(found) == 1


def test_a_folder_whose_disk_is_not_mounted_is_read_on_where_it_was_when_it_is_back(
    spool: Any,
) -> None:
    fill(spool, 3)
    stream = SpoolStream([str(spool.folder)], MANY)
    end, _ = read_on(stream, stream.initialOffset())
    aside = spool.folder.with_name("aside")
    spool.folder.rename(aside)
    spool.folder.mkdir()
    empty, found = read_on(stream, end)
    assert not found
    assert empty == end
    spool.folder.rmdir()
    aside.rename(spool.folder)
    fill(spool, 1, first=4)
    _, found = read_on(stream, empty)
    assert len(found) == 1
