"""Tables after each kind of maintenance, and what the readers of docs/data.md find in them.

A row of `READERS` gives the rows of telemetry as (origin, sequence, day, domain, value), and those
that a filter leaves. A row of `MAINTENANCE` is a name and what is done.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import polars
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.transaction import AddAction

from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.quarantine_reread import QuarantineReread
from cloud_ingest.ledger.number_ledger import LedgerChange, Stream
from cloud_ingest.mapping import rules
from cloud_ingest.query import Lake
from cloud_ingest.query.sql import ask, connect
from cloud_ingest.tables import upkeep
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.schemas import FILE_COLUMNS, PARTITIONS, QUARANTINE, TELEMETRY
from cloud_ingest.tables.store import TableStore
from cloud_ingest.tables.upkeep import UpkeepSettings
from tree_handler.intervals import Intervals

Row = tuple[str, int, datetime.date, str, float | None]
DAYS: Final = (datetime.date(2026, 11, 1), datetime.date(2026, 11, 2))
DOMAINS: Final = ("campus", "?", "-")
NOW: Final = datetime.datetime(2026, 11, 3, tzinfo=datetime.UTC)
SENSOR: Final = "hall/t"
COLUMNS: Final = ("origin", "sequence", "day", "domain", "value")
RULES: Final = """
[[mapping]]
topic = "plant/data"
format = "json"
measurements = [{sensor = "hall/t", value = "$.t"}]
"""


def write_tables(folder: Path, *, as_before: bool) -> TableStore:
    """Telemetry of two gateways, two files a partition but for one that has one; a quarantine.

    Args:
        folder: of all tables.
        as_before: every other file stands where earlier versions put it.

    """
    store = TableStore(str(folder))
    telemetry = IngestTable(store.at("telemetry"), TELEMETRY, PARTITIONS)
    number = 0
    for day in DAYS:
        for domain in DOMAINS:
            for again in range(1 if domain == "-" else 2):
                number += 10
                rows = _rows(number, day)
                partition = {"day": day.isoformat(), "domain": domain}
                if as_before and not again:
                    put_as_before(telemetry, rows, partition, number)
                    continue
                files = TableFiles(telemetry.store, FILE_COLUMNS)
                files.write(rows, partition)
                telemetry.commit(files.finish(), LedgerChange(), "job", number)
    quarantine = IngestTable(store.at("quarantine"), QUARANTINE)
    stream = Stream("gw-a", 1, control=False, logged=True)
    for number, payload in ((1_000, b'{"t": 21.5}'), (1_001, b"nothing")):
        files = TableFiles(quarantine.store, QUARANTINE)
        files.write(pa.Table.from_pylist([_quarantined(number, payload)], QUARANTINE))
        seen, held = LedgerChange(), LedgerChange()
        seen.seen[stream] = held.held[stream] = Intervals([(number, number)])
        quarantine.commit(files.finish(), held, "job", number)
        telemetry.commit([], seen, "job", number)
    return store


def _rows(first: int, day: datetime.date) -> pa.Table:
    at = datetime.datetime(day.year, day.month, day.day, 12, tzinfo=datetime.UTC)
    made: list[dict[str, Any]] = [
        {"origin": "gw-a", "sequence": first, "sensor": SENSOR, "value": 0.5 + first},
        {"origin": "gw-b", "sequence": first + 1, "sensor": SENSOR, "value": None},
        {"origin": "gw-a", "sequence": first + 2, "sensor": "hall/u", "value": 1.0},
    ]
    several = [{"sensor": "hall/u", "value": 1.0}, {"sensor": "hall/w"}]
    made[2] |= {"measurements": several, "tags": [("line", "1")]}
    stamp = {"boot_epoch": 1, "logged": True, "origin_time": at, "collected_time": at}
    return pa.Table.from_pylist([row | stamp for row in made], FILE_COLUMNS)


def _quarantined(number: int, payload: bytes) -> dict[str, Any]:
    at = datetime.datetime(2026, 11, 2, 12, tzinfo=datetime.UTC)
    stamp = {"origin": "gw-a", "boot_epoch": 1, "logged": True, "sequence": number}
    times = {"origin_time": at, "collected_time": at, "found_time": at}
    return stamp | times | {"topic": "plant/data", "bytes": payload, "reason": "no reading"}


def put_as_before(
    table: IngestTable, rows: pa.Table, partition: dict[str, str], number: int
) -> None:
    """A file in its day's folder alone, as earlier versions wrote it."""
    path = Path(table.store.uri) / f"day={partition['day']}" / f"part-{number}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows, path)
    at = f"{path.parent.name}/{path.name}"
    stats = f'{{"numRecords":{rows.num_rows}}}'
    action = AddAction(at, path.stat().st_size, partition, 0, data_change=True, stats=stats)
    opened = DeltaTable(table.store.uri)
    opened.create_write_transaction([action], "append", TELEMETRY, list(PARTITIONS))
    table.refresh()


