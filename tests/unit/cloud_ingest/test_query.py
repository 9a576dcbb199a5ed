"""SQL over the tables, and frames of a sensor."""

import csv
import datetime
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from synthetic_tables import NOW, TELEMETRY, Fleet, put, rows, write_readings

from cloud_ingest.query import Lake, LakeError, frame
from cloud_ingest.query.command import ROWS_SHOWN
from gateway.base import exit_codes
from gateway.tools import cli

DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Fleet(250).write(folder)
    write_readings(folder, "gw-root", ["hall/a", "hall/b"], 4, 600)
    return folder


def query(tables: Path, statement: str, *more: str) -> int:
    return cli.main(["query", statement, "--tables", str(tables), *more])


def test_a_query_gives_rows_as_text_json_and_csv(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = "SELECT health, count(*) AS many FROM gateways GROUP BY ALL ORDER BY health"
    assert query(tables, statement) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["health", "many"]
    assert query(tables, statement, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(row["many"] for row in found) == 250
    assert query(tables, statement, "--csv") == 0
    again = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["many"]) for row in again] == [row["many"] for row in found]


def test_every_kind_of_column_is_json(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for table in ("gateways", "topology", "alerts", "gaps", "latency", "telemetry"):
        assert query(tables, f"SELECT * FROM {table} LIMIT 3", "--json") == 0
        assert len(json.loads(capsys.readouterr().out)) == 3
    assert query(tables, "SELECT * FROM gateways WHERE false", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_terminal_is_not_flooded(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert query(tables, "SELECT gateway FROM gateways") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + ROWS_SHOWN + 1
    assert lines[-1].startswith("... and 50 rows more")


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SELECT nope FROM gateways", "nope"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("DELETE FROM gateways", "delete"),
        ("COPY (SELECT 1) TO '/tmp/hedgerow-out.csv'", "hedgerow-out"),
        ("SELECT * FROM read_text('/etc/hostname')", "hostname"),
        ("SET enable_external_access = true", "locked"),
        ("ATTACH '/tmp/hedgerow-other.db'", "hedgerow-other"),
    ],
)
def test_a_query_reads_the_tables_and_nothing_else(
    tables: Path, statement: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    versions = [Lake(tables).open(name) for name in ("gateways", "telemetry")]
    assert query(tables, statement) == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    assert named in told
    assert told.count("\n") == 1
    for before in versions:
        assert before is not None
        version = before.version()
        before.update_incremental()
        assert before.version() == version


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT * FROM gatways", "gatways does not exist: there are "),
        ("SELECT nope FROM gateways", 'column "nope" not found'),
        ("SELEC 1", 'syntax error at or near "SELEC"; LINE 1: SELEC 1'),
        ("SELECT gateway::INT FROM gateways", "Could not convert string"),
        ("COPY (SELECT 1) TO 'x.csv'", "a query may read the tables, and no other file"),
        ("", "it is no query; begin with SELECT"),
    ],
)
def test_what_is_wrong_with_a_query_is_one_line_that_says_what_would_be_right(
    tables: Path, statement: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(tables, statement) == exit_codes.WRONG_USE
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_tables_that_are_nowhere_are_named_and_an_empty_folder_has_none_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert query(tmp_path / "nix", "SELECT 1") == exit_codes.WRONG_USE
    assert f"{tmp_path / 'nix'}: no such folder: --tables is" in capsys.readouterr().err
    assert query(tmp_path, "SELECT * FROM telemetry") == exit_codes.WRONG_USE
    assert "there are no tables yet: `hedgerow ingest` writes them" in capsys.readouterr().err


def test_a_sensor_is_a_frame_of_each_library(tables: Path) -> None:
    start = NOW - DAY
    found = frame(tables, "hall/b", gateway="gw-root", start=start, end=NOW)
    assert found.num_rows == 144
    assert found["time"].to_pylist() == sorted(found["time"].to_pylist())
    assert found["time"][0].as_py() >= start
    for library in ("polars", "pandas"):
        other = frame(tables, "hall/b", start=start, end=NOW, as_=library)
        assert other.shape == (144, 8)
        assert list(other["value"]) == found["value"].to_pylist()
    assert frame(tables, "hall/b", gateway="another").num_rows == 0


def test_a_frame_has_packs_topics_and_readings_without_a_device_time(tmp_path: Path) -> None:
    row = {"origin": "gw", "origin_time": NOW, "topic": "t", "day": NOW.date(), "domain": "-"}
    pack = [
        {"sensor": "a", "value": 1.0, "device_time": NOW - DAY},
        {"sensor": "b", "value": 2.0},
    ]
    written = [row | {"sensor": "a", "measurements": pack}, row | {"value": 7.0}]
    put(tmp_path, "telemetry", rows(TELEMETRY, written))

    def values(sensor: str, **more: datetime.datetime) -> list[float]:
        return list(frame(tmp_path, sensor, **more)["value"].to_pylist())

    assert (values("a"), values("b"), values("t")) == ([1.0], [2.0], [7.0])
    assert values("a", start=NOW - DAY / 2) == []
    assert values("b", start=NOW - DAY / 2) == [2.0]


def test_a_wrong_frame_is_told_what_is_wrong(tmp_path: Path, tables: Path) -> None:
    with pytest.raises(LakeError, match="no such table yet"):
        frame(tmp_path, "a")
    with pytest.raises(ValueError, match="as_: 'excel'"):
        frame(tables, "a", as_="excel")  # type: ignore[arg-type]  # the very thing that is tried
    with pytest.raises(ValueError, match="before start"):
        frame(tables, "a", start=NOW, end=NOW - DAY)
    assert isinstance(frame(tables, "a"), pa.Table)


def test_values_without_a_form_in_json_are_written_so_that_they_can_be_read(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = (
        "SELECT '\\x00\\xFF'::BLOB AS a, DATE '2026-01-02' AS b, TIME '03:04:05' AS c, "
        "{'x': ['\\x01'::BLOB]} AS d, 'nan'::DOUBLE AS e, 1.50::DECIMAL(4, 2) AS f, NULL AS g, "
        "true AS h, 7 AS i"
    )
    assert query(tables, statement, "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    values = ["00ff", "2026-01-02", "03:04:05", {"x": ["01"]}, None, "1.50", None, True, 7]
    assert told == dict(zip("abcdefghi", values, strict=True))
    assert query(tables, statement, "--csv") == 0
    assert capsys.readouterr().out == (
        'a,b,c,d,e,f,g,h,i\n00ff,2026-01-02,03:04:05,"{""x"": [""01""]}",null,1.50,,true,7\n'
    )


MICRO = datetime.timedelta(microseconds=1)


def test_a_span_begins_with_its_start_and_ends_before_its_end(tmp_path: Path) -> None:
    row = {"origin": "gw", "topic": "t", "sensor": "a", "day": NOW.date(), "domain": "-"}
    pack = {"sensor": "a", "unit": "V", "value": 9.0, "device_time": NOW}
    accepted = NOW - 2 * DAY
    written = [
        row | {"value": 1.0, "origin_time": NOW - MICRO},
        row | {"value": 2.0, "origin_time": NOW},
        row | {"value": 3.0, "origin_time": NOW - DAY, "device_time": NOW + MICRO},
        row | {"value": 4.0, "origin_time": NOW, "device_time": NOW - MICRO},
        # Of a pack whose gateway had it as long before as clocks may differ, and longer.
        row | {"measurements": [pack | {"value": 5.0}], "origin_time": accepted},
        row | {"measurements": [pack | {"value": 6.0}], "origin_time": accepted - MICRO},
        row | {"measurements": [pack | {"value": 7.0}]},
    ]
    put(tmp_path, "telemetry", rows(TELEMETRY, written))

    def values(**span: datetime.datetime) -> list[float]:
        return sorted(frame(tmp_path, "a", **span)["value"].to_pylist())

    assert values() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert values(start=NOW) == [2.0, 3.0, 5.0, 7.0]
    assert values(start=NOW + MICRO) == [3.0]
    assert values(end=NOW) == [1.0, 4.0]
    assert values(start=NOW, end=NOW + MICRO) == [2.0, 5.0, 7.0]
    assert values(start=NOW, end=NOW) == []
    assert values(start=NOW.replace(tzinfo=None), end=(NOW + MICRO).replace(tzinfo=None)) == [
        2.0,
        5.0,
        7.0,
    ]


def test_a_row_of_a_frame_has_what_its_message_or_its_part_of_a_pack_says(tmp_path: Path) -> None:
    row = {"origin": "gw-b", "topic": "t", "day": NOW.date(), "domain": "-"}
    row |= {"origin_time": NOW, "quality": "uncertain"}
    parts = [
        {"sensor": "a", "unit": "V", "value": 1.0, "device_time": NOW + DAY},
        {"sensor": "b", "unit": "A", "value_text": "on"},
        {"sensor": "a", "value_bool": True},
    ]
    single = {"sensor": "a", "unit": "mV", "value": 2.0, "device_time": None}
    written = [row | {"measurements": parts}, row | {"origin": "gw-a"} | single]
    put(tmp_path, "telemetry", rows(TELEMETRY, written))
    found = frame(tmp_path, "a").to_pylist()
    names = ("time", "gateway", "sensor", "unit", "value", "value_text", "value_bool", "quality")
    assert [tuple(each) for each in found] == [names] * 3
    assert [tuple(each.values()) for each in found] == [
        (NOW, "gw-a", "a", "mV", 2.0, None, None, "uncertain"),
        (NOW, "gw-b", "a", None, None, None, True, "uncertain"),
        (NOW + DAY, "gw-b", "a", "V", 1.0, None, None, "uncertain"),
    ]
    (other,) = frame(tmp_path, "b", gateway="gw-b").to_pylist()
    assert (other["value_text"], other["unit"]) == ("on", "A")
    assert frame(tmp_path, "b", gateway="gw-a").num_rows == 0
