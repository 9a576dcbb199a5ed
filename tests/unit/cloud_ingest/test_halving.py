"""A message with which a task fails is found, whatever fails; storage that fails blames nobody."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.ingest import decoding
from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.ingest.decoding import carry_out
from cloud_ingest.ingest.halving import BLAMED
from cloud_ingest.ingest.plan import SpoolStretch, UnsureStretch
from cloud_ingest.ingest.scan import scan
from cloud_ingest.ingest.tasks import MAX_REASON, TaskOrder, TaskResult
from cloud_ingest.ledger.number_ledger import NumberLedger, Stream
from cloud_ingest.spool.segments import ranges, read_mark, segments
from cloud_ingest.tables.files import TableFiles
from cloud_ingest.tables.store import TableStore
from record_formats.record import RecordError
from record_formats.status_record import StatusRecord
from tree_handler import batch
from tree_handler.batch import BatchError, Entry, Flags

POISON = b"1e7"
GATEWAYS = ("gw-a", "gw-b", "gw-c")
EACH = 40


@pytest.fixture
def filled(spool: Any) -> Any:
    """Batches of several sizes over two segments, some of which the ledger had in part."""
    for origin in GATEWAYS:
        for first in range(1, EACH + 1, 10):
            spool.payloads(origin, 1, first, [b"%d" % n for n in range(first, first + 10)])
        if origin == "gw-b":
            spool.roll()
    spool.sync()
    return spool


def planned(spool: Any) -> list[SpoolStretch]:
    whole = segments(spool.folder, read_mark(spool.folder))
    end = whole[-1].start + whole[-1].length
    return scan(ranges(spool.folder, whole, 0, end), NumberLedger(), {}).plan.stretches


def order_of(spool: Any) -> TaskOrder:
    tables = TableStore(str(spool.folder.parent / "tables"))
    return TaskOrder(planned(spool), {}, tables.at("telemetry"), tables.at("quarantine"), 0)


def rows_of(order: TaskOrder, result: TaskResult, name: str) -> list[dict[str, Any]]:
    store = getattr(order, name)
    files = getattr(result, name)
    return [row for one in files for row in pq.read_table(f"{store.uri}/{one.path}").to_pylist()]


def files_in(store: TableStore) -> set[str]:
    root = Path(store.uri)
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}


def fail_at(*values: float) -> Callable[[TelemetryColumns], pa.Table]:
    table = TelemetryColumns.table

    def failing(self: TelemetryColumns) -> pa.Table:
        made = table(self)
        if found := set(values) & set(made["value"].to_pylist()):
            raise pa.ArrowInvalid(f"no {min(found):g}\ud800" + "x" * 1_000)
        return made

    return failing


def check(order: TaskOrder, result: TaskResult, poisoned: set[tuple[str, int]]) -> None:
    everything = Counter((origin, n) for origin in GATEWAYS for n in range(1, EACH + 1))
    kept = rows_of(order, result, "telemetry")
    aside = rows_of(order, result, "quarantine")
    found = Counter((row["origin"], row["sequence"]) for row in (*kept, *aside))
    assert found == everything
    assert {(row["origin"], row["sequence"]) for row in aside} == poisoned
    assert all(row["reason"].startswith(BLAMED) for row in aside)
    assert all(len(row["reason"]) <= MAX_REASON for row in aside)
    held = {
        (stream.origin, number)
        for stream, numbers in result.quarantined.items()
        for first, last in numbers
        for number in range(first, last + 1)
    }
    assert held == poisoned
    assert sum(result.blamed.values()) == len(poisoned)
    assert result.facts is not None
    assert sum(one.messages for one in result.facts.activity) == len(GATEWAYS) * EACH
    assert files_in(order.telemetry) == {one.path for one in result.telemetry}
    assert files_in(order.quarantine) == {one.path for one in result.quarantine}


@pytest.mark.parametrize("poison", [(1,), (40,), (7, 8, 23)])
def test_a_message_with_which_a_task_fails_is_in_quarantine_and_all_others_are_decoded(
    poison: tuple[int, ...], filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TelemetryColumns, "table", fail_at(*poison))
    order = order_of(filled)
    check(order, carry_out(order), {(origin, n) for origin in GATEWAYS for n in poison})


def test_what_fails_by_a_bug_of_the_decoder_is_in_quarantine_at_once(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = TelemetryColumns.add

    def failing(self: TelemetryColumns, number: int, *rest: Any) -> bool:
        if number == 11:
            raise RecursionError("too deep")
        return add(self, number, *rest)

    monkeypatch.setattr(TelemetryColumns, "add", failing)
    order = order_of(filled)
    check(order, carry_out(order), {(origin, 11) for origin in GATEWAYS})


def test_only_wanted_numbers_of_a_batch_are_halved(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.payloads("gw-a", 1, 1, [b"%d" % n for n in range(1, 31)])
    spool.sync()
    (stretch,) = planned(spool)
    keep = ((2, 3), (9, 9), (20, 30))
    one = SpoolStretch(stretch.spool, stretch.segment, stretch.start, stretch.end, keep)
    whole = order_of(spool)
    order = TaskOrder([one], {}, whole.telemetry, whole.quarantine, 0)
    monkeypatch.setattr(TelemetryColumns, "table", fail_at(9, 30))
    result = carry_out(order)
    kept = {row["sequence"] for row in rows_of(order, result, "telemetry")}
    assert kept == {2, 3, *range(20, 30)}
    stream = Stream("gw-a", 1, control=False, logged=True)
    assert list(result.quarantined[stream]) == [(9, 9), (30, 30)]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("odd")])
def test_storage_that_fails_blames_no_message(
    error: Exception, filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = TableFiles.write

    def failing(self: TableFiles, table: pa.Table, partition: Any = None) -> None:
        if "device_time" in table.column_names:  # telemetry's alone: the quarantine's store works
            raise error
        write(self, table, partition)

    monkeypatch.setattr(TableFiles, "write", failing)
    order = order_of(filled)
    with pytest.raises(type(error)):
        carry_out(order)
    assert files_in(order.telemetry) == files_in(order.quarantine) == set()


def test_storage_that_fails_while_a_message_is_looked_for_blames_none(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TelemetryColumns, "table", fail_at(17))

    def failing(self: TableFiles) -> list[Any]:
        raise OSError(5, "I/O error")

    monkeypatch.setattr(TableFiles, "finish", failing)
    with pytest.raises(OSError, match="I/O error"):
        carry_out(order_of(filled))


def test_any_messages_of_a_task_can_be_those_with_which_it_fails(
    filled: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(request.config.getoption("--seed"))
    poison = chance.sample(range(1, EACH + 1), 12)
    monkeypatch.setattr(TelemetryColumns, "table", fail_at(*poison))
    order = order_of(filled)
    check(order, carry_out(order), {(origin, n) for origin in GATEWAYS for n in poison})


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BatchError("its rows end early"), "its rows end early"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_of_a_batch_that_can_not_be_read_its_name_and_the_reason_are_told(
    error: Exception, told: str, filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = decoding.proven_rows

    def failing(frame: bytes, header: batch.Header, seals: Any) -> Any:
        if (header.origin, header.first) == ("gw-b", 11):
            raise error
        return read(frame, header, seals)

    monkeypatch.setattr(decoding, "proven_rows", failing)
    [(spool, _, at, why)] = carry_out(order_of(filled)).damaged
    assert (spool, at > 0) == (str(filled.folder), True)
    assert why == f"batch gw-b/1 logged 11..20: {told}"


BOUNDS = [("ROWS_AT_ONCE", 7), ("ROWS_AT_ONCE", 10), ("BYTES_AT_ONCE", 1), ("BYTES_AT_ONCE", 500)]


@pytest.mark.parametrize(("bound", "value"), BOUNDS)
@pytest.mark.parametrize("is_unsure", [False, True])
def test_in_whatever_parts_a_task_writes_each_message_is_there_once(
    filled: Any, bound: str, value: int, is_unsure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, bound, value)
    monkeypatch.setattr(TelemetryColumns, "add", refusing_at(TelemetryColumns.add))
    order = order_of(filled)
    if is_unsure:
        stretches: list[Any] = [
            UnsureStretch(one.spool, one.segment, one.start, one.end, one.keep)
            for one in order.stretches
        ]
        order = replace(order, stretches=stretches)
    result = carry_out(order)
    kept = rows_of(order, result, "telemetry")
    aside = rows_of(order, result, "quarantine")
    found = Counter((row["origin"], row["sequence"]) for row in (*kept, *aside))
    assert found == Counter((origin, n) for origin in GATEWAYS for n in range(1, EACH + 1))
    if is_unsure:
        assert (kept, {row["reason"] for row in aside}) == ([], {decoding.UNSURE})
    else:
        assert {row["sequence"] for row in aside} == set(range(1, EACH + 1, 2))
        assert sum(one.undecodable for one in facts_of(result).activity) == len(aside)
    assert files_in(order.telemetry) == {one.path for one in result.telemetry}
    assert files_in(order.quarantine) == {one.path for one in result.quarantine}


def refusing_at(add: Callable[..., bool]) -> Callable[..., bool]:
    """Every other message can't be read."""

    def adding(self: TelemetryColumns, sequence: int, *row: Any) -> bool:
        if sequence % 2:
            raise RecordError("odd")
        return add(self, sequence, *row)

    return adding


