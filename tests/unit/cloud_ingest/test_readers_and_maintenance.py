"""Whoever reads the tables finds the same rows after each kind of maintenance."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from readers import MAINTENANCE, READERS, WHERE, filtered, rows_of, write_tables

from cloud_ingest.query import frame
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.store import TableStore

BEFORE = (
    *("compaction", "a gateway forgotten", "days deleted", "quarantine read again"),
    *("restored", "all of it"),
)
"""Kinds that are tried on tables of before, too: the others begin as one of these."""


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    made = {}
    for as_before in (False, True):
        made[as_before] = tmp_path_factory.mktemp("tables") / "tables"
        write_tables(made[as_before], as_before=as_before)
    return made


def copied(templates: dict[bool, Path], folder: Path, *, as_before: bool) -> TableStore:
    shutil.copytree(templates[as_before], folder / "tables")
    return TableStore(str(folder / "tables"))


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("maintenance", "as_before"),
    [*((name, False) for name in MAINTENANCE), *((name, True) for name in BEFORE)],
    ids=[*MAINTENANCE, *(f"{name}, of before" for name in BEFORE)],
)
def test_each_documented_reader_reads_after_each_kind_of_maintenance(
    maintenance: str, as_before: bool, templates: dict[bool, Path], tmp_path: Path
) -> None:
    store = copied(templates, tmp_path, as_before=as_before)
    MAINTENANCE[maintenance](store)
    asked = DeltaTable(store.at("telemetry").uri).protocol()  # what readers go by that aren't here
    assert (asked.min_reader_version, asked.min_writer_version) == (1, 2)
    assert not asked.reader_features
    rows = rows_of(store)
    assert len(filtered(rows)) >= 4
    for name, read in READERS.items():
        assert read(store, None) == rows, name
        assert read(store, WHERE) == filtered(rows), name
    for library in ("arrow", "polars", "pandas"):
        found = frame(store.uri, "hall/t", as_=library)
        told = found["value"].to_pylist() if library == "arrow" else found["value"].to_list()
        assert len(told) == len([row for row in rows if row[1] % 10 < 2])


def test_before_any_maintenance_each_reader_reads_what_the_job_wrote(
    templates: dict[bool, Path], tmp_path: Path
) -> None:
    store = copied(templates, tmp_path, as_before=False)
    rows = rows_of(store)
    for name, read in READERS.items():
        assert read(store, None) == rows, name


def test_what_stood_elsewhere_is_carried_over_once_and_nothing_is_written_again(
    templates: dict[bool, Path], tmp_path: Path
) -> None:
    store = copied(templates, tmp_path, as_before=True)
    rows = rows_of(store)
    upkeep.compact(store)
    where = store.at("telemetry").uri
    files = {Path(uri) for uri in DeltaTable(where).file_uris()}
    assert {path.parent.parent.parent for path in files} == {Path(where)}
    upkeep.compact(store)
    assert {Path(uri) for uri in DeltaTable(where).file_uris()} == files
    assert rows_of(store) == rows
