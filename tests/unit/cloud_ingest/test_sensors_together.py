"""Several sensors in one chart: the answer is what one answer for each would be, on one grid."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dashboard_server import Visitor, complete, dashboard, visitor
from synthetic_tables import NOW, TELEMETRY, put, rows, write_readings

from cloud_ingest.dashboard.asked import SENSORS_MAX
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.sensors_view import rounded, window
from cloud_ingest.dashboard.together import together
from cloud_ingest.query.lake import Lake

NOW_US = int(NOW.timestamp()) * 1_000_000
DAY_US = 86_400_000_000
HOUR = datetime.timedelta(hours=1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_readings(folder, "gw-a", ["hall", "yard"], 9, 1800)
    write_readings(folder, "gw-b", ["hall"], 2, 3600)
    row = {"origin": "gw-c", "sensor": "hall", "unit": "V", "domain": "x", "value": 1.0}
    row |= {"origin_time": NOW - HOUR, "day": (NOW - HOUR).date()}
    put(folder, "telemetry", rows(TELEMETRY, [row, row | {"value": 99.0, "quality": "bad"}]))
    return folder


@pytest.fixture(scope="module")
def models(tables: Path) -> Models:
    found = Models(Lake(tables))
    found.refresh_all()
    return found


def column(told: dict[str, Any], at: int) -> list[tuple[int, float]]:
    """Times and means of one of the sensors."""
    means = zip(told["time_ms"], told["mean"][at], strict=True)
    return [(time_ms, mean) for time_ms, mean in means if not np.isnan(mean)]


@pytest.mark.parametrize(("days", "points"), [(9, 20), (9, 200), (4, 1000)])
def test_what_is_told_of_several_is_what_is_told_of_each(
    models: Models, days: int, points: int
) -> None:
    series = list(models.series.values())
    span = NOW_US - days * DAY_US, NOW_US
    told = together(models.rollups, series, *span, points)
    for at, each in enumerate(series):
        alone = window(models.rollups, each, *span, points)
        assert column(told, at) == list(zip(alone["time_ms"], alone["mean"], strict=True))
        assert told["low"][at] == min(alone["low"])
        assert told["high"][at] == max(alone["high"])
    assert told["time_ms"] == sorted(set(told["time_ms"]))


def test_a_short_span_is_read_reading_by_reading_and_what_is_bad_is_not_told(
    models: Models,
) -> None:
    series = list(models.series.values())
    told = together(models.rollups, series, NOW_US - DAY_US, NOW_US, 1000)
    part_us = DAY_US / 1000
    for at, each in enumerate(series):
        alone = window(models.rollups, each, NOW_US - DAY_US, NOW_US, 1000)
        assert alone["kind"] == "readings"
        assert [mean for _, mean in column(told, at)] == alone["mean"]
        for (time_ms, _), exactly in zip(column(told, at), alone["time_ms"], strict=True):
            assert abs(time_ms - exactly) * 1000 <= part_us / 2 + 1000
    at = next(at for at, each in enumerate(series) if each.gateway == "gw-c")
    assert (told["high"][at], told["average"][at]) == (1.0, 1.0)


def test_a_span_without_a_reading_is_empty_for_each_sensor(models: Models) -> None:
    series = list(models.series.values())
    for days, points in ((1, 1000), (30, 10)):
        until = NOW_US - 400 * DAY_US
        told = together(models.rollups, series, until - days * DAY_US, until, points)
        assert told["time_ms"] == []
        assert told["mean"] == [[]] * len(series)
        assert np.isnan(told["low"]).all()


@pytest.mark.parametrize(
    "values", [(0.1 + 0.2, -1234567.8, 0.0), (1e-300, 5e-324, 1.7e308), (float("nan"), -1e15)]
)
def test_numbers_have_the_six_digits_that_a_chart_shows(values: Sequence[float]) -> None:
    for found, value in zip(rounded(values), values, strict=True):
        assert found == pytest.approx(float(f"{value:.6g}"), rel=1e-15, nan_ok=True)


async def asked(someone: Visitor, base: str, path: str, pairs: Sequence[tuple[str, str]]) -> Any:
    query = [each for one, other in pairs for each in (("gateway", one), ("sensor", other))]
    query += [
        ("start_ms", str((NOW_US - 9 * DAY_US) // 1000)),
        ("end_ms", str(NOW_US // 1000)),
        ("points", "50"),
    ]
    async with someone.session.get(f"{base}/api/{path}", params=query) as answer:
        return answer.status, await answer.json()


async def test_several_sensors_are_asked_for_in_pairs_as_many_as_a_chart_has(tables: Path) -> None:
    async with dashboard(tables) as served, visitor(served) as someone:
        await complete(served)
        pairs = [("gw-b", "hall"), ("gw-a", "yard")]
        status, told = await asked(someone, served.base, "together", pairs)
        assert (status, len(told["mean"])) == (200, 2)
        assert None in told["mean"][0]
        status, now = await asked(someone, served.base, "current", pairs)
        assert list(zip(now["gateway"], now["sensor"], strict=True)) == pairs
        assert None not in now["value"]
        wrong = [
            ([("gw-a", "z")], 404, "z"),
            ([("gw-a", "hall")] * (SENSORS_MAX + 1), 400, str(SENSORS_MAX)),
        ]
        for pairs, expected, named in wrong:
            status, told = await asked(someone, served.base, "together", pairs)
            assert (status, named in told["error"]) == (expected, True)
        assert (await someone.get("together", gateway="gw-a"))[0] == 400
