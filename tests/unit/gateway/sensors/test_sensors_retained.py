"""A sensor that listens to MQTT hears what was retained before it was there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.durability.persistence import Persistence
from gateway.broker.limits import Limits
from gateway.broker.outbound.message import Message
from gateway.broker.retained.retention import Retention
from gateway.sensors.mqtt_device import MessageForm, MqttSensor
from gateway.sensors.reading import Reading
from gateway.sensors.sampler import Sampler
from record_formats.record import Record
from tree_handler.retained.message import VERSION

DOOR = '[[sensors]]\ntype = "mqtt"\nname = "door"\ntopic = "zigbee/door"\nkind = "text"\n'
BELL = '[[sensors]]\ntype = "mqtt"\nname = "bell"\ntopic = "zigbee/bell"\nkind = "text"\n'


class Place:
    """A gateway, and what its sensors say."""

    def __init__(self, gateway: FleetGateway) -> None:
        self.gateway = gateway

    async def retain(self, topic: str, payload: bytes) -> None:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.gateway.port), version=4)
        assert await peer.connect("probe") == 0
        await peer.publish(topic, payload, retain=True)
        peer.close()

    def last(self, name: str) -> Reading | None:
        readings = self.gateway.process.parts.readings
        (sensor,) = (one for one in readings.sensors if one.name == name)
        return readings.sampler.last(sensor)

    def state(self, name: str) -> str:
        (told,) = (
            one for one in self.gateway.process.parts.readings.listed() if one["name"] == name
        )
        return str(told["state"])

    async def restart(self) -> None:
        await self.gateway.stop()
        await self.gateway.start()

    async def reload(self, sensors: str) -> None:
        self.gateway.mqtt = sensors
        self.gateway.write()
        await self.gateway.process.reload()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    fleet = Fleet(tmp_path)
    gateway = fleet.gateway("gw-a", tls=False)
    gateway.mqtt = DOOR
    await gateway.start()
    yield Place(gateway)
    await fleet.stop()


async def test_a_start_gives_a_sensor_what_its_device_retained_with_the_time_that_it_came(
    place: Place,
) -> None:
    await place.retain("zigbee/door", b"open")
    acknowledged_s = time.time()
    await place.restart()
    await until(lambda: place.last("door") is not None)
    last = place.last("door")
    assert last is not None
    assert (last.value, place.state("door")) == ("open", "good")
    assert last.time_s <= acknowledged_s


async def test_a_sensor_that_a_reload_adds_hears_what_is_retained(place: Place) -> None:
    await place.retain("zigbee/bell", b"rings")
    await place.reload(DOOR + BELL)
    await until(lambda: place.last("bell") is not None)
    last = place.last("bell")
    assert last is not None
    assert last.value == "rings"


async def test_what_was_cleared_is_not_heard(place: Place) -> None:
    await place.retain("zigbee/door", b"open")
    await place.retain("zigbee/door", b"")
    await place.retain("zigbee/bell", b"rings")
    place.gateway.mqtt = DOOR + BELL
    place.gateway.write()
    await place.restart()
    await until(lambda: place.last("bell") is not None)  # which is behind the door
    assert (place.last("door"), place.state("door")) == (None, "-")


async def test_one_that_is_too_long_makes_its_sensor_bad_and_no_other(place: Place) -> None:
    await place.retain("zigbee/door", b"x" * 65_537)
    await place.retain("zigbee/bell", b"rings")
    place.gateway.mqtt = DOOR + BELL
    place.gateway.write()
    await place.restart()
    await until(lambda: place.last("bell") is not None)
    assert (place.last("door"), place.state("door")) == (None, "bad")


async def test_a_sensor_does_not_hear_what_one_of_its_gateway_retained(place: Place) -> None:
    echo = '[[sensors]]\ntype = "mqtt"\nname = "echo"\ntopic = "-/-/gw-a/door"\nkind = "text"\n'
    await place.reload(echo + DOOR + "retain = true\n" + BELL)
    await place.retain("zigbee/door", b"open")
    await place.retain("zigbee/bell", b"rings")
    retention = place.gateway.process.parts.broker.core.retention
    await until(lambda: retention.get("-/-/gw-a/door") is not None)
    await place.restart()
    await until(lambda: place.last("bell") is not None)
    assert (place.last("echo"), place.state("echo")) == (None, "-")


# -- the age of what is retained -------------------------------------------------------------------


class Heard:
    """A sensor whose messages hold for 300 s, and its records."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.records = list[Record]()
        self.sampler = Sampler(
            lambda _, record: self.records.append(record),
            wall_clock=lambda: self.now_s + 5_000.0,
            clock=lambda: self.now_s,
            report=lambda _: None,
        )
        self.door = MqttSensor("door", "z/door", MessageForm(kind="text"), interval_s=300.0)
        self.door.push = partial(self.sampler.push, self.door)
        self.sampler.add(self.door)

    def recall(self, age_s: float) -> None:
        self.sampler.recall(self.door, "z/door", b"open", age_s)

    async def state_after(self, passed_s: float) -> str:
        """Return its state when the sampler has looked at what is due by then."""
        self.now_s += passed_s
        running = asyncio.create_task(self.sampler.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return self.sampler.state_of(self.door)


async def test_a_message_of_before_is_a_reading_of_its_own_time_and_late_as_one_heard_then() -> (
    None
):
    heard = Heard()
    heard.recall(200.0)
    (record,) = heard.records
    assert (record.value, record.time_s) == ("open", 5_800.0)
    assert heard.sampler.at_hand(heard.door) is not None
    assert await heard.state_after(99.0) == "good"
    assert await heard.state_after(2.0) == "bad"
    assert heard.sampler.at_hand(heard.door) is None


async def test_a_message_that_holds_no_longer_is_left_alone() -> None:
    heard = Heard()
    heard.recall(301.0)
    assert (heard.records, heard.sampler.state_of(heard.door)) == ([], "-")
    assert await heard.state_after(301.0) == "bad"


async def test_what_comes_after_a_message_of_before_is_of_now() -> None:
    heard = Heard()
    heard.recall(200.0)
    heard.sampler.hear(heard.door, "z/door", b"shut")
    assert [(each.value, each.time_s) for each in heard.records] == [
        ("open", 5_800.0),
        ("shut", 6_000.0),
    ]


@pytest.mark.parametrize(
    ("came_s_ago", "age_s"),
    [(100.0, 100.0), (-100.0, 0.0), (10.0**9, 0.0), (None, 0.0)],
    ids=["known", "of a clock ahead", "of a clock that stood", "without a version"],
)
def test_the_age_of_what_is_retained_is_known_by_its_version_or_none(
    came_s_ago: float | None, age_s: float
) -> None:
    lines = CountedLines(logging.getLogger(), time.monotonic)
    retention = Retention(Limits(), Persistence(("gw-a", 1)), lines, lambda: 0.0)
    properties = {}
    if came_s_ago is not None:
        properties[VERSION] = (int((time.time() - came_s_ago) * 1e6), 0)
    assert retention.retain(Message("z/door", b"z/door", b"open", 1, True, properties))
    kept = retention.kept_on("z/door")
    assert kept is not None
    assert kept == (b"open", pytest.approx(age_s, abs=60.0))
    assert retention.kept_on("z/gate") is None
