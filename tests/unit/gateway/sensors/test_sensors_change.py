"""Sensors come and go while a gateway runs: by a reload, over CoAP, and over a restart."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gpiozero
import installed_package
import pytest
from aiocoap.numbers.codes import Code
from driver_children import driver_children
from fleet_gateway import Fleet, FleetGateway, until
from gpiozero.pins.mock import MockFactory
from mqtt_peer import Peer

from coap_engine.message import CoapRequest
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.peers import session_peer, udp_peer
from gateway.coap_client import CoapClient, Response
from gateway.process.running import configuration_faults, state
from gateway.sensors import bounded_calls, bounded_workshop, driver_process, drivers
from gateway.sensors.bounded_workshop import BoundedWorkshop
from gateway.sensors.catalogue import ConfiguredSensor, Workshop
from gateway.sensors.gpio import OutputPin
from gateway.sensors.options import SensorConfigError
from gateway.sensors.stock import (
    MAX_ADDED,
    Misfit,
    SensorConflictError,
    SensorPlan,
    SensorStock,
    StockError,
)
from gateway.tools import cli
from gateway.tools.commands import sensors as command
from gateway.tools.commands.errors import WrongUseError
from resource_directory.query import LookupQuery
from tests.policies import access_of

SWITCH = '[[sensors]]\ntype = "switch"\nname = "{}"\nformat = "text"\nretain = true\n{}\n'
JSON = 50


class Place:
    """One gateway, its file, and a client of its CoAP server."""

    def __init__(self, gateway: FleetGateway) -> None:
        self.gateway = gateway
        self.client = CoapClient()

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Response:
        if body is not None:
            more |= {"payload": json.dumps(body).encode(), "content_format": JSON}
        uri = f"coap://127.0.0.1:{self.gateway.process.parts.coap.coap_port}{path}"
        return await self.client.request(method, uri, **more)

    async def names(self) -> dict[str, bool]:
        """Sensors that it lists, and whether each was added."""
        told = json.loads((await self.ask("GET", "/sensors", accept=JSON)).payload)
        return {one["name"]: one["is_added"] for one in told["sensors"]}

    @property
    def links(self) -> set[str]:
        """Sensors in its directory."""
        registry = self.gateway.process.parts.site.registry
        search = registry.find_resources(LookupQuery.parse(["if=core.a"]), 0.0)
        assert search.go_on(1_000)
        return {text.partition("/sensors/")[2].partition(">")[0] for text in search.texts}

    @property
    def retained(self) -> set[str]:
        match = self.gateway.process.parts.broker.core.retention.match
        return {topic.removeprefix("-/-/gw-a/") for topic, _ in match("-/-/gw-a/#")}

    async def reload(self, sensors: str) -> None:
        self.gateway.mqtt = sensors
        self.gateway.write()
        await self.gateway.process.reload()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    fleet = Fleet(tmp_path)
    gateway = fleet.gateway("gw-a", tls=False)
    gateway.mqtt = SWITCH.format("kept", "") + SWITCH.format("goes", "")
    await gateway.start()
    made = Place(gateway)
    yield made
    await made.client.close()
    await fleet.stop()


async def test_a_reload_adds_and_removes_sensors_and_the_others_keep_their_state(
    place: Place,
) -> None:
    assert (await place.ask("PUT", "/sensors/kept", payload=b"1")).ok
    await until(lambda: place.retained == {"kept", "goes"})
    await place.reload(SWITCH.format("kept", "") + SWITCH.format("comes", ""))
    assert await place.names() == {"kept": False, "comes": False}
    assert (await place.ask("GET", "/sensors/kept", accept=0)).payload == b"1.0"
    assert (await place.ask("GET", "/sensors/goes")).code == "4.04"
    assert place.links == {"kept", "comes"}
    await until(lambda: place.retained == {"kept", "comes"})


HEARD = (
    '[[sensors]]\ntype = "mqtt"\nname = "{0}"\ntopic = "z/{0}"\nformat = "text"\nretain = true\n'
)


async def test_what_an_earlier_life_retained_of_a_sensor_ends_with_it(place: Place) -> None:
    await place.reload(HEARD.format("door") + HEARD.format("gate"))
    hear = place.gateway.process.parts.readings.hear
    hear([("z/door", 1, b"7"), ("z/gate", 1, b"8")])
    await until(lambda: place.retained == {"door", "gate"})
    await place.gateway.stop()
    await place.gateway.start()
    assert place.retained == {"door", "gate"}
    await place.reload(HEARD.format("gate"))
    await until(lambda: place.retained == {"gate"})


async def test_a_sensor_whose_table_changes_is_made_anew(place: Place) -> None:
    assert (await place.ask("PUT", "/sensors/kept", payload=b"1")).ok
    await place.reload(SWITCH.format("kept", "interval_s = 7"))
    assert (await place.ask("GET", "/sensors/kept", accept=0)).payload == b"0.0"
    assert (await place.names()).keys() == {"kept"}
    await until(lambda: place.retained == {"kept"})


def gate_before_close(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event for which each output pin waits before it is given back."""
    gate, close = threading.Event(), OutputPin.close

    def slowly(pin: OutputPin) -> None:
        gate.wait()
        close(pin)

    monkeypatch.setattr(OutputPin, "close", slowly)
    return gate


