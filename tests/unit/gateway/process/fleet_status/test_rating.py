"""The gateway tells the rating of `hedgerow bench --keep`, and the fleet's page shows it."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cloud_ingest.dashboard import fleet_view
from cloud_ingest.tables.fleet_schemas import GATEWAYS
from gateway.process.fleet_status.rating import NAME, Rating, RatingFile, keep
from record_formats.status_record import StatusError, StatusRecord, decode

RATED = Rating(1_200, 10_000)


def test_what_was_kept_last_is_read(tmp_path: Path) -> None:
    keep(tmp_path, Rating(1, 2))
    keep(tmp_path, RATED)
    assert RatingFile(tmp_path).read() == RATED
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_the_gateways_user_may_read_what_root_has_kept(tmp_path: Path) -> None:
    keep(tmp_path, RATED)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644


def test_a_machine_that_nobody_has_measured_is_rated_for_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert RatingFile(tmp_path).read() == Rating()
    assert caplog.text == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 64,
        b"[]",
        b'{"messages_per_s": 5}',
        b'{"messages_per_s": "5", "clients": 1}',
        b'{"messages_per_s": true, "clients": 1}',
        b'{"messages_per_s": -1, "clients": 1}',
        b'{"messages_per_s": 9223372036854775808, "clients": 1}',
        b'{"messages_per_s": 1e400, "clients": 1}',
        b'{"messages_per_s": ' + b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_told_once_and_rates_for_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    (tmp_path / NAME).write_bytes(data)
    file = RatingFile(tmp_path)
    assert [file.read() for _ in range(3)] == [Rating()] * 3
    assert [one.levelno for one in caplog.records] == [logging.ERROR]
    assert f"{tmp_path / NAME} is not used" in caplog.text
    keep(tmp_path, RATED)
    assert file.read() == RATED


def test_a_record_has_it_and_a_negative_one_is_refused() -> None:
    record = StatusRecord(interval_s=10.0, **asdict(RATED))
    assert decode(record.encode()) == record
    with pytest.raises(StatusError, match=r"\$\.rm"):
        decode(replace(record, rated_messages_per_s=-1).encode())


def test_the_dashboard_has_it_and_reads_tables_of_before() -> None:
    row = {"gateway": "gw-a", **asdict(RATED)}
    table = GATEWAYS.empty_table().from_pylist([row], GATEWAYS)
    found = fleet_view.gateway(table, "gw-a")
    assert found is not None
    assert {name: found[name] for name in row} == row
    of_before = fleet_view.gateway(table.drop_columns(list(asdict(RATED))), "gw-a")
    assert of_before is not None
    assert {of_before[name] for name in asdict(RATED)} == {None}


def test_the_file_is_plain_json_for_who_looks_at_it(tmp_path: Path) -> None:
    keep(tmp_path, RATED)
    told = json.loads((tmp_path / NAME).read_bytes())
    assert told == {"messages_per_s": 1_200, "clients": 10_000}
