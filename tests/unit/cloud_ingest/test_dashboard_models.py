"""The dashboard shows the content of the tables."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from synthetic_tables import ALERTS, GAPS, NOW, TELEMETRY, TOPOLOGY, Fleet, put, readings, rows

from cloud_ingest.dashboard import fleet_view, loss_view
from cloud_ingest.dashboard.alerts_view import alerts
from cloud_ingest.dashboard.day_files import DayFiles
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.rollups import BUCKET_S
from cloud_ingest.dashboard.sensors_view import POINTS_MAX, parts, rounded, steps_of, window
from cloud_ingest.dashboard.tree_view import TreeHistory
from cloud_ingest.query.lake import Lake

HOUR = datetime.timedelta(hours=1)
NOW_US = int(NOW.timestamp() * 1e6)
DAY_US = 86_400_000_000


def telemetry(tables: Path, sensors: list[str], days: int, every_s: int = 600) -> int:
    """Write some; returns how many readings."""
    written = 0
    for table in readings("gw-root", sensors, days, every_s):
        put(tables, "telemetry", table)
        written += table.num_rows
    return written


def taken_up(models: Models) -> int:
    return sum(one.readings for one in models.rollups.series())


def test_nothing_is_shown_where_no_table_is_yet_and_all_of_it_once_they_are(tmp_path: Path) -> None:
    models = Models(Lake(tmp_path / "tables"))
    assert models.refresh() == frozenset()
    assert b'"count":0' in models.answers["fleet"].body
    Fleet(30).write(tmp_path / "tables")
    telemetry(tmp_path / "tables", ["a"], 2)
    told = models.refresh(1e9)
    assert told == {"telemetry", "gateways", "gaps", "latency", "topology", "alerts"}
    assert b'"count":30' in models.answers["fleet"].body
    assert models.refresh(2e9) == frozenset()
    assert not models.problems


def test_a_table_that_can_not_be_read_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    Fleet(3).write(tmp_path)
    log = sorted((tmp_path / "alerts" / "_delta_log").glob("*.json"))[0]
    log.write_text("{damaged")
    models = Models(Lake(tmp_path))
    assert "gateways" in models.refresh()
    assert set(models.problems) == {"alerts"}
    assert str(tmp_path / "alerts") in models.problems["alerts"]


def test_it_is_never_told_that_all_is_taken_up_before_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = telemetry(tmp_path, ["a"], 20, every_s=3600)
    models = Models(Lake(tmp_path))
    follow, told = models.rollups.follow, [models.is_complete]

    def watched(name: str, dataset: ds.FileSystemDataset) -> bool:
        more = follow(name, dataset)
        told.append(models.is_complete)
        return more

    monkeypatch.setattr(models.rollups, "follow", watched)
    models.refresh_all()
    assert told == [False] * 4  # before the first look, and within each
    assert models.is_complete
    assert taken_up(models) == written


def test_a_table_whose_file_fails_midway_is_not_complete_for_good(tmp_path: Path) -> None:
    written = telemetry(tmp_path, ["a"], 20, every_s=3600)
    oldest = min((tmp_path / "telemetry").glob("day=*/**/*.parquet"))
    whole = oldest.read_bytes()
    oldest.write_bytes(b"damaged")
    models = Models(Lake(tmp_path))
    models.refresh_all()
    assert set(models.problems) == {"telemetry"}
    oldest.write_bytes(whole)
    models.refresh(1e9)
    models.refresh_all()
    assert not models.problems
    assert taken_up(models) == written


def test_health_and_open_alerts_are_counted() -> None:
    fleet = Fleet(120)
    told = fleet_view.fleet(fleet.gateways(), alerts(fleet.alerts(), None))
    assert sum(told["health"].values()) == told["count"] == 120
    silent = [
        name
        for name, health in zip(
            told["gateways"]["gateway"], told["gateways"]["health"], strict=True
        )
        if health == "silent"
    ]
    counts = dict(zip(told["gateways"]["gateway"], told["gateways"]["alerts"], strict=True))
    assert silent
    assert all(counts[name] == 1 for name in silent)


def test_open_alerts_stand_first_and_the_last_acknowledgement_counts() -> None:
    table = rows(
        ALERTS,
        [
            {"alert": "a", "gateway": "g", "opened": NOW - HOUR, "cleared": NOW},
            {"alert": "b", "gateway": "g", "opened": NOW - 3 * HOUR},
            {"alert": "c", "gateway": "g", "opened": NOW - 2 * HOUR},
        ],
    )
    said = pa.table(
        {
            "alert": ["b", "b"],
            "by": ["bob", "anna"],
            "time": pa.array([NOW, NOW - HOUR], pa.timestamp("us", tz="UTC")),
            "note": ["fan", "saw it"],
        }
    )
    told = alerts(table, said)
    assert told["alert"] == ["c", "b", "a"]
    assert told["acknowledged_by"] == [None, "bob", None]
    assert told["acknowledged_note"][1] == "fan"
    assert told["what_to_do"] == [None, None, None]  # of a job of an earlier release
    steps = pa.array(["c", "look at it", "c"])
    assert alerts(table.append_column("what_to_do", steps), said)["what_to_do"][1] == "look at it"


def test_the_tree_is_replayed_as_it_was_at_each_moment() -> None:
    fleet = Fleet(40)
    history = TreeHistory(fleet.topology(changes=5))
    first, last = history.span_ms or (0, 0)
    assert history.at(first - 1)["gateway"] == []
    now = history.at(last)
    assert dict(zip(now["gateway"], now["parent"], strict=True)) == fleet.parents
    moments = history.moments()
    assert sum(moments["counts"]) >= 40
    moved = next(at for at in moments["changes_ms"] if at > first + 1_000_000)
    before, after = history.at(moved - 1), history.at(moved)
    assert before["gateway"] == after["gateway"]
    assert before["parent"] != after["parent"]


def test_what_is_missing_is_counted_until_its_gap_is_closed() -> None:
    common = {"gateway": "g", "boot_epoch": 2**63 - 1, "logged": True, "found_time": NOW}
    table = rows(
        GAPS,
        [
            common | {"first": 1, "last": 1, "closed_time": NOW},
            common | {"first": 5, "last": 9},
        ],
    )
    told = loss_view.gaps(table)
    assert (told["open"], told["missing"]) == (1, 5)
    assert told["gaps"]["first"] == [5, 1]
    assert told["gaps"]["boot_epoch"][0] == str(2**63 - 1)


def test_a_long_span_and_a_short_one_have_the_same_least_and_greatest(tmp_path: Path) -> None:
    telemetry(tmp_path, ["a", "b"], 12)
    models = Models(Lake(tmp_path))
    models.refresh_all()
    series = models.series["gw-root", "b"]
    far = window(models.rollups, series, NOW_US - 12 * DAY_US, NOW_US, 100)
    assert far["kind"] == "parts"
    assert len(far["time_ms"]) <= 101
    near = [
        window(models.rollups, series, NOW_US - (at + 1) * DAY_US, NOW_US - at * DAY_US, 1000)
        for at in range(12)
    ]
    assert all(each["kind"] == "readings" for each in near)
    assert min(far["low"]) == min(low for each in near for low in each["low"])
    assert max(far["high"]) == max(high for each in near for high in each["high"])
    assert sum(len(each["low"]) for each in near) == series.readings


def test_each_reading_of_a_pack_is_shown_and_what_is_bad_is_not(tmp_path: Path) -> None:
    at = NOW - HOUR
    row = {"origin": "gw", "origin_time": at, "topic": "t", "day": at.date(), "domain": "-"}
    pack = [
        {"sensor": "a", "unit": "V", "value": 1.0, "device_time": at},
        {"sensor": "b", "unit": "V", "value": 2.0, "device_time": at},
    ]
    put(
        tmp_path,
        "telemetry",
        rows(
            TELEMETRY,
            [
                row | {"sensor": "a", "value": 1.0, "device_time": at, "measurements": pack},
                row | {"sensor": "b", "value": 99.0, "quality": "bad"},
                row | {"sensor": None, "value": 7.0},
            ],
        ),
    )
    models = Models(Lake(tmp_path))
    models.refresh_all()
    assert {key: each.readings for key, each in models.series.items()} == {
        ("gw", "a"): 1,
        ("gw", "b"): 1,
        ("gw", "t"): 1,
    }
    shown = window(models.rollups, models.series["gw", "b"], NOW_US - DAY_US, NOW_US, 100)
    assert shown["mean"] == [2.0]


def test_long_parts_are_told_from_fewer_rows_that_say_the_same_also_after_a_compaction(
    tmp_path: Path,
) -> None:
    telemetry(tmp_path, ["a", "b"], 12)
    models = Models(Lake(tmp_path))
    models.refresh_all()
    series = models.series["gw-root", "b"]
    wide = 60
    each_part = (
        f"SELECT bucket // {wide}, min(low), max(high), sum(total) / sum(readings) "
        "FROM readings WHERE series = ? GROUP BY 1 ORDER BY 1"
    )
    for _ in range(2):
        told = window(models.rollups, series, NOW_US - 12 * DAY_US, NOW_US, 20)
        assert told["part_s"] == wide * BUCKET_S
        expected = models.rollups.rows(each_part, series.number)
        names = ("low", "high", "mean")
        found = list(zip(*(told[name] for name in names), strict=True))
        assert found == [tuple(float(f"{one:.6g}") for one in row[1:]) for row in expected]
        DeltaTable(tmp_path / "telemetry").optimize.compact()
        models.refresh(now_s=1e12)
        while not models.is_complete:
            models.refresh(now_s=1e12)
    rows_of = "SELECT count(*) FROM {} WHERE series = ?"
    many, few = (models.rollups.rows(rows_of.format(n), series.number) for n in ("readings", "far"))
    assert few[0][0] < many[0][0] / 10


def test_only_new_files_are_read_and_a_day_whose_files_went_is_read_anew(tmp_path: Path) -> None:
    telemetry(tmp_path, ["a"], 2)
    models = Models(Lake(tmp_path))
    models.refresh_all()
    first = models.series["gw-root", "a"].readings
    telemetry(tmp_path, ["a"], 1)
    models.refresh(1e9)
    assert models.series["gw-root", "a"].readings == first + 12 * 6
    table = models.lake.open("telemetry")
    assert table is not None
    table.optimize.compact()
    models.refresh(2e9)
    assert models.series["gw-root", "a"].readings == first + 12 * 6
    table.update_incremental()
    table.delete("day = '2026-11-19'")
    models.refresh(3e9)
    assert models.series["gw-root", "a"].readings == 2 * 12 * 6


def test_a_minute_that_was_told_again_counts_once(tmp_path: Path) -> None:
    latency = Fleet(2).latency(hours=2)
    put(tmp_path, "latency", latency)
    models = Models(Lake(tmp_path))
    models.refresh_all()
    before = loss_view.latency(models.rollups, 24)
    more = latency.set_column(3, "count", pa.array(np.array(latency["count"]) + 900))
    put(tmp_path, "latency", more)
    models.refresh(1e9)
    after = loss_view.latency(models.rollups, 24)
    for stage, told in before["stages"].items():
        assert after["stages"][stage]["rate_per_s"] == pytest.approx(
            [rate + 2 for rate in told["rate_per_s"]], rel=1e-4
        )


def test_what_came_late_of_a_minute_is_added_to_it(tmp_path: Path) -> None:
    of_before = Fleet(2).latency(hours=2)
    put(tmp_path, "latency", of_before.drop_columns(["part"]))
    models = Models(Lake(tmp_path))
    models.refresh_all()
    before = loss_view.latency(models.rollups, 24)
    counts = pa.array(np.full(of_before.num_rows, 900))
    late = of_before.set_column(3, "count", counts).drop_columns(["part"])
    late = late.append_column("part", pa.array(np.arange(1, late.num_rows + 1)))
    write_deltalake(tmp_path / "latency", late, mode="append", schema_mode="merge")
    models.refresh(1e9)
    after = loss_view.latency(models.rollups, 24)
    for stage, told in before["stages"].items():
        assert after["stages"][stage]["rate_per_s"] == pytest.approx(
            [rate + 2 for rate in told["rate_per_s"]], rel=1e-4
        )


@given(
    st.lists(st.tuples(st.integers(0, 9_999), st.floats(-1e6, 1e6)), min_size=1, max_size=300),
    st.integers(2, 50),
)
def test_down_sampling_loses_no_extreme_and_keeps_the_order(
    told: list[tuple[int, float]], count: int
) -> None:
    told.sort()
    times, values = np.array([at for at, _ in told]), np.array([value for _, value in told])
    found = parts(times * 1000, values, 0, 10_000_000, count)
    assert len(found["time_ms"]) <= count
    assert found["time_ms"] == sorted(found["time_ms"])
    assert min(found["low"]) == rounded(values.min())
    assert max(found["high"]) == rounded(values.max())


def test_days_are_read_from_the_newest_and_only_so_many() -> None:
    days = DayFiles(days_max=2)
    files = [f"t/day=2026-11-{day:02d}/domain=x/part-{day}.parquet" for day in (1, 2, 3)]
    found = days.changes([*files, "t/part-without-a-day.parquet"])
    assert [change.day for change in found] == ["2026-11-03", "2026-11-02"]
    for change in found:
        days.done(change)
    assert days.has_all(files)
    later = days.changes([*files, "t/day=2026-11-04/part.parquet"])
    assert [(change.day, change.is_anew) for change in later] == [
        ("2026-11-04", False),
        ("2026-11-02", True),
    ]


def test_the_tree_is_between_two_changes_as_it_was_after_the_first() -> None:
    tree = TreeHistory(Fleet(12).topology(4))
    first, last = tree.span_ms or (0, 0)
    changes = tree.moments()["changes_ms"]
    assert tree.last_change_ms(first - 1) == 0
    assert tree.last_change_ms(last + 5_000) == last
    before = changes[-2]
    assert tree.last_change_ms(last - 1) == before
    asked, told = tree.at(last - 1), tree.at(before)
    assert {**asked, "time_ms": 0} == {**told, "time_ms": 0}


def test_answers_are_asked_anew_after_each_change_of_their_table(tmp_path: Path) -> None:
    fleet = Fleet(4)
    fleet.write(tmp_path)
    models = Models(Lake(tmp_path))
    models.refresh_all()
    before = dict(models.changes)
    models.refresh()
    assert dict(models.changes) == before
    put(tmp_path, "topology", fleet.topology(3))
    models.refresh()
    assert models.changes["topology"] == before["topology"] + 1
    assert models.changes["latency"] == before["latency"]


def link(peer: str, role: str, state: str, rtt_ms: float) -> dict[str, object]:
    return {"peer": peer, "rtt_ms": rtt_ms, "role": role, "state": state}


def test_links_of_the_tree_have_round_trip_times_and_the_role_of_the_end_that_is_blocked() -> None:
    def said(
        seconds: int, gateway: str, parent: str | None, *links: dict[str, object]
    ) -> dict[str, object]:
        moment = NOW + datetime.timedelta(seconds=seconds)
        return {"time": moment, "gateway": gateway, "root": "a", "parent": parent, "links": links}

    told = [
        said(0, "a", None, link("b", "designated", "forwarding", 2.0)),
        said(0, "b", "a", link("a", "root", "forwarding", 2.5), link("c", "blocked", "no", 7.0)),
        said(0, "c", "a", link("a", "root", "forwarding", 3), link("b", "designated", "no", 8.0)),
        said(9, "c", "a", link("a", "root", "forwarding", 9), link("b", "designated", "no", 9.0)),
    ]
    tree = TreeHistory(rows(TOPOLOGY, told))
    found = tree.at(int(NOW.timestamp() * 1000) + 20_000)
    rtts_ms = dict(zip(found["gateway"], found["rtt_ms"], strict=True))
    assert rtts_ms == {"a": None, "b": 2.5, "c": 3.0}
    assert found["standby"] == [["b", "c", "blocked", 7.0]]
    assert len(tree.moments()["changes_ms"]) == 1  # a round-trip time is no change


def test_the_fleet_says_where_its_gateways_stand_and_how_far_their_parents_are() -> None:
    told = fleet_view.fleet(Fleet(3).gateways(), alerts(None, None))["gateways"]
    assert [round(each) for each in told["latitude"]] == [52, 52, 52]
    assert all(each == round(each, 6) for each in told["longitude"])
    at_root = told["gateway"].index("gw-root")
    assert told["rtt_ms"][at_root] is None
    assert sum(each is not None for each in told["rtt_ms"]) == 2
    old = Fleet(3).gateways().drop_columns(["latitude", "longitude"])
    assert fleet_view.fleet(old, alerts(None, None))["gateways"]["latitude"] == [None] * 3


@pytest.mark.parametrize(
    ("start_us", "end_us", "points", "why"),
    [
        (5, 5, 10, "end: 5 us is not after start, 5 us"),
        (0, 9, 1, "points: 1 is not 2 to "),
        (0, 9, POINTS_MAX + 1, f"points: {POINTS_MAX + 1} is not 2 to {POINTS_MAX}"),
    ],
)
def test_a_span_without_time_or_with_too_few_or_many_points_is_refused(
    start_us: int, end_us: int, points: int, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        steps_of(start_us, end_us, points)
    assert steps_of(0, 9, 2) is None
    assert steps_of(0, 9, POINTS_MAX) is None
