"""Each observer of a device stands alone: whatever one of them raises, the others are told too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiocoap import Message, error
from fleet_gateway import until

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option
from coap_engine.option_numbers import CONTENT_FORMAT, MAX_AGE
from gateway.coap.responders import PendingResponse
from gateway.coap.sensors.device_answers import ChildLink
from gateway.coap.sensors.device_observers import DeviceObservers
from gateway.coap.sensors.handler_calls import (
    DeviceTarget,
    HandlerCalls,
    ServedDevice,
    is_busy,
)
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.well_known import CountedSite
from gateway.sensors.device_resource import ChildResource, Handled, ResourceCall, ResourceReply
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from gateway.sensors.switch import Switch
from tests.held_objects import held_instances
from tree_handler.members.place import Place

PEER = CoapPeer(("session", 1), "psk:operator", "psk:operator", is_address_proven=True)


class Observed:
    """A device that two observe, of which the first can't be told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, bool]] = []
        self.code = codes.CONTENT
        self.options: tuple[Option, ...] = ()
        self.rendered: Callable[[], None] = lambda: None
        self.observers = DeviceObservers(self.render)
        self.key = (ServedDevice(Switch("pump")), "")
        for exchange in (1, 2):
            self.observers.observe(self.key, exchange, CoapRequest(codes.GET), self.respond)

    async def render(self, _device: ServedDevice, _child: str, _asked: CoapRequest) -> CoapResponse:
        self.rendered()
        return CoapResponse(self.code, self.options)

    def respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        if exchange == 1:
            raise OSError("no room for the numbers of OSCORE")
        self.told.append((exchange, response.code, is_last))


async def test_one_that_cannot_be_told_of_a_change_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.observers.changed(observed.key)
    await until(lambda: observed.told)
    assert observed.told == [(2, codes.CONTENT, False)]
    await observed.observers.stop()


async def test_one_that_cannot_be_told_of_the_end_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.code = codes.NOT_FOUND
    observed.observers.changed(observed.key)
    await until(lambda: observed.told)
    assert observed.told == [(2, codes.NOT_FOUND, True)]
    assert len(observed.observers) == 0
    await observed.observers.stop()


def test_one_that_cannot_be_told_of_the_removal_keeps_it_from_nobody() -> None:
    observed = Observed()
    observed.observers.removed(observed.key)
    assert observed.told == [(2, codes.NOT_FOUND, True)]
    assert len(observed.observers) == 0


