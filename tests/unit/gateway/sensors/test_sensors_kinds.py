"""The kinds of sensors: host, replay, switch and a developer's own, built from configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sensors import recorded
from gateway.sensors.catalogue import build_sensors
from gateway.sensors.host import host_sensors
from gateway.sensors.options import SensorConfigError
from gateway.sensors.recorded import Series, SeriesError
from gateway.sensors.replay import Playback, Replay
from gateway.sensors.sensor import Actuator, Sensor
from gateway.sensors.switch import Switch


class Soil(Sensor):
    unit = "%RH"
    resource_type = "soil-moisture"

    def __init__(self, name: str, *, channel: int, **more: object) -> None:
        super().__init__(name, **more)  # type: ignore[arg-type]  # the catalogue's own keywords
        self.channel = channel

    def read(self) -> float:
        return 10.0 * self.channel


def test_the_host_reads_itself() -> None:
    sensors = {sensor.name: sensor for sensor in host_sensors()}
    assert {"host/load1", "host/memory", "host/disk", "host/net-sent"} <= set(sensors)
    for sensor in sensors.values():
        assert sensor.read() >= 0 or sensor.name == "host/cpu-temperature"
    assert 0 < sensors["host/memory"].read() < 1


@pytest.mark.parametrize("name", recorded.names())
def test_a_series_that_ships_loads_and_varies(name: str) -> None:
    series = recorded.load(name)
    assert len(series) >= 480
    assert series.duration_s == 900 * len(series)
    assert len({series.at(900 * i) for i in range(len(series))}) > 100


def test_a_series_holds_each_value_until_the_next_and_begins_again_at_its_end() -> None:
    series = Series("Cel", [0, 10, 30], [1.0, 2.0, 3.0])
    assert [series.at(t) for t in (0, 9.9, 10, 29.9, 30, 49.9, 50, 60)] == [1, 1, 2, 2, 3, 3, 1, 2]


@given(steps=st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20), at=st.floats(0, 1e9))
def test_a_series_has_a_value_at_any_time(steps: list[float], at: float) -> None:
    times = [0.0]
    for step in steps:
        times.append(times[-1] + step)
    values = [float(i) for i in range(len(times))]
    assert Series("", times, values).at(at) in values


def test_a_replay_starts_at_its_first_reading_and_passes_at_its_speed() -> None:
    now = [1000.0]
    series = Series("Cel", [0, 900, 1800], [1.0, 2.0, 3.0])
    replay = Replay("pv", Playback(series, speed=900.0), clock=lambda: now[0])
    readings = []
    for now[0] in (5000.0, 5000.9, 5001.0, 5002.0, 5003.0):
        readings.append(replay.read())
    assert readings == [1.0, 1.0, 2.0, 3.0, 1.0]
    assert replay.unit == "Cel"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: the heading"),
        ("time,Cel\n0,1\n", "line 1: the heading"),
        ("elapsed_s,Cel\n0,1\n1,x\n", "line 3: could not convert"),
        ("elapsed_s,Cel\n0,1\n1\n", "line 3: not enough values"),
        ("elapsed_s,Cel\n0,1\n1,nan\n", "line 3: not finite"),
        ("elapsed_s,Cel\n0,1\n", "1 times with 1 values"),
        ("elapsed_s,Cel\n5,1\n6,2\n", "starts at 5.0 s"),
        ("elapsed_s,Cel\n0,1\n0,2\n", "times do not rise"),
    ],
)
def test_a_wrong_series_file_is_named_with_its_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(SeriesError, match=error) as raised:
        recorded.load(str(path))
    assert str(raised.value).startswith(str(path))


def test_a_configuration_builds_its_sensors(tmp_path: Path) -> None:
    own = tmp_path / "tank-level.csv"
    own.write_text("elapsed_s,m\n0,1.5\n60,1.4\n")
    sensors = build_sensors(
        [
            {"type": "host", "interval_s": 5},
            {"type": "replay", "series": "irradiance", "speed": 900.0, "interval_s": 1.0},
            {"type": "replay", "series": str(own), "name": "tank/level"},
            {"type": "switch", "name": "pump", "attributes": {"position": "cellar"}},
        ],
        clock=lambda: 0.0,
    )
    by_name = {each.sensor.name: each.sensor for each in sensors}
    assert by_name["host/load1"].interval_s == 5.0
    assert (by_name["irradiance"].unit, by_name["irradiance"].resource_type) == (
        "W/m2",
        "irradiance",
    )
    assert by_name["tank/level"].read() == 1.5
    assert isinstance(by_name["pump"], Switch)
    assert by_name["pump"].attributes == {"position": "cellar"}


def test_a_developers_own_class_is_built_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    module = types.ModuleType("farm_sensors")
    module.Soil = Soil  # type: ignore[attr-defined]  # a module made for the test
    monkeypatch.setitem(sys.modules, "farm_sensors", module)
    (built,) = build_sensors([{"type": "farm_sensors:Soil", "name": "bed/1", "channel": 3}])
    soil = built.sensor
    assert (soil.read(), soil.unit, soil.name) == (30.0, "%RH", "bed/1")
    with pytest.raises(SensorConfigError, match=r"sensors\[0\].*'chanel'"):
        build_sensors([{"type": "farm_sensors:Soil", "name": "b", "channel": 3, "chanel": 4}])
    with pytest.raises(SensorConfigError, match=r"sensors\[0\].type: 'farm_sensors:Clay'"):
        build_sensors([{"type": "farm_sensors:Clay", "name": "b"}])


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({}, "sensors[0].type: missing"),
        ({"type": "hots"}, "sensors[0].type: 'hots' is none of bme280, coap, gpio-in, "),
        ({"type": "host", "speed": 1}, "sensors[0].speed: unknown key"),
        (
            {"type": "host", "format": "xml"},
            "sensors[0].format: 'xml' is none of 'msgpack', 'json'",
        ),
        ({"type": "host", "format": ["json"]}, "sensors[0].format: ['json'] is none of"),
        ({"type": "host", "retain": 1}, "sensors[0].retain: 1 is neither true nor false"),
        ({"type": "host", "interval_s": "5"}, "sensors[0].interval_s: '5' is not a number"),
        ({"type": "host", "interval_s": 0}, "sensors[0]: interval_s: 0.0 is not greater than 0"),
        ({"type": "replay"}, "sensors[0].series: missing"),
        ({"type": "replay", "series": "moon"}, "sensors[0]: 'moon' is neither"),
        ({"type": "replay", "series": "irradiance", "speed": 0}, "sensors[0]: speed: 0.0"),
        ({"type": "switch"}, "sensors[0].name: missing"),
        ({"type": "switch", "name": "Pump"}, "sensors[0]: name: 'Pump' is not 1 to 63 lower"),
        ({"type": "switch", "name": "a//b"}, "sensors[0]: name: ''"),
        ({"type": "switch", "name": "a", "attributes": {"rt": "x"}}, "sensors[0]: attributes.rt"),
        ({"type": "switch", "name": "a", "attributes": {"x": "\n"}}, "sensors[0]: attributes.x"),
        ({"type": "os:getcwd", "name": "a"}, "sensors[0].type: 'os:getcwd' is no subclass"),
        ({"type": "no.such:Thing", "name": "a"}, "sensors[0].type: 'no.such:Thing'"),
        ({"type": "host", "alerts": 5}, "sensors[0].alerts: 5 is not a table"),
        ({"type": "host", "alerts": {"lo": 5}}, "sensors[0].alerts.lo: is none of silent_s"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_key(
    table: dict[str, object], error: str
) -> None:
    with pytest.raises(SensorConfigError) as raised:
        build_sensors([table])
    assert str(raised.value).startswith(error)


def test_two_sensors_of_one_name_are_refused_with_the_second_ones_key() -> None:
    with pytest.raises(SensorConfigError, match=r"sensors\[1\].name: a second sensor named 'a'"):
        build_sensors([{"type": "switch", "name": "a"}, {"type": "switch", "name": "a"}])


def test_a_table_says_when_its_sensor_is_wrong() -> None:
    alerts = {"silent_s": 600, "stuck_s": 3600, "load1": {"low": 0, "high": 35}}
    built = build_sensors([{"type": "host", "alerts": alerts}])
    for each in built:
        rule = each.rules.of_value(each.sensor.name)
        assert rule.stuck_s == 3600
        assert rule.high == (35 if each.sensor.name == "host/load1" else None)
        assert each.rules.silent_after_s(10) == 600
    (switch,) = build_sensors([{"type": "switch", "name": "a"}])
    assert switch.rules.silent_after_s(300) == 900


def test_a_sensor_has_a_name_of_200_characters_and_an_interval() -> None:
    longest = "/".join(["a" * 63] * 3) + "/" + "a" * 8
    assert Switch(longest).name == longest
    with pytest.raises(ValueError, match=r"^name: longer than 200$"):
        Switch(longest + "a")
    with pytest.raises(ValueError, match=r"^name: '' is not 1 to 63 lower-case letters"):
        Switch("a//b")
    for wrong in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"^interval_s: .* is not greater than 0$"):
            Switch("a", interval_s=wrong)
    assert Switch("a", interval_s=1e-6).interval_s == 1e-6


async def test_what_a_class_lacks_is_named_and_so_is_a_sensor() -> None:
    class Bare(Actuator):
        is_quick = True

    bare = Bare("bed/1")
    assert repr(bare) == "Bare('bed/1')"
    for call in (bare.read, lambda: bare.write(1.0)):
        with pytest.raises(NotImplementedError, match=r"^Bare\.(read|write)$"):
            call()


def test_a_playback_goes_forward_from_its_beginning_on() -> None:
    series = Series("Cel", [0, 10], [1.0, 2.0])
    assert [Playback(series).after(at) for at in (0, 9, 10)] == [1, 1, 2]
    assert [Playback(series, 2.0, 3.0).after(at) for at in (0, 3, 4)] == [1, 1, 2]
    for more, why in (
        ({"speed": 0.0}, "speed: 0.0 is not greater than 0"),
        ({"speed": float("nan")}, "speed: nan is not greater than 0"),
        ({"offset_s": -0.1}, "offset_s: -0.1 is less than 0"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
            Playback(series, **more)


def test_a_series_has_two_points_at_least_and_as_many_times_as_values() -> None:
    assert len(Series("", [0, 1], [1.0, 2.0])) == 2
    for times, values in (([0], [1.0]), ([0, 1], [1.0]), ([0, 1], [1.0, 2.0, 3.0])):
        with pytest.raises(SeriesError, match=f"^{len(times)} times with {len(values)} values$"):
            Series("", times, values)


def test_a_series_has_no_more_points_than_a_gateway_is_to_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorded, "MAX_POINTS", 3)
    lines = ["elapsed_s,Cel", "0,1", "1,2", "2,3"]
    assert len(recorded.parse(lines, "own.csv")) == 3
    with pytest.raises(SeriesError, match=r"^own\.csv: line 5: over 3 points$"):
        recorded.parse([*lines, "3,4"], "own.csv")
