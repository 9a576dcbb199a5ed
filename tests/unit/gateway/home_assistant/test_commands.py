"""Commands over MQTT while the actuators of a gateway change."""

from __future__ import annotations

import asyncio

from loop_turns import turns

from gateway.home_assistant.commands import REFUSED, Commands
from gateway.sensors.sensor import Actuator
from gateway.sensors.switch import Switch
from record_formats.value import Value

TOPIC = "campus/gw/valve/set"


class Devices:
    """Actuators that are set; one whose driver hangs does not come back before it is let go."""

    def __init__(self, hung: Actuator, topic: str = TOPIC) -> None:
        self.told: list[tuple[Actuator, Value]] = []
        self.refused: list[tuple[str, str]] = []
        self.let_go = asyncio.Event()
        self._hung = hung
        refused = self.refused
        self.commands = Commands({topic: hung}, "gw/", self._write, lambda *r: refused.append(r))

    async def _write(self, actuator: Actuator, value: Value, _asker: str) -> None:
        self.told.append((actuator, value))
        if actuator is self._hung:
            await self.let_go.wait()

    def hear(self, payload: bytes, topic: str = TOPIC) -> None:
        self.commands.hear([(topic, 0, payload)])


async def test_a_command_sets_the_actuator_that_came_in_place_of_one_whose_driver_hangs() -> None:
    old, new = Switch("valve"), Switch("valve")
    devices = Devices(old)
    devices.hear(b"1")
    await turns(3)
    devices.commands.follow({TOPIC: new})
    devices.hear(b"0")
    await turns(3)
    assert devices.told == [(old, 1.0), (new, 0.0)]
    devices.let_go.set()
    await turns(3)
    assert (devices.told[2:], devices.refused) == ([], [])
    await devices.commands.stop()


async def test_an_actuator_that_was_removed_is_set_no_more_and_that_is_told() -> None:
    old = Switch("valve")
    devices = Devices(old)
    devices.hear(b"1")
    await turns(3)
    devices.hear(b"0")
    devices.commands.follow({})
    devices.let_go.set()
    await turns(3)
    assert devices.told == [(old, 1.0)]
    assert devices.refused == [(REFUSED, "valve: it was removed, or its table changed")]
    await devices.commands.stop()


async def test_an_actuator_whose_topic_alone_changes_is_set_by_the_last_command() -> None:
    valve = Switch("valve")
    devices = Devices(valve)
    devices.hear(b"1")
    await turns(3)
    devices.hear(b"0")
    devices.commands.follow({"elsewhere/valve/set": valve})
    devices.hear(b"1", "elsewhere/valve/set")
    devices.let_go.set()
    await turns(3)
    assert devices.told == [(valve, 1.0), (valve, 1.0)]
    assert devices.refused == []
    await devices.commands.stop()


async def test_what_is_being_set_when_all_ends_is_ended_and_nothing_is_set_behind_it() -> None:
    valve = Switch("valve")
    devices = Devices(valve)
    devices.hear(b"1")
    await turns(3)
    devices.hear(b"0")
    await devices.commands.stop()
    devices.let_go.set()
    await turns(3)
    assert devices.told == [(valve, 1.0)]
