"""The history of gateways and the current readings of sensors come from rows of `telemetry`."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from synthetic_tables import NOW, TELEMETRY, put, rows

from cloud_ingest.dashboard import sensors_view
from cloud_ingest.dashboard.day_files import RECENT_DAYS, DayChange
from cloud_ingest.dashboard.latest_readings import LatestReadings
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.status_history import PEERS_SHOWN_MAX, ROWS_MAX, StatusHistory
from cloud_ingest.ingest.columns import is_status_of
from cloud_ingest.query.lake import Lake
from record_formats.status_record import LinkStatus, StatusRecord

MINUTE = datetime.timedelta(minutes=1)
DAY = 1440 * MINUTE
STATUS = StatusRecord(interval_s=30.0, temperature_cel=50.0, load1=0.25)


def status(
    minute: int, record: StatusRecord | bytes = STATUS, gateway: str = "gw", **other: Any
) -> dict[str, Any]:
    """A row of a status that was accepted so many minutes before now."""
    at = NOW - minute * MINUTE
    payload = record if isinstance(record, bytes) else record.encode()
    row = {"origin": gateway, "topic": f"d/g/{gateway}/$status", "payload": payload}
    row |= {"origin_time": at, "collected_time": at, "day": at.date(), "domain": "d"}
    return row | other


def reading(minute: int, value: float | None, **other: Any) -> dict[str, Any]:
    at = NOW - minute * MINUTE
    row = {"origin": "gw", "topic": "t", "sensor": "a", "unit": "Cel", "value": value}
    row |= {"origin_time": at, "collected_time": at, "day": at.date(), "domain": "d"}
    return row | other


def models(tables: Path, *told: dict[str, Any]) -> Models:
    """All that is shown of some rows."""
    put(tables, "telemetry", rows(TELEMETRY, list(told)))
    made = Models(Lake(tables))
    made.refresh_all()
    assert not made.problems
    return made


def history(*told: dict[str, Any], rows_max: int = ROWS_MAX) -> StatusHistory:
    """Return a history that has taken these rows, day by day, the newest day first."""
    made = StatusHistory(rows_max)
    for day in sorted({row["day"] for row in told}, reverse=True):
        batch = ds.dataset(rows(TELEMETRY, [row for row in told if row["day"] == day]))
        made.take(batch, DayChange(day.isoformat(), (), is_anew=False))
    return made


def now(shown: Models, sensor: str = "a") -> dict[str, Any]:
    """Return the current reading of a sensor."""
    found = [shown.series["gw", sensor]]
    told = sensors_view.current(shown.rollups, shown.latest, found)
    return {name: told[name][0] for name in ("value", "unit", "quality", "time_ms")}


def test_the_last_status_of_each_quarter_of_an_hour_is_told() -> None:
    cold = StatusRecord(interval_s=30.0, temperature_cel=20.0, memory_bytes=7)
    told = history(status(31, cold), status(16, cold), status(17), status(1))
    found = told.of("gw", 24)
    assert found["temperature_cel"] == [20.0, 20.0, 50.0]
    assert found["memory_bytes"] == [7.0, 7.0, None]
    assert found["load1"] == [None, None, 0.25]
    assert found["time_ms"][-1] == int((NOW - MINUTE).timestamp() * 1000)
    assert told.of("nobody", 24)["time_ms"] == []


def test_the_hours_count_from_the_newest_status_of_the_gateway() -> None:
    told = history(*(status(60 * hour) for hour in range(20, 40)))
    assert len(told.of("gw", 6)["time_ms"]) == 6
    assert len(told.of("gw", 24)["time_ms"]) == 20


def test_links_are_told_by_neighbour_those_that_were_there_longest_first() -> None:
    peers = [f"p{number:02d}" for number in range(12)]
    told = []
    for at, minute in enumerate(range(0, 15 * len(peers), 15)):
        links = tuple(LinkStatus(peer, 1.5, "root", "forwarding") for peer in peers[at:])
        told.append(status(minute, StatusRecord(interval_s=30.0, links=links)))
    found = history(*told).of("gw", 24)
    assert found["peer_count"] == len(peers)
    assert [each["peer"] for each in found["links"]] == peers[: -1 - PEERS_SHOWN_MAX : -1]
    assert found["links"][0]["rtt_ms"] == [1.5] * len(peers)
    assert found["links"][1]["rtt_ms"] == [None] + [1.5] * (len(peers) - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": "d/g/other/$status"},
        {"topic": "x/d/g/gw/$status"},
        {"topic": "gw/$status"},
        {"topic": "$status"},
        {"payload": b"no record"},
        {"payload": b"\x81\xa1e\xcb\x7f\xf8\0\0\0\0\0\0"},
        {"payload": b"x" * 20_000},
        {"payload": None},
        {"origin_time": None, "collected_time": None},
    ],
)
def test_what_is_no_status_of_its_gateway_is_not_shown(wrong: dict[str, Any]) -> None:
    assert history(status(1) | wrong).of("gw", 24)["time_ms"] == []


@pytest.mark.parametrize(
    "topic", ["d/g/gw/$status", "/d/gw/$status", "//gw/$status", "d/gw/$status", "a/d/g/gw/$status"]
)
def test_which_topic_is_a_status_is_the_jobs_rule(topic: str) -> None:
    found = history(status(1, topic=topic)).of("gw", 24)
    assert bool(found["time_ms"]) is is_status_of(topic, "gw")


def test_a_clock_far_ahead_counts_as_when_it_was_collected() -> None:
    ahead = NOW + 400 * DAY
    found = history(status(30), status(1, origin_time=ahead)).of("gw", 24)
    assert found["time_ms"][-1] == int((NOW - MINUTE).timestamp() * 1000)


def test_names_that_are_statements_stay_names() -> None:
    name = "'; DROP TABLE statuses; --"
    told = history(status(1, gateway=name), status(2))
    assert len(told.of(name, 24)["time_ms"]) == 1
    assert len(told.of("gw", 24)["time_ms"]) == 1


def test_new_files_and_files_that_are_read_anew_double_nothing(tmp_path: Path) -> None:
    shown = models(tmp_path, status(5), status(40))
    warm = StatusRecord(interval_s=30.0, temperature_cel=60.0)
    put(tmp_path, "telemetry", rows(TELEMETRY, [status(3, warm), status(4)]))
    shown.refresh(1e9)
    assert shown.history.of("gw", 24)["temperature_cel"] == [50.0, 60.0]
    put(tmp_path, "telemetry", rows(TELEMETRY, [status(6, warm)]), "overwrite")
    shown.refresh(2e9)
    assert shown.history.of("gw", 24)["temperature_cel"] == [60.0]


def test_days_beyond_the_last_and_rows_beyond_the_bound_go_the_oldest_first() -> None:
    week = [status(1440 * day) for day in range(RECENT_DAYS + 3)]
    assert len(history(*week).of("gw", 24 * 30)["time_ms"]) == RECENT_DAYS
    assert len(history(*week, rows_max=3).of("gw", 24 * 30)["time_ms"]) == 3


def test_a_table_of_before_has_a_history_too() -> None:
    old = rows(TELEMETRY, [status(1), reading(1, 4.0)]).drop_columns(["collected_time", "quality"])
    batch = ds.dataset(old)
    history, latest = StatusHistory(), LatestReadings()
    for each in (history, latest):
        each.take(batch, DayChange("2026-11-20", (), is_anew=False))
    assert history.of("gw", 24)["load1"] == [0.25]
    found = latest.of("gw", "a")
    assert found is not None
    assert (found.value, found.quality) == (4.0, None)


def test_the_reading_that_was_accepted_last_counts_whatever_devices_clocks_say(
    tmp_path: Path,
) -> None:
    early = reading(9, 1.0, device_time=NOW + 900 * DAY, quality="good")
    late = reading(3, 2.0, device_time=NOW - 4 * MINUTE, unit="K", quality="uncertain")
    assert now(models(tmp_path, early, late)) == {
        "value": 2.0,
        "unit": "K",
        "quality": "uncertain",
        "time_ms": int((NOW - 4 * MINUTE).timestamp() * 1000),
    }


@pytest.mark.parametrize("moves", [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0, 0.0]])
@pytest.mark.parametrize("is_told_at_once", [True, False])
def test_of_the_readings_of_one_batch_the_last_by_its_number_counts(
    tmp_path: Path, moves: list[float], *, is_told_at_once: bool
) -> None:
    """A batch has one time, and a switch may move twice in it."""
    told = [
        reading(3, value, boot_epoch=7, sequence=9 + number) for number, value in enumerate(moves)
    ]
    shown = models(tmp_path, *(told if is_told_at_once else told[:1]))
    if not is_told_at_once:
        put(tmp_path, "telemetry", rows(TELEMETRY, told[1:]))
        shown.refresh(1e9)
    assert now(shown)["value"] == moves[-1]


def test_a_reading_that_is_bad_is_told_as_such(tmp_path: Path) -> None:
    shown = models(tmp_path, reading(9, 1.0), reading(2, None, quality="bad"))
    assert (now(shown)["value"], now(shown)["quality"]) == (None, "bad")


def test_each_sensor_of_a_pack_has_its_own_reading(tmp_path: Path) -> None:
    pack = [
        {"sensor": "a", "unit": "V", "value": 1.0, "device_time": NOW - 5 * MINUTE},
        {"sensor": "a", "unit": "V", "value": 3.0, "device_time": NOW - 2 * MINUTE},
        {"sensor": "b", "unit": "A", "value": 2.0},
    ]
    shown = models(tmp_path, reading(1, 1.0, measurements=pack))
    assert now(shown, "a")["value"] == 3.0
    assert now(shown, "b") == {
        "value": 2.0,
        "unit": "A",
        "quality": None,
        "time_ms": int((NOW - MINUTE).timestamp() * 1000),
    }


def test_hours_without_a_reading_are_null(tmp_path: Path) -> None:
    shown = models(tmp_path, reading(0, 8.0), reading(10, 6.0), reading(120, 4.0))
    told = sensors_view.current(shown.rollups, shown.latest, [shown.series["gw", "a"]])
    assert told["hours"] == [[None] * 21 + [4.0, 6.0, 8.0]]


@pytest.mark.parametrize(("days_ago", "is_known"), [(RECENT_DAYS - 1, True), (RECENT_DAYS, False)])
def test_a_reading_of_the_oldest_recent_day_is_known_and_none_of_the_day_before(
    days_ago: int, is_known: bool
) -> None:
    latest = LatestReadings()
    newest = ds.dataset(rows(TELEMETRY, [reading(1, 4.0)]))
    latest.take(newest, DayChange("2026-11-20", (), is_anew=False))
    old = ds.dataset(rows(TELEMETRY, [reading(2, 5.0) | {"origin": "gw-old"}]))
    day = datetime.date(2026, 11, 20) - datetime.timedelta(days=days_ago)
    latest.take(old, DayChange(day.isoformat(), (), is_anew=False))
    assert (latest.of("gw-old", "a") is not None) is is_known
    assert latest.of("gw", "a") is not None
    latest.take(None, DayChange("2026-11-20", (), is_anew=True))
    assert latest.of("gw", "a") is None
