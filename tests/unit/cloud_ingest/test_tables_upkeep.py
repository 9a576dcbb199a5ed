"""Upkeep has rewritten rows on the disk before it deletes any file that held them."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from readers import put_as_before

from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.partition_columns import PartitionColumns
from cloud_ingest.tables import synced, upkeep
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.schemas import FILE_COLUMNS, PARTITIONS, TELEMETRY
from cloud_ingest.tables.store import TableStore, sync_file
from cloud_ingest.tables.upkeep import UpkeepSettings

COMMITS = 6
"""Those that `store` has made."""
DAYS = [datetime.date(2026, 11, 1), datetime.date(2026, 11, 2)]


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """Telemetry of two gateways in two days, each row in a file of its own but for the last two."""
    for origins in (["gw-a"], ["gw-b"], ["gw-a", "gw-b"]):
        for day in DAYS:
            rows = {"origin": origins, "day": [day] * len(origins)}
            write_deltalake(
                str(tmp_path / "telemetry"), pa.table(rows), mode="append", partition_by=["day"]
            )
    return TableStore(str(tmp_path))


def files(store: TableStore) -> set[Path]:
    return {Path(uri) for uri in DeltaTable(store.at("telemetry").uri).file_uris()}


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (upkeep.compact, ["gw-a", "gw-b"] * 4),
        (lambda store: GatewayErasure(store).forget("gw-a").rows, ["gw-b"] * 4),
    ],
    ids=["joined", "forgotten"],
)
def test_what_is_rewritten_is_forced_to_the_disk_with_its_commit_while_the_old_files_are_there(
    store: TableStore,
    act: Callable[[TableStore], int],
    left: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = files(store)
    synced_paths: list[Path] = []

    def sync(path: Path) -> None:
        assert all(old.exists() for old in before), "deleted too early"
        sync_file(path)
        synced_paths.append(path)

    monkeypatch.setattr(synced, "sync_file", sync)
    assert act(store) > 0
    table = DeltaTable(store.at("telemetry").uri)
    added = files(store) - before
    assert added
    assert added <= set(synced_paths)
    assert {path.parent for path in added} <= set(synced_paths)
    log = Path(store.at("telemetry").uri) / "_delta_log"
    commits = sorted(log.glob("*.json"))[COMMITS:]
    (commit,) = (path for path in commits if b'"add"' in path.read_bytes())
    # A commit stands on the disk behind the files that it names.
    assert all(synced_paths.index(path) < synced_paths.index(commit) for path in added)
    assert sorted(table.to_pyarrow_table()["origin"].to_pylist()) == sorted(left)


def test_days_that_are_not_kept_are_gone_by_a_commit_that_is_on_the_disk(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced_paths: list[Path] = []
    monkeypatch.setattr(synced, "sync_file", synced_paths.append)
    now = datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC)
    upkeep.clean(store, UpkeepSettings(keep_days=1), now)
    table = DeltaTable(store.at("telemetry").uri)
    assert {*table.to_pyarrow_table()["day"].to_pylist()} == {DAYS[1]}
    assert any(path.name.endswith(".json") for path in synced_paths)


@pytest.mark.parametrize(
    "domain", ["x" * 300, "\N{SNOWMAN}" * 90, "../../up", "it's", "a/b", "a\nb"], ids=ascii
)
@pytest.mark.parametrize(
    ("act", "left"),
    [
        (upkeep.compact, ["gw-a", "gw-a", "gw-b", "gw-b"]),
        (lambda store: GatewayErasure(store).forget("gw-a").rows, ["gw-b", "gw-b"]),
    ],
    ids=["joined", "forgotten"],
)
def test_rows_of_a_domain_that_no_path_holds_are_looked_after_as_rows_of_unknown_places(
    tmp_path: Path, domain: str, act: Callable[[TableStore], int], left: list[str]
) -> None:
    store = TableStore(str(tmp_path))
    table = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    for number in range(2):  # as an earlier version let it in
        columns = {field.name: [None, None] for field in FILE_COLUMNS}
        rows = pa.table(columns | {"origin": ["gw-a", "gw-b"]}, FILE_COLUMNS)
        put_as_before(table, rows, {"day": "2026-11-01", "domain": domain}, number)
    act(store)
    rows = DeltaTable(store.at("telemetry").uri).to_pyarrow_table()
    assert sorted(rows["origin"].to_pylist()) == left
    assert set(rows["domain"].to_pylist()) == {"?"}


def test_a_place_that_an_earlier_version_kept_and_no_folder_can_be_named_after_is_unknown() -> None:
    columns = PartitionColumns({"gw-a": ("x" * 300, "-"), "gw-b": ("campus", "north")})
    for origin in ("gw-a", "gw-b"):
        told = columns.begin(origin, 1, logged=True, origin_us=None, collected_us=0)
        told.add(1, "t", 0, b"1")
    assert [partition["domain"] for partition, _ in columns.taken()] == ["?", "campus"]


def test_files_that_went_into_others_are_counted_over_all_tables(store: TableStore) -> None:
    assert upkeep.compact(store) == COMMITS
    assert upkeep.compact(store) == 0
    assert upkeep.clean(store, UpkeepSettings(vacuum_hours=1)) == 0
    assert upkeep.clean(store, UpkeepSettings(vacuum_hours=0)) == COMMITS


def test_rows_of_a_domain_that_is_no_name_are_told_once_for_each_domain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = TableStore(str(tmp_path))
    table = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    domains = ["x" * 300, "x" * 300, "campus", "y" * 200]
    for number, domain in enumerate(domains):
        columns = {field.name: [None] for field in FILE_COLUMNS}
        rows = pa.table(columns | {"origin": ["gw-a"]}, FILE_COLUMNS)
        put_as_before(table, rows, {"day": "2026-11-01", "domain": domain}, number)
    upkeep.name_places(store)
    told = {
        f"{table.store.uri}: rows of the domain {letter * 80!r}, which is no name, are of an "
        "unknown place from now on"
        for letter in "xy"
    }
    assert sorted(each.message for each in caplog.records) == sorted(told)
    upkeep.name_places(store)
    assert len(caplog.records) == 2


@pytest.mark.parametrize(("count", "done"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6])])
def test_what_is_done_every_so_many_calls_is_done_at_each_of_them(
    count: int, done: list[int]
) -> None:
    found: list[int] = []
    calls: list[int] = []
    call = upkeep.every(count, lambda: found.append(len(calls)))
    for number in range(1, 8):
        calls.append(number)
        call()
    assert found == done


def test_days_are_kept_from_so_many_before_today(store: TableStore) -> None:
    now = datetime.datetime(2026, 11, 4, 0, 0, tzinfo=datetime.UTC)
    for keep_days, left in ((None, DAYS), (3, DAYS), (2, DAYS[1:]), (1, [])):
        upkeep.clean(store, UpkeepSettings(keep_days), now)
        rows = DeltaTable(store.at("telemetry").uri).to_pyarrow_table()
        assert sorted(set(rows["day"].to_pylist())) == left


def test_files_that_are_brought_to_their_folder_are_counted_and_those_that_are_joined_then(
    tmp_path: Path,
) -> None:
    store = TableStore(str(tmp_path))
    table = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    for number, domain in enumerate(("campus", "campus", "campus", "harbour")):
        columns = {field.name: [None] for field in FILE_COLUMNS}
        rows = pa.table(columns | {"origin": ["gw-a"]}, FILE_COLUMNS)
        put_as_before(table, rows, {"day": "2026-11-01", "domain": domain}, number)
    assert upkeep.compact(store) == 4 + 3
    assert len(files(store)) == 2
