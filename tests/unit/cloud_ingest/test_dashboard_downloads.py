"""The dashboard gives readings as files: to those who may read, bounded, and whole or cut off."""

import io
from pathlib import Path
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from dashboard_server import Visitor, complete, dashboard, visitor
from synthetic_tables import NOW, TELEMETRY, Fleet, put, rows, write_readings

from cloud_ingest.dashboard import downloads, readings_file
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.readings_file import TooManyReadingsError, WantedReadings, pieces
from cloud_ingest.query.lake import Lake

DAY_US = 86_400_000_000
END_MS = int(NOW.timestamp() * 1000) + 1
ALL = {"start_ms": END_MS - 86_400_000 * 9, "end_ms": END_MS}
HOSTILE = "=cmd|' /c calc'!A1,\"\n<b>"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Fleet(3).write(folder)
    write_readings(folder, "gw-root", ["a", "b"], 2, 3600)
    row = {"origin": HOSTILE, "sensor": HOSTILE, "unit": HOSTILE, "topic": "t", "domain": "x"}
    row |= {"value": -0.1 - 0.2, "quality": "uncertain", "origin_time": NOW, "day": NOW.date()}
    put(folder, "telemetry", rows(TELEMETRY, [row]))
    return folder


async def file(someone: Visitor, base: str, **query: Any) -> tuple[int, Any, bytes]:
    """Status, headers and body of a download."""
    asked = [(name, value) for name, one in query.items() for value in _several(one)]
    async with someone.session.get(f"{base}/api/readings", params=asked) as answer:
        return answer.status, answer.headers, await answer.read()


def _several(value: Any) -> list[str]:
    return [str(each) for each in (value if isinstance(value, list) else [value])]