class Pumps:
    """Devices whose calls nobody waits for over a network."""

    def __init__(self) -> None:
        self.site = CountedSite()
        self.sampler = Sampler(lambda _sensor, _record: None)
        self.sensors = SensorResources(self.site, self.sampler, "gw", Place("campus", "north"))
        self.links_changed = 0
        self.devices = self.sensors.devices
        self.devices.begin(self._changed)
        self.pump = Shown("pump")
        self.sampler.add(self.pump)
        self.sensors.add(self.pump)
        self.told: list[tuple[int, int, bytes, bool]] = []

    def _changed(self) -> None:
        self.links_changed += 1

    def respond(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        self.told.append((exchange, response.code, response.payload, is_last))

    def observe(self, exchange: int, path: str, code: int = codes.GET) -> bool:
        return self.devices.observe(exchange, asked(path, code), self.respond)

    def ask(self, path: str, code: int = codes.GET, *, observe: bool = False) -> PendingResponse:
        request = asked(path, code, observe=observe)
        pending = self.devices.answer(request, PEER, 0.0)
        assert pending is not None
        assert not isinstance(pending, CoapResponse)
        return pending


class Part(ChildResource):
    """A child that shows a text."""

    def handle_get(self, _call: ResourceCall) -> str:
        return "part"


class Shown(Sensor):
    """A sensor that shows a text, when the test lets it."""

    is_quick = True
    text = "on"
    calls = finished = 0
    reply: ResourceReply | None = None

    def __init__(self, name: str) -> None:
        super().__init__(name, interval_s=300)
        self.hold = asyncio.Event()
        self.hold.set()

    def read(self) -> float:
        return 1.0

    async def handle_get(self, _call: ResourceCall) -> Handled:
        self.calls += 1
        text = self.text if self.reply is None else self.reply
        await self.hold.wait()
        self.finished += 1
        return text


def asked(path: str, code: int = codes.GET, *, observe: bool = False) -> CoapRequest:
    options = tuple((11, one.encode()) for one in path.split("/"))
    return CoapRequest(code, options, observe=observe)


async def test_what_is_read_by_a_handler_is_observed_and_nothing_else() -> None:
    pumps = Pumps()
    assert pumps.observe(1, "sensors/pump")
    assert not pumps.observe(2, "sensors/pump", codes.FETCH), "it has no handler"
    assert not pumps.observe(3, "sensors/pump", codes.PUT)
    assert not pumps.observe(4, "sensors/none")
    pumps.sensors.remove("pump")
    await until(lambda: pumps.told)
    assert pumps.told == [(1, codes.NOT_FOUND, b"removed", True)]
    await pumps.devices.stop()


async def test_with_a_device_its_children_go_from_the_site_and_their_observers_are_told() -> None:
    pumps = Pumps()
    pumps.pump.children.add("part", Part())
    await asyncio.sleep(0)
    path = ("sensors", "pump", "part")
    assert next(iter(pumps.devices.listed()))[0] == path
    assert "</sensors/pump/part>" in str(pumps.site.get_resources_as_linkheader())
    assert pumps.observe(1, "sensors/pump/part")
    pumps.sensors.remove("pump")
    assert list(pumps.devices.listed()) == []
    assert "pump" not in str(pumps.site.get_resources_as_linkheader())
    await until(lambda: pumps.told)
    assert pumps.told == [(1, codes.NOT_FOUND, b"removed", True)]
    await pumps.devices.stop()
    assert pumps.links_changed == 0


async def test_what_changes_while_who_observes_is_answered_first_is_told_afterwards() -> None:
    pumps = Pumps()
    pumps.pump.hold.clear()
    told: list[bytes] = []

    def done(response: CoapResponse) -> None:
        told.append(response.payload)
        assert pumps.observe(1, "sensors/pump")

    pumps.ask("sensors/pump", observe=True).begin(done, lambda *_: None)
    await until(lambda: pumps.pump.calls)
    pumps.pump.text = "off"
    pumps.pump.changed()
    await asyncio.sleep(0)
    pumps.pump.hold.set()
    await until(lambda: pumps.told)
    assert told == [b"on"]
    assert pumps.told[0] == (1, codes.CONTENT, b"off", False)
    await pumps.devices.stop()


@pytest.mark.parametrize("ends", ["the request", "all", "nothing"])
async def test_a_read_that_nobody_waits_for_is_told_to_nobody(ends: str) -> None:
    """Its device may be in the midst of it, and is left alone."""
    pumps, told = Pumps(), list[bytes]()
    pumps.pump.hold.clear()
    pending = pumps.ask("sensors/pump")
    end = pending.begin(lambda response: told.append(response.payload), lambda *_: None)
    await until(lambda: pumps.pump.calls)
    if ends == "the request":
        end()
    elif ends == "all":
        await pumps.devices.stop()
    await asyncio.sleep(0)
    pumps.pump.hold.set()
    await until(lambda: pumps.pump.finished)
    await asyncio.sleep(0)
    await pumps.devices.stop()
    assert told == ([b"on"] if ends == "nothing" else [])


async def test_a_device_that_says_it_has_changed_when_it_is_gone_is_not_heard() -> None:
    pumps = Pumps()
    pumps.pump.changed()
    pumps.pump.children.add("part", Part())
    pumps.sensors.remove("pump")
    await asyncio.sleep(0)
    assert pumps.pump.calls == 0
    assert list(pumps.devices.listed()) == []
    await pumps.devices.stop()


async def test_the_site_s_own_resource_of_a_child_says_that_it_has_gone() -> None:
    """Requests are answered before they come there."""
    link = ChildLink("pump/part", Part(), lambda _: {"domain": "campus"})
    assert link.get_link_description()["domain"] == "campus"
    with pytest.raises(error.NotFound):
        await link.render(Message())


async def test_who_observes_what_is_busy_is_told_when_it_is_free() -> None:
    observed = Observed()
    observed.code, observed.options = codes.SERVICE_UNAVAILABLE, ((MAX_AGE, b"\x01"),)
    rendered = asyncio.Event()
    observed.rendered = rendered.set
    observed.observers.changed(observed.key)
    await rendered.wait()
    await asyncio.sleep(0)
    assert (observed.told, len(observed.observers)) == ([], 2)
    await observed.observers.stop()


async def test_a_failure_that_nobody_foresaw_ends_no_observation() -> None:
    observed = Observed()

    def fail() -> bool:
        raise OSError("no bus")

    observed.observers.changed(observed.key, fail)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (observed.told, len(observed.observers)) == ([], 2)
    await observed.observers.stop()


async def test_after_the_end_nobody_is_told_of_what_changed_just_before() -> None:
    pumps = Pumps()
    assert pumps.observe(1, "sensors/pump")
    pumps.pump.changed()
    await asyncio.sleep(0)
    await pumps.devices.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (pumps.told, pumps.pump.calls) == ([], 0)


async def test_of_what_was_answered_nothing_is_left() -> None:
    pumps, told = Pumps(), list[CoapResponse]()
    pumps.ask("sensors/pump").begin(told.append, lambda *_: None)
    await until(lambda: told)
    await asyncio.sleep(0)
    assert not held_instances(pumps.devices, asyncio.Task)


@pytest.mark.parametrize("is_principal", [False, True])
async def test_a_stranger_has_a_handler_called_20_times_a_second(is_principal: bool) -> None:
    pumps = Pumps()
    peer = PEER if is_principal else CoapPeer("there", "there")
    refused = []
    for _ in range(21):
        answer = pumps.devices.answer(asked("sensors/pump"), peer, 0.0)
        if isinstance(answer, CoapResponse):
            refused.append((answer.code, dict(answer.options)[MAX_AGE]))
    assert refused == ([] if is_principal else [(codes.TOO_MANY_REQUESTS, b"\x01")])
    assert not isinstance(pumps.devices.answer(asked("sensors/pump"), peer, 1.0), CoapResponse)
    await pumps.devices.stop()


async def test_a_critical_option_that_no_handler_knows_is_refused_by_its_number() -> None:
    pumps = Pumps()
    for number, why in ((65_005, b"option 65005"), (65_006, None)):
        request = asked("sensors/pump")
        request = CoapRequest(request.code, (*request.options, (number, b"")))
        answer = pumps.devices.answer(request, PEER, 0.0)
        if why is None:
            assert not isinstance(answer, CoapResponse)
        else:
            assert answer == CoapResponse(codes.BAD_OPTION, (), why)
    await pumps.devices.stop()


@pytest.mark.parametrize(
    ("reply", "code", "form"),
    [
        (ResourceReply("x", content_format=0xFFFF), codes.CONTENT, b"\xff\xff"),
        (ResourceReply("x", content_format=0x10000), codes.SERVICE_UNAVAILABLE, None),
        (ResourceReply("x", content_format=-1), codes.SERVICE_UNAVAILABLE, None),
        (ResourceReply(b"x" * 65_536), codes.CONTENT, b"\x2a"),
        (ResourceReply(b"x" * 65_537), codes.SERVICE_UNAVAILABLE, None),
    ],
)
async def test_a_reply_that_can_not_be_sent_is_a_failure(
    reply: ResourceReply, code: int, form: bytes | None
) -> None:
    pumps, told = Pumps(), list[CoapResponse]()
    pumps.pump.reply = reply
    pumps.ask("sensors/pump").begin(told.append, lambda *_: None)
    await until(lambda: told)
    assert told[0].code == code
    assert dict(told[0].options).get(CONTENT_FORMAT) == form
    await pumps.devices.stop()


async def test_a_child_that_has_gone_is_asked_nothing_and_what_has_no_handler_says_so() -> None:
    sampler, part = Sampler(lambda _sensor, _record: None), LatePart()
    pump = Shown("pump")
    sampler.add(pump)
    calls = HandlerCalls(sampler)
    gone = DeviceTarget(ServedDevice(pump), "part", part)
    answer = await calls.response(gone, ResourceCall("GET"), "somebody")
    assert answer.code == codes.NOT_FOUND
    assert part.calls == 0
    pump.children.add("part", part)
    assert (await calls.response(gone, ResourceCall("GET"), "somebody")).payload == b"late"
    assert (part.calls, is_busy(answer)) == (1, False)
    none = await calls.response(gone, ResourceCall("PUT"), "somebody")
    assert none == CoapResponse(codes.METHOD_NOT_ALLOWED, (), b"PUT is not handled here")


class LatePart(ChildResource):
    """A child whose handler takes several turns."""

    calls = 0

    async def handle_get(self, _call: ResourceCall) -> str:
        self.calls += 1
        return "late"