def facts_of(result: TaskResult) -> BatchFacts:
    assert result.facts is not None
    return result.facts


def test_what_was_not_looked_at_is_not_to_blame(
    filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = order_of(filled)
    one = order.stretches[0]
    unsure: list[Any] = [UnsureStretch(one.spool, one.segment, one.start, one.end, ((1, 1),))]

    def fail(self: TableFiles, *_: object) -> None:
        raise pa.ArrowInvalid("no")

    monkeypatch.setattr(TableFiles, "write", fail)
    with pytest.raises(pa.ArrowInvalid, match=r"^no$"):
        carry_out(replace(order, stretches=unsure))


@pytest.mark.parametrize("count", [5, 6, 7])
def test_of_one_gateways_records_the_latest_are_told(
    spool: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many are held before the oldest are dropped."""
    monkeypatch.setattr(decoding, "MAX_STATEMENTS", 3)
    record = StatusRecord(interval_s=10.0).encode()
    entries = [Entry("d/g/gw-a/$status", record) for _ in range(count)]
    spool.append(batch.encode("gw-a", 1, 1, entries, flags=Flags.LOGGED, origin_time_us=0))
    spool.sync()
    told = [one.sequence for one in facts_of(carry_out(order_of(spool))).statements]
    assert told == list(range(1 if count <= 6 else 5, count + 1))
