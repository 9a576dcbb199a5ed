"""A gateway that makes up names fills no table: names above its limit go to the quarantine."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cloud_ingest.ingest import decoding
from cloud_ingest.ingest.decoding import TaskOrder, carry_out
from cloud_ingest.ingest.name_bounds import NameBounds
from cloud_ingest.ingest.plan import SpoolStretch
from cloud_ingest.ledger.number_ledger import Stream
from cloud_ingest.tables.store import TableStore


def table(rows: Sequence[tuple[str, str | None, str]]) -> pa.Table:
    names = ("origin", "sensor", "topic")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def test_names_of_a_gateway_are_counted_over_tables_and_known_ones_go_on() -> None:
    bounds = NameBounds(2)
    assert bounds.refused(table([("a", "1", "t"), ("a", "2", "t"), ("b", "1", "t")])) == {}
    assert bounds.refused(table([("a", "3", "t"), ("a", "1", "t"), ("b", "2", "t")])) == {
        0: "sensor: beyond 2 of its gateway at once"
    }
    assert bounds.refused(table([("a", "4", "t"), ("a", "2", "t"), ("a", None, "t")])).keys() == {0}
    assert bounds.refused(table([("a", "1", "u"), ("a", "1", "v"), ("b", "3", "u")])) == {
        1: "topic: beyond 2 of its gateway at once",
        2: "sensor: beyond 2 of its gateway at once",
    }


def test_what_is_beyond_is_in_quarantine_with_its_stamp_and_counted(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "NameBounds", functools.partial(NameBounds, 3))
    packs = [json.dumps([{"n": f"s{i}", "v": i}]).encode() for i in range(6)]
    spool.payloads("gw-a", 1, 1, packs)
    spool.payloads("gw-b", 1, 1, packs[:2])
    spool.sync()
    stretch = SpoolStretch(str(spool.folder), spool.segment.name, 0, spool.length, None)
    store = TableStore(str(tmp_path / "tables"))
    order = TaskOrder([stretch], {}, store.at("telemetry"), store.at("quarantine"), 7)
    result = carry_out(order)
    assert sum(file.rows for file in result.telemetry) == 5
    (aside,) = result.quarantine
    rows = pa.parquet.read_table(tmp_path / "tables/quarantine" / aside.path).to_pylist()
    assert [(row["origin"], row["sequence"], row["bytes"]) for row in rows] == [
        ("gw-a", number, packs[number - 1]) for number in (4, 5, 6)
    ]
    assert all(row["origin_time"] and row["collected_time"] for row in rows)
    stream = Stream("gw-a", 1, control=False, logged=True)
    assert {one: list(numbers) for one, numbers in result.quarantined.items()} == {stream: [(4, 6)]}
    assert result.facts is not None
    told = {one.gateway: (one.messages, one.undecodable) for one in result.facts.activity}
    assert told == {"gw-a": (6, 3), "gw-b": (2, 0)}
