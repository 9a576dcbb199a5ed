"""A checkpoint of Spark's is of the tables beside it, or it is set aside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cloud_ingest.job import checkpoint


def checkpoint_of(folder: Path, done: int, begun: int, metadata: str = '{"id": "7"}') -> Path:
    (folder / "metadata").write_text(metadata)
    for name, last in (("commits", done), ("offsets", begun)):
        (folder / name).mkdir()
        for number in range(last + 1):
            (folder / name / str(number)).write_text("v1\n{}\n{}")
    return folder


@pytest.mark.parametrize(
    ("last_of_the_tables", "fits"), [(1, False), (2, True), (3, True), (4, False)]
)
def test_tables_have_what_it_has_done_and_nothing_that_it_has_not_begun(
    tmp_path: Path, last_of_the_tables: int, fits: bool
) -> None:
    asked: list[str] = []

    def last_batch(query: str) -> int:
        asked.append(query)
        return last_of_the_tables

    made = checkpoint_of(tmp_path, done=2, begun=3)
    assert checkpoint.fits(made, last_batch) is fits
    assert asked == [checkpoint.query_of("7")]


@pytest.mark.parametrize("metadata", ["", "[]", "{}", '"id"', "\N{NULL}"])
def test_what_spark_can_not_read_is_left_to_spark(tmp_path: Path, metadata: str) -> None:
    assert checkpoint.fits(checkpoint_of(tmp_path, 2, 3, metadata), lambda _: 9)


def test_where_no_checkpoint_is_nothing_is_set_aside(tmp_path: Path) -> None:
    assert checkpoint.fits(tmp_path / "none", lambda _: 9)
    (tmp_path / "file").write_text(json.dumps({}))
    assert checkpoint.fits(tmp_path / "file", lambda _: 9)