async def test_a_pin_goes_from_the_sensor_before_to_the_one_after(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpiozero.Device, "pin_factory", MockFactory())
    readings = place.gateway.process.parts.readings
    pump = '[[sensors]]\ntype = "gpio-out"\nname = "pump"\npin = 4\ninterval_s = {}\n'
    told = list[str]()
    readings.sampler.listen(lambda sensor: told.append(f"{sensor.name} {sensor.interval_s:g}"))
    failed = readings.sampler.failed
    for interval_s in (3000, 3001, 3002):
        await place.reload(pump.format(interval_s))
        await until(lambda: told[-1:] == [f"pump {interval_s}"])  # noqa: B023  # waited for
    assert readings.sampler.failed == failed
    gate = gate_before_close(monkeypatch)
    await place.reload(pump.format(3003))
    assert not readings.sampler.reads(readings.sensors[0])
    gate.set()
    await until(lambda: told[-1:] == ["pump 3003"])
    await place.reload("")

    def is_free() -> bool:
        try:
            gpiozero.DigitalOutputDevice(4).close()
        except gpiozero.GPIOPinInUse:
            return False
        return True

    await until(is_free)


async def test_who_is_removed_while_it_waits_for_a_pin_is_never_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpiozero.Device, "pin_factory", MockFactory())
    readings = place.gateway.process.parts.readings
    pump = '[[sensors]]\ntype = "gpio-out"\nname = "{}"\npin = 4\n'
    told = list[str]()
    readings.sampler.listen(lambda sensor: told.append(sensor.name))
    await place.reload(pump.format("before"))
    await until(lambda: "before" in told)
    gate = gate_before_close(monkeypatch)
    await place.reload(pump.format("meanwhile"))
    [meanwhile] = readings.sensors
    await place.reload(SWITCH.format("kept", ""))
    await place.reload(SWITCH.format("kept", "") + pump.format("after"))
    gate.set()
    await until(lambda: "after" in told)
    assert not readings.sampler.reads(meanwhile)
    assert "meanwhile" not in told


async def test_home_assistant_learns_of_sensors_that_come_and_go(place: Place) -> None:
    home = "[home_assistant]\ndiscovery = true\n"
    await place.gateway.stop()
    place.gateway.mqtt = SWITCH.format("kept", "") + home
    await place.gateway.start()
    match = place.gateway.process.parts.broker.core.retention.match

    def announced() -> set[str]:
        return {topic.split("/")[3] for topic, _ in match("homeassistant/switch/gw-a/+/config")}

    await until(lambda: announced() == {"kept"})
    await place.reload(SWITCH.format("comes", "") + home)
    await until(lambda: announced() == {"comes"})
    assert place.gateway.process.parts.readings.command_topics == ["-/-/gw-a/comes/set"]
    peer = Peer(*await asyncio.open_connection("127.0.0.1", place.gateway.port), version=4)
    assert await peer.connect("probe") == 0
    assert await peer.publish("-/-/gw-a/comes/set", b"1") == 0
    while (await place.ask("GET", "/sensors/comes", accept=0)).payload != b"1.0":
        pass
    peer.close()