async def test_a_file_has_all_readings_of_the_sensors_in_full_precision(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        asked = ALL | {"gateway": ["gw-root", HOSTILE], "sensor": ["b", HOSTILE]}
        status, headers, body = await file(someone, served.base, form="parquet", **asked)
        assert status == 200
        assert headers["Content-Disposition"] == 'attachment; filename="readings.parquet"'
        assert headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        found = pq.read_table(io.BytesIO(body))
        assert found["sensor"].to_pylist() == ["b"] * 36 + [HOSTILE]
        assert found["value"][-1].as_py() == -0.1 - 0.2
        assert found["quality"][-1].as_py() == "uncertain"
        assert found.schema.field("time").type == pa.timestamp("us", tz="UTC")

        status, headers, body = await file(someone, served.base, form="csv", **asked)
        assert (status, headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
        options = pyarrow.csv.ParseOptions(newlines_in_values=True)
        same = pyarrow.csv.read_csv(io.BytesIO(body), parse_options=options)
        assert same["value"].to_pylist() == found["value"].to_pylist()
        assert same["time"][-1].as_py() == NOW
        # What a program for tables would run is text there.
        assert same["sensor"][-1].as_py() == "'" + HOSTILE
        assert same["gateway"].to_pylist()[:36] == ["gw-root"] * 36


WRONG_QUESTIONS: list[tuple[dict[str, Any], int, str]] = [
    ({"form": "xlsx"}, 400, "form"),
    ({"sensor": []}, 400, "sensor"),
    ({"sensor": ["a", "b"]}, 400, "sensor"),
    ({"gateway": ["gw-root"] * 51, "sensor": ["a"] * 51}, 400, "sensor"),
    ({"sensor": "z"}, 404, "z"),
    ({"end_ms": 1, "start_ms": 2}, 400, "end_ms"),
    ({"start_ms": "soon"}, 400, "start_ms"),
]


async def test_a_wrong_question_for_a_file_is_told_which_field_is_wrong(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        for wrong, status, named in WRONG_QUESTIONS:
            asked = ALL | {"gateway": "gw-root", "sensor": "a", "form": "csv"} | wrong
            found, _, body = await file(someone, served.base, **asked)
            assert found == status, wrong
            assert named in body.decode(), wrong


async def test_more_readings_than_a_file_may_have_are_refused_before_it_begins(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings_file.pieces, "__defaults__", (10,))
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        asked = ALL | {"gateway": "gw-root", "sensor": "a", "form": "csv"}
        status, _, body = await file(someone, served.base, **asked)
        assert (status, b"shorter span" in body) == (413, True)


async def test_a_file_that_does_not_come_to_its_end_is_cut_off(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*_: Any) -> Any:
        yield b"time,gateway\n"
        raise TooManyReadingsError("more")

    monkeypatch.setattr(readings_file, "pieces", torn)
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        asked = ALL | {"gateway": "gw-root", "sensor": "a", "form": "csv"}
        with pytest.raises(aiohttp.ClientError):
            await file(someone, served.base, **asked)
        monkeypatch.undo()
        assert (await file(someone, served.base, **asked))[0] == 200


async def test_only_so_many_files_are_made_at_once(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "AT_ONCE", 0)
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        asked = ALL | {"gateway": "gw-root", "sensor": "a", "form": "csv"}
        assert (await file(someone, served.base, **asked))[0] == 503


async def test_history_readings_and_files_are_for_those_who_may_read(tables: Path) -> None:
    async with dashboard(tables, has_users=True) as served, visitor(served) as someone:
        for path in ("history?gateway=gw-root&hours=24", "current?gateway=gw-root", "readings"):
            async with someone.session.get(f"{served.base}/api/{path}") as answer:
                assert answer.status == 401


async def test_history_and_current_readings_are_told_over_http(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        status, told = await someone.get("history", gateway="gw-root", hours=24)
        assert (status, told["time_ms"], told["links"]) == (200, [], [])
        _, told = await someone.get("current", gateway="gw-root")
        assert (told["count"], told["sensor"], len(told["hours"][1])) == (2, ["a", "b"], 24)
        _, told = await someone.get("current", gateway=HOSTILE, sensor=HOSTILE)
        assert (told["sensor"], told["quality"]) == ([HOSTILE], ["uncertain"])
        assert (await someone.get("current", gateway="nobody"))[1]["sensor"] == []
        for path, query, named in (
            ("history", {"hours": 24}, "gateway"),
            ("history", {"gateway": "gw-root", "hours": 169}, "hours"),
            ("current", {}, "gateway"),
        ):
            status, told = await someone.get(path, **query)
            assert (status, named in told["error"]) == (400, True)


async def test_without_a_table_there_is_neither_history_nor_reading(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as served, visitor(served) as someone:
        assert (await someone.get("history", gateway="g", hours=1))[1]["time_ms"] == []
        assert (await someone.get("current", gateway="g"))[1]["count"] == 0
        asked = ALL | {"gateway": "g", "sensor": "a", "form": "csv"}
        assert (await file(someone, served.base, **asked))[0] == 404


def test_a_file_holds_only_what_lies_in_its_span(tables: Path) -> None:
    models = Models(Lake(tables))
    models.refresh_all()
    end = int(NOW.timestamp()) * 1_000_000
    wanted = WantedReadings([models.series["gw-root", "a"]], end - 3 * 3_600_000_000, end)
    body = b"".join(pieces(models.rollups, wanted, "csv"))
    assert body.count(b"\n") == 4
    assert b'"2026-11-20T09:00:00.000000Z"' in body


def test_readings_that_the_roll_ups_do_not_count_are_counted_as_they_come(tmp_path: Path) -> None:
    row = {"origin": "gw", "sensor": "a", "topic": "t", "domain": "x", "day": NOW.date()}
    row |= {"value": 1.0, "origin_time": NOW}
    put(tmp_path, "telemetry", rows(TELEMETRY, [row, row, row | {"quality": "bad"}]))
    models = Models(Lake(tmp_path))
    models.refresh_all()
    end_us = int(NOW.timestamp()) * 1_000_000 + 1
    wanted = WantedReadings([models.series["gw", "a"]], end_us - DAY_US, end_us)
    assert b"".join(pieces(models.rollups, wanted, "csv", 3)).count(b"\n") == 4
    found = pieces(models.rollups, wanted, "csv", 2)
    with pytest.raises(TooManyReadingsError, match="more than 2 readings"):
        list(found)
    with pytest.raises(TooManyReadingsError, match="2 readings are more than 1"):
        pieces(models.rollups, wanted, "csv", 1)