def _table(store: TableStore) -> DeltaTable:
    return DeltaTable(store.at("telemetry").uri)


def _again(store: TableStore) -> None:
    assert QuarantineReread(store, rules.read(RULES)).run().moved == 1


def _days_deleted(store: TableStore) -> None:
    assert upkeep.clean(store, UpkeepSettings(keep_days=1), NOW) >= 0


def _restored(store: TableStore) -> None:
    GatewayErasure(store).forget("gw-b")
    before = _table(store).version()
    _again(store)
    upkeep.compact(store)
    _table(store).restore(before)


def _checkpoint(store: TableStore) -> None:
    upkeep.compact(store)
    table = _table(store)
    table.create_checkpoint()
    for commit in sorted(Path(store.at("telemetry").uri, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()  # as the log's retention does
    upkeep.clean(store, UpkeepSettings(vacuum_hours=0))


def _all_of_it(store: TableStore) -> None:
    for act in (_again, upkeep.compact, _days_deleted, upkeep.compact):
        act(store)
    GatewayErasure(store).forget("gw-b")
    upkeep.clean(store, UpkeepSettings(vacuum_hours=0))
    upkeep.compact(store)


MAINTENANCE: Final[dict[str, Callable[[TableStore], object]]] = {
    "compaction": upkeep.compact,
    "compaction twice": lambda store: (upkeep.compact(store), upkeep.compact(store)),
    "compaction and vacuum": lambda store: (
        upkeep.compact(store),
        upkeep.clean(store, UpkeepSettings(vacuum_hours=0)),
    ),
    "a gateway forgotten": lambda store: GatewayErasure(store).forget("gw-b").rows,
    "days deleted": _days_deleted,
    "quarantine read again": _again,
    "restored": _restored,
    "checkpoint": _checkpoint,
    "clustered by another program": lambda store: (
        upkeep.compact(store),
        _table(store).optimize.z_order(["origin"]),
    ),
    "all of it": _all_of_it,
}


def rows_of(store: TableStore) -> list[Row]:
    """Return the rows by the log and the files alone: the partition is the log's."""
    table = _table(store)
    found: list[Row] = []
    actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    for action, uri in zip(actions, table.file_uris(), strict=True):
        day, domain = action["partition"]["day"], action["partition"]["domain"]
        for row in pq.ParquetFile(uri).read(["origin", "sequence", "value"]).to_pylist():
            found.append((row["origin"], row["sequence"], day, domain, row["value"]))
    return sorted(found, key=str)


def filtered(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that the readers' filter leaves."""
    return [row for row in rows if row[0] == "gw-a" and row[3] == "?" and row[2] == DAYS[1]]


WHERE: Final = "origin = 'gw-a' AND domain = '?' AND day = DATE '2026-11-02'"


def _sorted(rows: Iterable[dict[str, Any]]) -> list[Row]:
    return sorted((tuple(row[name] for name in COLUMNS) for row in rows), key=str)  # type: ignore[misc]  # as many as there are columns


def _statement(where: str | None) -> str:
    return f"SELECT {', '.join(COLUMNS)} FROM telemetry" + (f" WHERE {where}" if where else "")


def _delta_rs(store: TableStore, where: str | None) -> list[Row]:
    builder = QueryBuilder().register("telemetry", _table(store))
    return _sorted(pa.table(builder.execute(_statement(where)).read_all()).to_pylist())


def _duckdb(store: TableStore, where: str | None) -> list[Row]:
    found = ask(connect(Lake(store.uri)), _statement(where)).to_arrow_table()
    return _sorted(found.to_pylist())


def _polars(store: TableStore, where: str | None) -> list[Row]:
    lazy = polars.scan_delta(store.at("telemetry").uri)
    if where:
        is_there = (polars.col("origin") == "gw-a") & (polars.col("domain") == "?")
        lazy = lazy.filter(is_there & (polars.col("day") == DAYS[1]))
    return _sorted(lazy.select(COLUMNS).collect().to_dicts())


def _pandas(store: TableStore, where: str | None) -> list[Row]:
    pairs = [("origin", "=", "gw-a"), ("domain", "=", "?"), ("day", "=", DAYS[1])]
    rows = _table(store).to_pandas(columns=list(COLUMNS), filters=pairs if where else None)
    missing = rows.astype(object).where(rows.notna(), None)
    return _sorted(missing.to_dict("records"))


READERS: Final[dict[str, Callable[[TableStore, str | None], list[Row]]]] = {
    "delta-rs": _delta_rs,
    "DuckDB": _duckdb,
    "Polars": _polars,
    "pandas": _pandas,
}