async def test_a_reload_with_a_wrong_sensor_changes_nothing(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.reload(SWITCH.format("comes", "") + SWITCH.format("Wrong", ""))
    assert (await place.names()).keys() == {"kept", "goes"}
    assert "nothing is read again: sensors[1]: name: 'Wrong'" in caplog.text


# -- drivers that hang when they are made ----------------------------------------------------------

OWN = """
import os
import pathlib
import time

from gateway.sensors.sensor import Sensor

HERE = pathlib.Path(__file__).parent


class Own(Sensor):
    def __init__(self, name, *, does="", **options):
        super().__init__(name, **options)
        (HERE / f"made-{name}-{os.getpid()}").touch()
        here = "in a process of its own" if "driver_child" in " ".join(ARGUMENTS) else "here"
        while does in ("hang", f"hang {here}"):
            time.sleep(0.01)
            if (HERE / "let-go").exists():
                raise OSError("it was let go")

    def read(self):
        return 21.5

    def close(self):
        if self.attributes.get("closes") == "never":
            time.sleep(3600)


ARGUMENTS = pathlib.Path("/proc/self/cmdline").read_text().split("\\0")
"""
OWN_TABLE = '[[sensors]]\ntype = "own_change:Own"\nname = "{}"\n{}\n'


@pytest.fixture
def limit_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """So much patience a gateway has with drivers: little."""
    limit: float = getattr(request, "param", 0.5)
    monkeypatch.setattr(state, "BoundedWorkshop", partial(BoundedWorkshop, limit_s=limit))
    return limit


@pytest.fixture
def own(limit_s: float, place: Place) -> Iterator[Place]:
    """A gateway with a driver of its own beside its configuration."""
    folder = place.gateway.folder
    (folder / "own_change.py").write_text(OWN)
    folder.chmod(0o755)
    yield place
    (folder / "let-go").touch()


def hanging() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "driver made"]


async def test_a_driver_that_hangs_at_a_reload_is_killed_and_the_sensors_before_it_stay(
    own: Place, caplog: pytest.LogCaptureFixture
) -> None:
    kept = SWITCH.format("kept", "")
    await own.reload(kept + OWN_TABLE.format("soil", "interval_s = 5"))
    before = own.gateway.process.parts.readings.sensors
    for _ in range(3):
        wrong = OWN_TABLE.format("soil", 'does = "hang"')
        reloading = asyncio.create_task(own.reload(kept + wrong))
        while not list(own.gateway.folder.glob("made-soil-*")):
            await asyncio.sleep(0.01)
        assert (await own.ask("PUT", "/sensors/kept", payload=b"1")).ok, "it answers meanwhile"
        await reloading
        said = "nothing is read again: sensors[1]: the driver has not come back within 0.5 s"
        assert said in caplog.text
        assert own.gateway.process.parts.readings.sensors == before
        caplog.clear()
    assert not hanging()
    assert not driver_children()
    await own.reload(kept + OWN_TABLE.format("soil", "interval_s = 7"))
    assert {one.name: one.interval_s for one in own.gateway.process.parts.readings.sensors} == {
        "kept": 10,
        "soil": 7,
    }


