"""Files of a table are replaced by others, whatever types they hold and whoever commits beside."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from cloud_ingest.tables import rewriting, upkeep
from cloud_ingest.tables.delta import TableError
from cloud_ingest.tables.rewriting import carry_over, delete_keys, delete_rows
from cloud_ingest.tables.store import TableStore

COLUMNS = ["name"]


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """A table of one file with six rows."""
    written(tmp_path / "t", pa.table({"name": list("abcabc"), "n": range(6)}))
    return TableStore(str(tmp_path)).at("t")


def written(folder: Path, rows: pa.Table) -> None:
    write_deltalake(str(folder), rows, mode="append")


def rows_left(store: TableStore) -> list[tuple[str, int]]:
    rows = DeltaTable(store.uri).to_pyarrow_table().to_pylist()
    return sorted((row["name"], row["n"]) for row in rows)


def is_b(rows: pa.Table) -> pa.ChunkedArray:
    return pc.equal(rows["name"], "b")


@pytest.mark.parametrize("group_bytes", [1, 32 << 20])
@pytest.mark.parametrize("group_rows", [1, 4, 6, 7])
@pytest.mark.parametrize("rows_at_once", [1, 1_000])
def test_rows_go_and_the_others_stay_in_whatever_parts_a_file_is_read(
    store: TableStore,
    rows_at_once: int,
    group_rows: int,
    group_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewriting, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(rewriting, "GROUP_ROWS", group_rows)
    monkeypatch.setattr(rewriting, "GROUP_BYTES", group_bytes)
    assert delete_rows(store, COLUMNS, is_b) == 2
    assert rows_left(store) == [("a", 0), ("a", 3), ("c", 2), ("c", 5)]
    assert delete_rows(store, COLUMNS, is_b) == 0


def test_a_file_of_which_all_rows_go_is_followed_by_none(store: TableStore) -> None:
    assert delete_rows(store, COLUMNS, lambda rows: pc.is_valid(rows["name"])) == 6
    assert DeltaTable(store.uri).file_uris() == []


def test_a_file_without_the_columns_that_tell_has_none_of_the_rows(store: TableStore) -> None:
    write_deltalake(store.uri, pa.table({"n": [9]}), mode="append", schema_mode="merge")
    (other,) = set(DeltaTable(store.uri).file_uris()) - {written_first(store)}
    assert delete_rows(store, COLUMNS, is_b) == 2
    assert other in DeltaTable(store.uri).file_uris()


def written_first(store: TableStore) -> str:
    return next(iter(DeltaTable(store.uri, version=0).file_uris()))


@pytest.mark.parametrize("over", [0, 1])
def test_so_many_files_are_replaced_in_one_commit(
    store: TableStore, over: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "FILES_AT_ONCE", 2)
    for number in range(1 + over):
        written(Path(store.uri), pa.table({"name": ["b", "a"], "n": [number, 9]}))
    before = DeltaTable(store.uri).version()
    assert delete_rows(store, COLUMNS, is_b) == 3 + over
    assert DeltaTable(store.uri).version() == before + 1 + over


def test_rows_with_the_values_of_a_key_go_and_a_key_that_stands_twice_is_one(
    store: TableStore,
) -> None:
    keys = pa.table({"name": ["a", "a", "c", "x"], "n": pa.array([3, 3, 9, 1], pa.int64())})
    assert delete_keys(store, keys) == 1
    assert len(rows_left(store)) == 5
    assert ("a", 3) not in rows_left(store)


@pytest.mark.parametrize("times", [1, 4, 5])
def test_it_tries_again_where_others_delete_from_the_same_file_but_not_more_than_five_times(
    tmp_path: Path, times: int
) -> None:
    written(tmp_path / "t", pa.table({"name": ["b", *"acacac"], "n": range(7)}))
    store = TableStore(str(tmp_path)).at("t")
    tried: list[int] = []

    def goes_out(rows: pa.Table) -> pa.ChunkedArray:
        tried.append(rows.num_rows)
        time, is_copied = divmod(len(tried), 2)  # first the rows of the file are counted
        if not is_copied and time <= times:
            DeltaTable(store.uri).delete(f"n = {time}")
        return is_b(rows)

    if times == 5:
        with pytest.raises(TableError):
            delete_rows(store, COLUMNS, goes_out)
        assert tried == [7, 7, 6, 6, 5, 5, 4, 4, 3, 3]
    else:
        assert delete_rows(store, COLUMNS, goes_out) == 1
        assert [n for _, n in sorted(rows_left(store))] == sorted(
            range(times + 1, 7), key=lambda n: (n % 2 == 0, n)
        )


def test_nobody_joins_the_files_meanwhile_for_all_rows_would_be_there_twice(
    tmp_path: Path, store: TableStore
) -> None:
    """The library lets the commits of both stand."""
    (tmp_path / "t").rename(tmp_path / "telemetry")
    tables = TableStore(str(tmp_path))
    store = tables.at("telemetry")
    written(tmp_path / "telemetry", pa.table({"name": ["y"], "n": [7]}))
    joined: list[int] = []
    joining = threading.Thread(target=lambda: joined.append(upkeep.compact(tables)))

    def goes_out(rows: pa.Table) -> pa.ChunkedArray:
        if not joining.ident:
            joining.start()
            joining.join(0.2)  # without a turn to wait for it is done by then
        return is_b(rows)

    assert delete_rows(store, COLUMNS, goes_out) == 2
    joining.join()
    assert joined == [2]
    assert rows_left(store) == [("a", 0), ("a", 3), ("c", 2), ("c", 5), ("y", 7)]


def viewed(kind: str) -> tuple[pa.DataType, list[object], pa.DataType]:
    """A type that another writer uses, values of it, and the plain type that is read everywhere."""
    text, data = pa.string_view(), pa.binary_view()
    found: dict[str, tuple[pa.DataType, list[object], pa.DataType]] = {
        "text": (text, ["x", None], pa.string()),
        "bytes": (data, [b"\xff", None], pa.binary()),
        "list": (pa.list_(text), [["x", None], None], pa.list_(pa.string())),
        "struct": (
            pa.struct([("a", data), ("b", pa.int64())]),
            [{"a": b"x", "b": 1}, None],
            pa.struct([("a", pa.binary()), ("b", pa.int64())]),
        ),
    }
    return found[kind]


@pytest.mark.parametrize("kind", ["text", "bytes", "list", "struct"])
def test_files_with_types_that_filters_do_not_know_are_written_anew_with_plain_ones(
    tmp_path: Path, kind: str
) -> None:
    of_view, values, plain = viewed(kind)
    written(tmp_path / "t", pa.table({"v": pa.array(values, plain)}))
    store = TableStore(str(tmp_path)).at("t")
    (file,) = map(Path, DeltaTable(store.uri).file_uris())
    large = pa.table({"v": pa.array(values, plain)}).cast(pa.schema([("v", of_view)]))
    pq.write_table(large, file)
    assert pq.read_schema(file).field("v").type == of_view
    assert carry_over(store) == 0
    assert carry_over(store, looks_inside=True) == 1
    (made,) = map(Path, DeltaTable(store.uri).file_uris())
    assert made != file
    assert pq.read_schema(made).field("v").type == plain
    assert pq.read_table(made)["v"].to_pylist() == values
    assert carry_over(store, looks_inside=True) == 0


def test_a_file_of_which_the_log_says_no_number_of_rows_is_counted_where_it_is_carried(
    tmp_path: Path,
) -> None:
    rows = pa.table({"n": [1, 2, 3], "day": ["1"] * 3})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["day"])
    store = TableStore(str(tmp_path)).at("t")
    pq.write_table(rows.select(["n"]), tmp_path / "t" / "elsewhere.parquet")
    size = (tmp_path / "t" / "elsewhere.parquet").stat().st_size
    table = DeltaTable(store.uri)
    action = AddAction("elsewhere.parquet", size, {"day": "2"}, 0, data_change=True, stats="{}")
    table.create_write_transaction([action], "append", table.schema(), ["day"])
    assert carry_over(store) == 1
    actions = pa.table(DeltaTable(store.uri).get_add_actions(flatten=True)).to_pylist()
    (made,) = [one for one in actions if one["partition.day"] == "2"]
    assert made["path"].startswith("day=2/part-")
    assert (made["num_records"], made["size_bytes"]) == (3, size)
    assert carry_over(store) == 0


def test_a_call_acts_every_so_many_times() -> None:
    acted: list[int] = []
    call = upkeep.every(3, lambda: acted.append(1))
    told = []
    for _ in range(7):
        call()
        told.append(len(acted))
    assert told == [0, 0, 1, 1, 1, 2, 2]


def test_a_table_whose_log_is_damaged_is_named(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    written(tmp_path / "telemetry", pa.table({"n": [1]}))
    (commit,) = (tmp_path / "telemetry" / "_delta_log").glob("*.json")
    commit.write_text("no JSON")
    with pytest.raises(TableError, match=f"{store.at('telemetry').uri}: "):
        upkeep.compact(store)
