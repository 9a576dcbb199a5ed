from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from synthetic_tables import NOW, TELEMETRY, put, rows

from cloud_ingest.tables.account import FleetAccount, MessageKey, OriginStamp, main, settle
from cloud_ingest.tables.delta import IngestTable
from cloud_ingest.tables.schemas import QUARANTINE
from cloud_ingest.tables.store import TableStore

A: MessageKey = ("t", 1)
B: MessageKey = ("t", 2)


def account(
    noted: list[tuple[str, int, str]],
    rows: list[tuple[OriginStamp, MessageKey]],
    logs: dict[OriginStamp, MessageKey | None],
    killed: str = "",
) -> FleetAccount:
    return settle(noted, rows, logs, frozenset({killed}))


def test_what_was_acknowledged_and_arrived_once_is_neither_lost_nor_doubled() -> None:
    stamp = ("gw", 1, 1)
    result = account([("t", 1, "gw")], [(stamp, A)], {stamp: A})
    assert (result.acknowledged, result.ingested) == (1, 1)
    assert (result.lost, result.doubled, result.acknowledged_before_log) == (0, 0, 0)


def test_an_acknowledged_message_that_did_not_arrive_is_lost() -> None:
    result = account([("t", 1, "gw"), ("t", 2, "gw")], [(("gw", 1, 1), A)], {})
    assert result.lost == 1
    assert result.lost_examples == ("t 2, acknowledged by gw",)


def test_a_logged_message_that_did_not_arrive_is_lost_even_if_nobody_noted_it() -> None:
    assert account([], [], {("gw", 1, 1): None}).lost == 1


def test_a_message_that_is_missing_is_counted_once_by_whoever_knows_of_it() -> None:
    assert account([("t", 1, "gw")], [], {("gw", 1, 1): A}).lost == 1


def test_what_a_killed_gateway_acknowledged_and_never_logged_is_counted_apart() -> None:
    result = account([("t", 1, "gw")], [], {}, killed="gw")
    assert (result.lost, result.acknowledged_before_log) == (0, 1)


def test_a_message_under_two_stamps_and_a_stamp_in_two_rows_are_doubled() -> None:
    noted = [("t", 1, "gw"), ("t", 2, "gw")]
    assert account(noted, [(("gw", 1, 1), A), (("gw", 1, 2), A)], {}).doubled == 1
    other: MessageKey = ("other", 0)
    assert account(noted, [(("gw", 1, 1), other), (("gw", 1, 1), other)], {}).doubled == 1


def readings(*numbers: int) -> pa.Table:
    row = {"origin": "gw", "boot_epoch": 1, "topic": "t", "domain": "-", "day": NOW.date()}
    told = [
        row | {"sequence": at, "device_number": number, "logged": True}
        for at, number in enumerate(numbers, 1)
    ]
    told.append(row | {"sequence": 99, "device_number": 1, "logged": False})
    return rows(TELEMETRY, told)


@pytest.mark.parametrize(
    ("numbers", "more", "code", "lost", "doubled"),
    [
        ((1, 2), [], 0, 0, 0),
        ((1,), [], 1, 1, 0),
        ((1,), ["--killed", "gw"], 0, 0, 0),
        ((1,), ["--killed", "other", "--killed", "gw"], 0, 0, 0),
        ((1,), ["--killed", "other"], 1, 1, 0),
        ((1, 2, 2), [], 1, 0, 1),
    ],
)
def test_an_account_is_told_as_json_and_fails_if_anything_is_lost_or_doubled(
    numbers: tuple[int, ...],
    more: list[str],
    code: int,
    lost: int,
    doubled: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(tmp_path / "tables", "telemetry", readings(*numbers))
    IngestTable(TableStore(str(tmp_path / "tables")).at("quarantine"), QUARANTINE)
    noted = tmp_path / "noted.json"
    noted.write_text('[["t", 1, "gw"], ["t", 2, "gw"]]')
    words = ["--tables", str(tmp_path / "tables"), "--noted", str(noted), *more]
    assert main(words) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["acknowledged"], told["lost"], told["doubled"]) == (2, lost, doubled)
    assert told["ingested"] == len(set(numbers))