async def test_one_that_hangs_the_second_time_alone_is_left_in_its_thread_and_few_may(
    own: Place, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = OWN_TABLE.format("soil", 'does = "hang here"')
    for _ in range(bounded_calls.MOST):
        await own.reload(wrong)
        assert "sensors[0]: the driver has not come back within 0.5 s" in caplog.text
        caplog.clear()
    assert len(hanging()) == bounded_calls.MOST
    await own.reload(wrong)
    assert "other drivers are called, or hang" in caplog.text
    await own.reload(SWITCH.format("comes", ""))
    assert await own.names() == {"comes": False}


@pytest.mark.parametrize("limit_s", [10.0], indirect=True)
async def test_one_that_hangs_when_it_is_closed_can_be_made_all_the_same(own: Place) -> None:
    await own.reload(OWN_TABLE.format("soil", 'attributes = {closes = "never"}'))
    assert await own.names() == {"soil": False}


async def test_what_ships_is_made_without_a_process(
    own: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(driver_process.subprocess, "Popen", started)
    await own.reload(SWITCH.format("comes", "") + '[[sensors]]\ntype = "host"\n')
    assert "comes" in await own.names()


async def test_without_room_for_a_process_a_driver_is_made_all_the_same(
    own: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(driver_process.subprocess, "Popen", fails)
    await own.reload(OWN_TABLE.format("soil", ""))
    assert await own.names() == {"soil": False}
    assert "no process can be started: Cannot allocate memory" in caplog.text


async def test_a_sensor_that_is_added_while_a_reload_makes_others_is_there_in_the_end(
    own: Place,
) -> None:
    reloading = asyncio.create_task(own.reload(OWN_TABLE.format("soil", "")))
    while not list(own.gateway.folder.glob("made-soil-*")):
        await asyncio.sleep(0.01)
    assert (await own.ask("POST", "/sensors", {"type": "switch", "name": "pump"})).ok
    await reloading
    assert await own.names() == {"soil": False, "pump": True}
    await own.gateway.stop()
    await own.gateway.start()
    assert await own.names() == {"soil": False, "pump": True}


def test_a_start_with_a_driver_that_hangs_names_it_and_leaves_out_one_that_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own_change.py").write_text(OWN)
    tmp_path.chmod(0o755)
    build = BoundedWorkshop(Workshop(tmp_path), limit_s=0.5)
    one = SensorStock(tmp_path / "sensors.json", build)
    table = {"type": "own_change:Own", "name": "soil", "does": "hang"}
    with pytest.raises(SensorConfigError, match=r"sensors\[1\]: the driver has not come back"):
        one.recalled([switch("a"), table], build.at_start)
    one.write(SensorPlan(tables=[{"type": "own", "name": "soil", "does": "hang"}, switch("b")]))
    # In a folder of its own: that of drivers stays on the path.
    installed = tmp_path / "installed"
    points = {"own": "own_change:Own"}
    installed_package.write(installed, "own-change", drivers.ENTRY_POINTS, points)
    (installed / "own_change.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(installed))
    one.take(one.recalled([switch("a")], build.at_start))
    assert names(one) == ["a", "b"]
    assert "an added sensor is left out: sensors[0]: the driver has not come back" in caplog.text
    for folder in (tmp_path, installed):
        (folder / "let-go").touch()


MADE_IN = """
import pathlib
import threading

from gateway.sensors.sensor import Sensor


class Own(Sensor):
    def __init__(self, name, **options):
        super().__init__(name, **options)
        with (pathlib.Path(__file__).parent / "made").open("a") as made:
            made.write(f"{name} in {threading.current_thread().name}\\n")

    def read(self):
        return 21.5
"""


def test_each_sensor_of_ones_own_is_made_once_in_a_thread_that_may_be_left(
    tmp_path: Path,
) -> None:
    (tmp_path / "own_made_in.py").write_text(MADE_IN)

    def own_one(name: str, **more: object) -> dict[str, object]:
        return {"type": "own_made_in:Own", "name": name, **more}

    def made() -> list[str]:
        told = (tmp_path / "made").read_text().splitlines()
        (tmp_path / "made").write_text("")
        return told

    build = BoundedWorkshop(Workshop(tmp_path), limit_s=60.0)
    first = build.at_start([own_one("a"), switch("b"), own_one("c")])
    assert [each.sensor.name for each in first] == ["a", "b", "c"]
    assert [each.where for each in first] == ["sensors[0]", "sensors[1]", "sensors[2]"]
    assert made() == ["a in driver made", "c in driver made"]
    changed = own_one("c", interval_s=5.0)
    again = build.at_start([own_one("d"), changed, switch("b"), own_one("a")], known=first)
    assert [each.sensor.name for each in again] == ["d", "c", "b", "a"]
    assert again[3].sensor is first[0].sensor
    assert made() == ["d in driver made", "c in driver made"]
    with pytest.raises(SensorConfigError, match=r"sensors\[1\].name: a second sensor named 'e'"):
        build.at_start([own_one("e"), own_one("e")])
    assert made() == ["e in driver made"]


def test_a_check_of_a_configuration_names_a_driver_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_change.py").write_text(OWN)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bounded_workshop.BoundedWorkshop.__init__, "__defaults__", (0.5,))
    text = SWITCH.format("a", "") + OWN_TABLE.format("soil", 'does = "hang"')
    found = configuration_faults.in_words(text.encode(), tmp_path / "gateway.toml")
    assert "sensors[1]: the driver has not come back within 0.5 s" in found
    assert not hanging()


async def test_what_is_added_over_coap_is_there_at_once_and_after_a_restart(place: Place) -> None:
    table = {"type": "switch", "name": "pump", "attributes": {"position": "cellar"}}
    answer = await place.ask("POST", "/sensors", table)
    assert (answer.code, json.loads(answer.payload)) == ("2.01", {"names": ["pump"]})
    assert answer.location == "/sensors/pump"
    assert (await place.ask("PUT", "/sensors/pump", payload=b"1")).ok
    assert place.links == {"kept", "goes", "pump"}
    await place.gateway.stop()
    await place.gateway.start()
    assert await place.names() == {"kept": False, "goes": False, "pump": True}
    answer = await place.ask("DELETE", "/sensors/pump")
    assert (answer.code, json.loads(answer.payload)) == ("2.02", {"names": ["pump"]})
    assert (await place.ask("GET", "/sensors/pump")).code == "4.04"
    assert place.links == {"kept", "goes"}
    await place.gateway.stop()
    await place.gateway.start()
    assert (await place.names()).keys() == {"kept", "goes"}


async def test_what_can_not_be_added_or_removed_is_refused_with_the_reason(place: Place) -> None:
    async def refused(method: str, path: str, body: Any = None, **more: Any) -> tuple[str, bytes]:
        answer = await place.ask(method, path, body, **more)
        return answer.code, answer.payload

    switch = {"type": "switch", "name": "kept"}
    conflict = b"there is a sensor named 'kept'"
    assert await refused("POST", "/sensors", switch) == ("4.09", conflict)
    configured = b"'kept' stands in the configuration"
    assert await refused("DELETE", "/sensors/kept") == ("4.09", configured)
    wrong = {"type": "switch", "name": "a", "speed": 1}
    assert await refused("POST", "/sensors", wrong) == ("4.00", b"speed: unknown key")
    assert await refused("POST", "/sensors", [1]) == ("4.00", b"not a JSON object")
    assert (await refused("POST", "/sensors", payload=b"{"))[1].startswith(b"not JSON")
    assert (await refused("POST", "/sensors", payload=b"{}", content_format=60))[0] == "4.15"
    assert (await place.names()).keys() == {"kept", "goes"}


async def test_what_was_added_is_changed_over_coap_and_stays_so_after_a_restart(
    place: Place,
) -> None:
    await place.ask("POST", "/sensors", {"type": "switch", "name": "pump", "interval_s": 5})
    await place.ask("POST", "/sensors", {"type": "switch", "name": "fan"})
    change = {"interval_s": 7, "resource_type": "water"}
    answer = await place.ask("POST", "/sensors?change=pump", change)
    assert (answer.code, json.loads(answer.payload)) == ("2.04", {"names": ["pump"]})
    answer = await place.ask(
        "POST", "/sensors?change=pump", {"resource_type": None, "name": "well"}
    )
    assert json.loads(answer.payload) == {"names": ["well"]}
    await place.gateway.stop()
    await place.gateway.start()
    told = json.loads((await place.ask("GET", "/sensors", accept=JSON)).payload)["sensors"]
    found = {one["name"]: one["interval_s"] for one in told if one["is_added"]}
    assert found == {"well": 7.0, "fan": 10.0}


async def test_what_can_not_be_changed_is_refused_and_stays(place: Place) -> None:
    await place.ask("POST", "/sensors", {"type": "switch", "name": "pump", "interval_s": 5})
    before = await place.names()
    (configured,) = [name for name, is_added in before.items() if not is_added][:1]
    for query, change, code in (
        ("change=none", {"interval_s": 7}, "4.04"),
        (f"change={configured}", {"interval_s": 7}, "4.09"),
        ("change=pump", {"name": configured}, "4.09"),
        ("change=pump", {"interval_s": -1}, "4.00"),
        ("change=pump", {"type": None}, "4.00"),
        ("change=pump", {"type": "own:Own"}, "4.00"),
        ("change=pump", [], "4.00"),
        ("change=pump&change=fan", {}, "4.02"),
        ("chance=pump", {}, "4.02"),
    ):
        answer = await place.ask("POST", f"/sensors?{query}", change)
        assert answer.code == code, (query, change, answer)
    assert await place.names() == before


def test_who_has_the_operators_right_changes_sensors_and_nobody_else() -> None:
    access = access_of({"psk:operator": "operator", "psk:reader": "reader"})
    at = PeerAddress(("192.0.2.1", 40_000))
    operator, reader = (
        session_peer(n, at, PeerIdentity(Proof.PSK, name))
        for n, name in enumerate(("operator", "reader"))
    )
    for code, path in ((Code.POST, [b"sensors"]), (Code.DELETE, [b"sensors", b"pump"])):
        request = CoapRequest(int(code), tuple((11, segment) for segment in path))
        assert access.refusal(request, operator) is None
        for other in (reader, udp_peer(at)):
            refusal = access.refusal(request, other)
            assert refusal is not None
            assert Code(refusal.code) in (Code.FORBIDDEN, Code.UNAUTHORIZED)


# -- what was added, in its file -------------------------------------------------------------------


def stock(folder: Path, misfit: Misfit = lambda _: "") -> SensorStock:
    return SensorStock(folder / "sensors.json", Workshop().build, misfit)


def names(one: SensorStock) -> list[str]:
    return [each.sensor.name for each in one.plan.all]


def switch(name: str, **more: object) -> dict[str, object]:
    return {"type": "switch", "name": name, **more}


def test_an_added_sensor_that_does_not_fit_is_left_out_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = stock(tmp_path)
    first.take(first.recalled([], Workshop().build))
    for name in ("a", "alerts", "b"):
        plan = first.with_added(switch(name))
        first.write(plan)
        first.take(plan)

    def misfit(sensors: Sequence[ConfiguredSensor]) -> str:
        return "it is another's" if "alerts" in {one.sensor.name for one in sensors} else ""

    again = stock(tmp_path, misfit)
    again.take(again.recalled([switch("c")], Workshop().build))
    assert names(again) == ["c", "a", "b"]
    assert "an added sensor is left out: alerts: it is another's" in caplog.text
    again.write(again.plan)
    back = stock(tmp_path)
    back.take(back.recalled([], Workshop().build))
    assert names(back) == ["a", "alerts", "b"]


def test_the_configuration_wins_and_what_was_added_comes_back(tmp_path: Path) -> None:
    first = stock(tmp_path)
    first.take(first.recalled([], Workshop().build))
    plan = first.with_added(switch("a"))
    first.write(plan)
    first.take(plan)
    added = first.plan.added[0]
    again = stock(tmp_path)
    again.take(again.recalled([switch("a", interval_s=3)], Workshop().build))
    assert [each.sensor.interval_s for each in again.plan.all] == [3]
    again.take(again.configured([switch("b")]))
    assert names(again) == ["b", "a"]
    first.take(first.configured([switch("b")]))
    assert first.plan.added[0].sensor is added.sensor


def test_what_one_table_made_goes_together(tmp_path: Path) -> None:
    one = stock(tmp_path)
    one.take(one.with_added({"type": "host"}))
    assert len(names(one)) > 3
    one.take(one.without("host/load1"))
    assert names(one) == []
    with pytest.raises(KeyError):
        one.without("host/load1")


def test_no_more_are_added_than_the_file_is_to_hold(tmp_path: Path) -> None:
    one = stock(tmp_path)
    for n in range(MAX_ADDED):
        one.take(one.with_added(switch(f"s{n}")))
    with pytest.raises(SensorConflictError, match=f"{MAX_ADDED} are added"):
        one.with_added(switch("more"))


@pytest.mark.parametrize(
    "damage",
    [
        *[b"", b"[]", b'{"sensors": [1]}', b"\xff", b'{"version": 2, "sensors": []}'],
        *[b'{"version": 1, "sensors": {}}', b'{"version": 1, "sensors": [1]}'],
    ],
)
def test_a_damaged_file_is_set_aside_as_it_was(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "sensors.json").write_bytes(damage)
    assert not stock(tmp_path).recalled([], Workshop().build).added
    assert (tmp_path / "sensors.json.damaged-1").read_bytes() == damage


def test_a_file_that_can_not_be_written_or_read_is_named(tmp_path: Path) -> None:
    one = stock(tmp_path / "none")
    with pytest.raises(StockError) as raised:
        one.write(one.with_added(switch("a")))
    assert str(raised.value) == f"{tmp_path}/none/sensors.json: No such file or directory"
    assert one.plan.tables == ()
    (tmp_path / "file").touch()
    with pytest.raises(StockError) as raised:
        stock(tmp_path / "file").recalled([], Workshop().build)
    assert str(raised.value) == f"{tmp_path}/file/sensors.json: Not a directory"


def test_what_has_become_of_its_process_is_told_of_the_table_it_was_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = [switch("a"), {"type": "own:Soil", "name": "b"}, {"type": "own:Soil", "name": "c"}]
    for where, named in (("", "sensors[1]"), ("sensors[2]", "sensors[2]")):

        def end(_: object, _request: object, where: str = where) -> None:
            raise driver_process.ChildFailedError(where, "it has ended")

        monkeypatch.setattr(driver_process.DriverProcesses, "come_of", end)
        with pytest.raises(SensorConfigError) as raised:
            BoundedWorkshop(Workshop())(tables)
        assert (raised.value.key, raised.value.why) == (named, "it has ended")


def test_a_call_that_ends_its_thread_has_failed_and_gives_its_room_back() -> None:
    calls = bounded_calls.BoundedCalls(limit_s=60.0, most=1)

    def leave() -> None:
        raise SystemExit(7)

    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^SystemExit: 7$"):
            calls.come_of(leave)
    with pytest.raises(ZeroDivisionError):
        calls.come_of(lambda: 1 / 0)
    assert calls.come_of(lambda: 7) == 7


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"type": "os:getcwd", "name": "a"}, "type: only the configuration may name a class"),
        ({"type": "/tmp/x.py:A", "name": "a"}, "type: only the configuration may name a class"),
        ({"type": "replay", "series": "/etc/passwd.csv"}, "series: only the configuration"),
        ({"type": "host", "disk": "/root"}, "disk: only the configuration may say this"),
    ],
)
def test_what_is_sent_names_no_file_and_no_code(table: dict[str, object], named: str) -> None:
    with pytest.raises(SensorConfigError) as raised:
        Workshop().build([table], is_afar=True)
    assert str(raised.value).removeprefix("sensors[0].").startswith(named)


