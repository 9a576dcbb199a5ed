"""A gateway's readings without a broker: what is announced, where, and who may command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from held_timers import HeldTimers
from loop_turns import turns

from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.commands import REFUSED
from gateway.home_assistant.entities import AnnouncingGateway
from gateway.home_assistant.section import HomeAssistantSection
from gateway.process.running.readings import AGAIN_S, Readings
from gateway.sensors.catalogue import Workshop
from gateway.sensors.stock import SensorStock
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
