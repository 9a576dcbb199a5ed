"""A gateway's readings without a broker: what is announced, where, and who may command."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from held_timers import HeldTimers
from loop_turns import turns

from gateway.base.toml.toml_file import ConfigError
from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.commands import REFUSED
from gateway.home_assistant.entities import AnnouncingGateway
from gateway.home_assistant.section import HomeAssistantSection
from gateway.process.running.readings import AGAIN_S, Readings
from gateway.sensors.catalogue import Workshop
from gateway.sensors.sensor import Sensor
from gateway.sensors.stock import SensorStock
from gateway.sensors.switch import Switch
from tree_handler.batch import Entry

PUMP = {"type": "switch", "name": "pump", "format": "json", "retain": True, "interval_s": 3600}
AVAILABLE = "{}/availability"


class House:
    """The readings of gw-a, and all that it has published."""

    def __init__(self, folder: Path, tables: Sequence[Mapping[str, Any]] = (PUMP,)) -> None:
        self.published: list[Entry] = []
        self.refused: list[tuple[str, str]] = []
        stock = SensorStock(folder / "sensors.json", Workshop().build)
        stock.take(stock.configured(tables))
        if tables:
            stock.take(stock.with_added({"type": "switch", "name": "added"}))
        self.readings = Readings(
            "gw-a",
            "campus/gw-a",
            stock,
            self.announce("campus/gw-a"),
            self.published.append,
            lambda *told: self.refused.append(told),
        )

    @staticmethod
    def announce(prefix: str) -> Any:
        gateway = AnnouncingGateway("gw-a", prefix, "1.0")
        return partial(Announcements, HomeAssistantSection(discovery=True), gateway)

    def take(self) -> dict[str, bytes]:
        """Return what was published since, by topic."""
        found = {entry.topic: entry.payload for entry in self.published}
        self.published.clear()
        return found

    def start(self) -> None:
        self.readings.start(lambda _filters: {}, lambda _filters, *_: {})  # type: ignore[arg-type,misc]  # as none


async def test_sensors_are_announced_at_the_start_and_again_2_s_after_a_gateway_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    timers = HeldTimers(monkeypatch, AGAIN_S)
    assert AGAIN_S == 2.0
    house.readings.met("gw-a")
    assert timers.count == 0
    house.start()
    first = house.take()
    assert first["campus/gw-a/availability"] == b"online"
    assert [topic for topic in first if topic.startswith("homeassistant/")]
    for name in ("gw-b", "gw-c"):
        for gateway in ("gw-a", name, name):
            house.readings.met(gateway)
        assert timers.count == 1
        await turns(3)
        house.take()
        timers.run_out()
        assert house.take() == {
            topic: payload
            for topic, payload in first.items()
            if topic.startswith("homeassistant/") or topic.endswith("/availability")
        }
    await house.readings.stop()
    assert house.take()["campus/gw-a/availability"] == b"offline"
    assert not house.readings.is_reading


async def test_who_is_met_before_the_start_or_after_the_end_is_told_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    timers = HeldTimers(monkeypatch, AGAIN_S)
    house.readings.met("gw-b")
    timers.run_out()
    assert house.take() == {}
    house.start()
    await turns(3)
    house.readings.met("gw-c")
    house.readings.end()
    house.take()
    timers.run_out()
    assert house.take() == {}
    house.readings.end()
    assert house.take() == {}
    await house.readings.stop()


@pytest.mark.parametrize("is_started", [False, True])
async def test_a_move_clears_what_was_retained_and_announces_the_new_place_once_it_reads(
    tmp_path: Path, *, is_started: bool
) -> None:
    house = House(tmp_path)
    if is_started:
        house.start()
        await turns(3)
        house.take()
    kept = {"campus/gw-a/pump": b"1"}
    house.readings.move(
        "attic/gw-a",
        house.announce("attic/gw-a"),
        lambda topics: {topic: kept[topic] for topic in topics if topic in kept},
    )
    told = house.take()
    assert told["campus/gw-a/availability"] == told["campus/gw-a/pump"] == b""
    assert ("attic/gw-a/availability" in told) == is_started
    assert any(topic.startswith("homeassistant/") for topic in told) == is_started
    assert "attic/gw-a/pump/set" in house.readings.command_topics
    assert "campus/gw-a/pump/set" not in house.readings.command_topics
    await house.readings.stop()


async def test_an_order_is_taken_of_this_broker_and_of_a_gateway_that_may_command(
    tmp_path: Path,
) -> None:
    house = House(tmp_path, ())
    assert not house.readings.is_listening
    wished, orders = list[str](), list[tuple[str, bytes]]()
    wishes: Any = SimpleNamespace(subscribed=wished.append, unsubscribed=lambda _: None)
    house.readings.wish(wishes)
    house.readings.obey("alerts/ack", lambda *order: orders.append(order))
    topic = "campus/gw-a/alerts/ack"
    assert (house.readings.is_listening, wished) == (True, [topic])
    may: Any = SimpleNamespace(may_command=lambda _: True, origin="gw-b")
    may_not: Any = SimpleNamespace(may_command=lambda _: False, origin="gw-x")
    for voice in (None, may, may_not):
        house.readings.hear([(topic, 0, b"a"), (f"{topic}/more", 0, b"b")], voice)
    assert orders == [(topic, b"a")] * 2
    why = f"{topic}: gw-x may not command that: [vouch] of access.policy_file"
    assert house.refused == [(REFUSED, why)]
    await house.readings.stop()


async def test_it_is_known_which_sensors_were_added(tmp_path: Path) -> None:
    readings = House(tmp_path).readings
    told = [readings.is_added(name) for name in ("added", "pump", "none")]
    assert told == [True, False, False]
    await readings.stop()


async def test_sensors_begin_when_they_are_read_and_can_push_and_publish_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[str]()

    def begin(sensor: Sensor) -> None:
        begun.append(sensor.name)
        sensor.publish("elsewhere", sensor.name.encode())
        sensor.push(0.5)

    monkeypatch.setattr(Sensor, "begin", begin)
    house = House(tmp_path)
    assert begun == []
    house.start()
    assert begun == ["pump", "added"]
    await turns(3)
    assert [one.payload for one in house.published if one.topic == "elsewhere"] == [
        b"pump",
        b"added",
    ]
    pushed = [one.payload for one in house.published if one.topic == "campus/gw-a/pump"]
    assert any(b'"v":0.5' in payload for payload in pushed)
    house.take()
    assert await house.readings.add({"type": "switch", "name": "late"}) == ["late"]
    assert begun == ["pump", "added", "late"]
    assert house.take()["elsewhere"] == b"late"
    assert await house.readings.change_table("late", {"interval_s": 5}) == ["late"]
    assert begun == ["pump", "added", "late", "late"]
    await house.readings.stop()


async def test_a_reading_is_published_with_qos_1_in_the_form_of_its_sensor(tmp_path: Path) -> None:
    house = House(tmp_path, (PUMP, {"type": "switch", "name": "fan", "format": "text"}))
    house.start()
    await turns(3)
    told = {one.topic: one for one in house.published}
    pump, fan = told["campus/gw-a/pump"], told["campus/gw-a/fan"]
    assert (pump.qos, pump.retain, pump.payload[:1]) == (1, True, b"[")
    assert (fan.qos, fan.retain, fan.payload) == (1, False, b"0")
    await house.readings.stop()


async def test_a_sensor_that_is_added_before_the_start_is_read_from_then_on(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    assert await house.readings.add({"type": "switch", "name": "early", "format": "text"})
    await turns(3)
    assert "campus/gw-a/early" not in house.take()
    house.start()
    await turns(3)
    assert house.take()["campus/gw-a/early"] == b"0"
    assert house.readings.sampler.sensors == house.readings.sensors
    await house.readings.stop()


async def test_what_a_sensor_retained_in_this_life_or_before_ends_with_it(tmp_path: Path) -> None:
    house, retaining = House(tmp_path), {"type": "switch", "format": "text", "retain": True}
    await house.readings.add({**retaining, "name": "old"})
    await house.readings.add({**retaining, "name": "new"})
    await house.readings.add({**retaining, "name": "plain", "retain": False})
    asked = list[str]()

    def retained(topics: Sequence[str]) -> dict[str, bytes]:
        asked.extend(topics)
        return {"campus/gw-a/old": b"1"} if "campus/gw-a/old" in topics else {}

    house.readings.start(retained, lambda _topic: None)
    assert [one for one in asked if one.startswith("campus/gw-a/") and "avail" not in one] == [
        "campus/gw-a/pump",
        "campus/gw-a/old",
        "campus/gw-a/new",
    ]
    house.take()
    assert await house.readings.remove("old") == ["old"]
    assert await house.readings.remove("plain") == ["plain"]
    ended = [one for one in house.published if one.topic[:6] == "campus" and not one.payload]
    assert [(one.topic, one.qos, one.retain) for one in ended] == [("campus/gw-a/old", 1, True)]
    assert house.take()["campus/gw-a/new"] == b"0"
    await house.readings.remove("new")
    assert house.take()["campus/gw-a/new"] == b""
    await house.readings.stop()


async def test_what_a_move_cleared_is_not_cleared_again_and_orders_are_taken_at_the_new_place(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    came, orders = list[str](), list[str]()
    wishes: Any = SimpleNamespace(
        subscribed=lambda topic: came.append(f"+{topic}"),
        unsubscribed=lambda topic: came.append(f"-{topic}"),
    )
    house.readings.obey("alerts/ack", lambda topic, _: orders.append(topic))
    house.readings.wish(wishes)
    house.start()
    await turns(3)
    house.readings.move("attic/gw-a", house.announce("attic/gw-a"), lambda _: {})
    assert set(came) == {
        *(f"-campus/gw-a/{end}" for end in ("alerts/ack", "pump/set")),
        *(f"+attic/gw-a/{end}" for end in ("alerts/ack", "pump/set")),
    }
    for prefix in ("campus", "attic"):
        house.readings.hear([(f"{prefix}/gw-a/alerts/ack", 0, b"x")])
    assert orders == ["attic/gw-a/alerts/ack"]
    house.take()
    asked = list[Sequence[str]]()

    def retained(topics: Sequence[str]) -> dict[str, bytes]:
        asked.append(topics)
        return {}

    house.readings.move("loft/gw-a", house.announce("loft/gw-a"), retained)
    assert asked[0] == ["attic/gw-a/pump"]
    await house.readings.stop()


async def test_a_command_sets_an_actuator_and_its_new_state_is_published(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.start()
    await turns(3)
    house.take()
    house.readings.hear([("campus/gw-a/pump/set", 0, b"1"), ("campus/gw-a/pump", 0, b"0")])
    await turns(12)
    assert b'"v":1' in house.take()["campus/gw-a/pump"]
    house.readings.hear([("campus/gw-a/pump/set", 0, b"off")])
    await turns(12)
    ((kind, why),) = house.refused
    assert kind == REFUSED
    assert why.startswith("campus/gw-a/pump/set: ")
    assert house.take() == {}
    await house.readings.stop()


async def test_followers_hear_which_sensors_went_and_which_came_and_others_stay(
    tmp_path: Path,
) -> None:
    house, heard = House(tmp_path), list[tuple[list[str], list[str]]]()
    house.readings.follow(lambda gone, new: heard.append((list(gone), [one.name for one in new])))
    house.start()
    kept = house.readings.sensors[0]
    async with house.readings.changing([PUMP, {"type": "switch", "name": "fan"}]) as change:
        assert heard == []
        change()
    async with house.readings.changing([PUMP]) as change:
        change()
    await house.readings.change_table("added", {"interval_s": 7})
    assert heard == [([], ["fan"]), (["fan"], []), (["added"], ["added"])]
    assert house.readings.sensors[0] is kept
    await turns(3)
    assert set(house.readings.sampler.sensors) == set(house.readings.sensors)
    await house.readings.stop()


async def test_a_change_is_checked_in_its_turn_and_before_it_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    left = [True, True, False]

    def check() -> None:
        if not left.pop(0):
            raise PermissionError("no more")

    assert await house.readings.add({"type": "switch", "name": "one"}, check) == ["one"]
    assert left == [False]
    before = (tmp_path / "sensors.json").read_bytes()
    left[:] = [True, False]
    with pytest.raises(PermissionError):
        await house.readings.remove("one", check)
    left[:] = [False]
    with pytest.raises(PermissionError):
        await house.readings.change_table("one", {"interval_s": 7}, check)
    with pytest.raises(ConfigError, match="availability"):
        await house.readings.add({"type": "switch", "name": "availability", "format": "json"})
    assert (tmp_path / "sensors.json").read_bytes() == before
    assert [one.name for one in house.readings.sensors] == ["pump", "added", "one"]
    await house.readings.stop()


async def test_a_sensor_that_takes_the_place_of_one_begins_when_that_one_has_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_close, closed = asyncio.Event(), list[str]()

    async def close(sensor: Switch) -> None:
        await may_close.wait()
        closed.append(sensor.name)

    monkeypatch.setattr(Switch, "close", close, raising=False)
    house = House(tmp_path)
    house.start()
    await house.readings.change_table("added", {"interval_s": 5})
    await turns(5)
    assert house.readings.closing == 2  # it, and who waits for it
    (pump, _) = house.readings.sensors
    assert house.readings.sampler.sensors == [pump]
    may_close.set()
    await turns(12)
    assert house.readings.closing == 0
    assert house.readings.sampler.sensors == house.readings.sensors
    assert closed == ["added"]
    await house.readings.stop()
    assert closed == ["added", "pump", "added"]


async def test_of_sensors_there_is_a_list_with_the_last_value_of_each(tmp_path: Path) -> None:
    house = House(tmp_path, (PUMP, {"type": "switch", "name": "fan"}))
    assert [(one["name"], one["is_added"], one["last"]) for one in house.readings.listed()] == [
        ("pump", False, None),
        ("fan", False, None),
        ("added", True, None),
    ]
    house.start()
    await turns(3)
    (pump, *_) = house.readings.listed()
    assert pump["last"]["value"] == "0"
    assert pump["last"]["time_s"] == round(pump["last"]["time_s"], 3) > 1_700_000_000
    await house.readings.stop()