# -- the command -----------------------------------------------------------------------------------


def test_a_change_that_is_sent_names_no_file_either(tmp_path: Path) -> None:
    one = stock(tmp_path)
    one.take(one.with_added({"type": "host"}))
    with pytest.raises(SensorConfigError, match="disk: only the configuration may say this"):
        one.with_changed("host/load1", {"disk": "/root"})
    assert one.with_changed("host/load1", {"interval_s": 5.0}).tables == [
        {"type": "host", "interval_s": 5.0}
    ]


def test_a_table_is_written_as_keys_and_values() -> None:
    pairs = ["type=switch", "name=bed/pump", "interval_s=2.5", "pin=17", "attributes.position=roof"]
    assert command.table([*pairs, "retain=true", 'title="a = b"']) == {
        "type": "switch",
        "name": "bed/pump",
        "interval_s": 2.5,
        "pin": 17,
        "attributes": {"position": "roof"},
        "retain": True,
        "title": "a = b",
    }
    for wrong in (["switch"], ["=1"], [], ["a=1", "a.b=2"]):
        with pytest.raises(WrongUseError):
            command.table(wrong)


async def test_an_operator_lists_adds_and_removes_sensors_by_a_command(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(*arguments: str) -> tuple[int, str]:
        host = f"127.0.0.1:{place.gateway.process.parts.coap.coap_port}"
        code = await asyncio.to_thread(cli.main, ["sensors", *arguments, "--host", host])
        told = capsys.readouterr()
        return code, told.out + told.err

    assert await run("add", "type=switch", "name=pump") == (0, "pump is added\n")
    listed = json.loads((await run("list", "--json"))[1])
    assert [one["name"] for one in listed if one["is_added"]] == ["pump"]
    assert await run("remove", "pump") == (0, "pump is removed\n")
    code, told = await run("remove", "pump")
    assert (code, told.endswith("/sensors: 4.04 no such sensor\n")) == (1, True)
    assert (await run("add", "type=hots"))[1].startswith("hedgerow: 4.00 type: 'hots' is none of")


def test_the_list_is_a_table_of_all_that_there_are() -> None:
    told = {"name": "bed/pump", "type": "switch", "kind": "number", "unit": "/"}
    more = {"interval_s": 10.0, "is_added": True, "state": "good"}
    assert command.as_table([told | more]).splitlines() == [
        "sensor    type    kind    unit  every  from   state",
        "bed/pump  switch  number  /     10 s   added  good",
    ]
