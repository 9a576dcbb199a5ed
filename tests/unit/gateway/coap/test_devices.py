"""Requests that a device handles itself (A7): methods, child resources, attributes, Observe."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import aiocoap
import pytest
from aiocoap import Code, Message
from fleet_gateway import until
from held_timers import HeldTimers

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest
from coap_engine.observation import OBSERVED_BODY_BYTES
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from dtls.keystore import Keystore
from gateway.coap.peers import session_peer
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.sensors.roll import SensorRoll
from gateway.coap.server import CoapListener, CoapServer
from gateway.coap.well_known import CountedSite, WellKnownCore
from gateway.sensors import device_resource
from gateway.sensors.device_resource import (
    CHILDREN_MAX,
    CHILDREN_OF_ONE_MAX,
    CallRefusedError,
    ChildConflictError,
    ChildResource,
    Handled,
    ResourceCall,
    ResourceReply,
)
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Actuator, Sensor, ValueRefusedError
from gateway.sensors.switch import Switch
from gateway.trust.shares.fair_turns import FairTurns
from tests.held_objects import held_instances
from tests.policies import access_of, open_access
from tree_handler.members.place import Place


class Job(ChildResource):
    """A child resource with a text that can be read, set and observed."""

    resource_type = "job"
    content_formats = (0,)

    def __init__(self, text: str, **options: Any) -> None:
        super().__init__(**options)
        self.text = text

    def handle_get(self, call: ResourceCall) -> str:
        return self.text

    def handle_put(self, call: ResourceCall) -> None:
        self.text = call.text()
        self.changed()

    def handle_delete(self, call: ResourceCall) -> None:
        if self.text == "busy":
            raise CallRefusedError("4.09", "busy")


class Machine(Actuator):
    """A device that handles every method."""

    attributes: Mapping[str, str] = {"position": "hall"}
    body_bytes_max = 64
    position = slow_s = 0.0
    reads = 0

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.calls: list[ResourceCall] = []
        self.hold = threading.Event()
        self.hold.set()

    def read(self) -> float:
        position, self.reads = self.position, self.reads + 1
        time.sleep(self.slow_s)
        return position

    def write(self, value: Any) -> None:
        self.position = value

    def handle_post(self, call: ResourceCall) -> Handled:
        self.calls.append(call)
        self.hold.wait(60)
        match call.text():
            case "create":
                call.create(f"jobs/{len(self.children)}", Job("new"))
                return {"n": len(self.children)}
            case "create and fail":
                call.create("failed", Job("new"))
                raise OSError("no\nbus")
            case "refuse":
                raise CallRefusedError("4.09", "it moves")
            case "value":
                raise ValueRefusedError("1 to 3")
            case "large":
                return bytes(70_000)
        return None

    async def handle_fetch(self, call: ResourceCall) -> Handled:
        self.calls.append(call)
        if call.payload == b"no":
            raise CallRefusedError("4.04", "no such field")
        if call.payload == b"broken":
            raise OSError("bus")
        return ResourceReply(b"\xa0", content_format=60, max_age_s=7)

    def handle_patch(self, call: ResourceCall) -> None:
        self.calls.append(call)

    def handle_ipatch(self, call: ResourceCall) -> None:
        self.calls.append(call)
        self.position = call.json()["position"]

    def handle_delete(self, call: ResourceCall) -> None:
        self.calls.append(call)


class Panel(Sensor):
    """A sensor whose representation is its own."""

    is_quick = True
    shown = "a"

    def read(self) -> float:
        return 1.0

    def handle_get(self, call: ResourceCall) -> Handled:
        return {"shown": self.shown}

    def handle_fetch(self, call: ResourceCall) -> Handled:
        return {call.text(): self.shown}


LONG_S = 60.5
"""A time limit that runs out when a test lets it."""


class Served:
    """Devices behind a loopback port, and a client of it."""

    def __init__(self, timeout_s: float) -> None:
        self.delivered: list[float] = []
        self.sampler = Sampler(
            lambda _, record: self.delivered.append(record.value), timeout_s=timeout_s
        )
        self.site = CountedSite()
        self.may = True
        self.sensors = SensorResources(
            self.site,
            self.sampler,
            "gw-north",
            Place("campus", "north"),
            may_write=lambda *_: self.may,
            lets=lambda *_: self.may,
        )
        self.sensors.devices.begin(self.relist)
        self.machine, self.panel = Machine("hall/machine", interval_s=300), Panel("panel")
        for sensor in (self.machine, self.panel, Switch("pump")):
            self.sampler.add(sensor)
            self.sensors.add(sensor)
        self.client: aiocoap.Context
        self.port: int | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait for a device."""
        return sum(len(turns) for turns in held_instances(self.sampler, FairTurns))

    def relist(self) -> None:
        self.site.touch()

    def message(self, code: Code, path: str, payload: bytes = b"", **options: Any) -> Message:
        uri = f"coap://127.0.0.1:{self.port}/sensors/{path}"
        return Message(code=code, uri=uri, payload=payload, **options)

    async def ask(self, code: Code, path: str, payload: bytes = b"", **options: Any) -> Message:
        return await self.client.request(self.message(code, path, payload, **options)).response

    async def links(self, search: str = "") -> str:
        uri = f"coap://127.0.0.1:{self.port}/.well-known/core{search}"
        answer = await self.client.request(Message(code=Code.GET, uri=uri)).response
        return answer.payload.decode()


@pytest.fixture
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    served = Served(getattr(request, "param", 10.0))
    at_hand = (served.sensors.answers, served.sensors.devices, WellKnownCore(served.site))
    server = CoapServer(
        served.site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=None,
        keystore=Keystore(),
        access=open_access(),
        at_hand=at_hand,
    )
    async with server:
        served.port = server.coap_port
        served.client = await aiocoap.Context.create_client_context()
        yield served
        await served.client.shutdown()
        await served.sensors.devices.stop()


async def follow(request: Any, told: Callable[[Message], None]) -> None:
    """Take what is told of an observed resource, until that ends."""
    async for one in request.observation:
        told(one)


async def test_every_method_comes_to_the_handler_that_its_class_has(served: Served) -> None:
    at = "hall/machine"
    moved = await served.ask(Code.POST, f"{at}?fast&n=2", b"go", content_format=0)
    assert (moved.code, moved.payload) == (Code.CHANGED, b"")
    told = await served.ask(Code.FETCH, at, b"{}", content_format=50, accept=60)
    assert (told.code, told.payload, told.opt.content_format) == (Code.CONTENT, b"\xa0", 60)
    assert told.opt.max_age == 7
    assert (await served.ask(Code.PATCH, at, b"1")).code == Code.CHANGED
    set_to = await served.ask(Code.iPATCH, at, b'{"position": 3}', content_format=50)
    assert (set_to.code, served.machine.position) == (Code.CHANGED, 3)
    assert (await served.ask(Code.DELETE, at)).code == Code.DELETED
    methods = [call.method for call in served.machine.calls]
    assert methods == ["POST", "FETCH", "PATCH", "iPATCH", "DELETE"]
    post, fetch = served.machine.calls[:2]
    assert (post.query, post.content_format, post.accept) == (("fast", "n=2"), 0, None)
    assert (fetch.content_format, fetch.accept) == (50, 60)


async def test_without_a_handler_a_sensor_is_read_and_set_as_ever(served: Served) -> None:
    assert (await served.ask(Code.PUT, "hall/machine", b"4")).code == Code.CHANGED
    value = await served.ask(Code.GET, "hall/machine", accept=0)
    assert (value.payload, served.machine.position) == (b"4.0", 4.0)
    for code in (Code.POST, Code.PATCH, Code.iPATCH, Code.FETCH):
        assert (await served.ask(code, "pump", b"1")).code == Code.METHOD_NOT_ALLOWED


async def test_a_class_with_a_get_of_its_own_says_what_it_is(served: Served) -> None:
    shown = await served.ask(Code.GET, "panel")
    assert (json.loads(shown.payload), shown.opt.content_format) == ({"shown": "a"}, 50)
    assert shown.opt.max_age == 0
    assert (await served.ask(Code.GET, "panel", accept=0)).code == Code.NOT_ACCEPTABLE


async def test_a_child_is_created_read_set_and_deleted_at_run_time(served: Served) -> None:
    made = await served.ask(Code.POST, "hall/machine", b"create")
    assert (made.code, json.loads(made.payload)) == (Code.CREATED, {"n": 1})
    assert made.opt.location_path == ("sensors", "hall", "machine", "jobs", "0")
    child = "hall/machine/jobs/0"
    assert (await served.ask(Code.GET, child)).payload == b"new"
    assert (await served.ask(Code.PUT, child, b"busy")).code == Code.CHANGED
    refused = await served.ask(Code.DELETE, child)
    assert (refused.code, refused.payload) == (Code.CONFLICT, b"busy")
    assert (await served.ask(Code.POST, child)).code == Code.METHOD_NOT_ALLOWED
    assert (await served.ask(Code.PUT, child, b"done")).code == Code.CHANGED
    assert (await served.ask(Code.DELETE, child)).code == Code.DELETED
    assert (await served.ask(Code.GET, child)).code == Code.NOT_FOUND
    assert len(served.machine.children) == 0


class AddedSensors:
    """Stands for the sensors of a gateway: those of these names were added."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.removed: list[str] = []

    def is_added(self, name: str) -> bool:
        return name in self.names

    async def remove(self, name: str, check: Any = None) -> Sequence[str]:
        self.removed.append(name)
        return [name]


async def test_a_delete_of_a_sensor_that_was_added_removes_it_and_of_any_other_is_the_devices(
    served: Served,
) -> None:
    added = AddedSensors(set())
    served.sensors.roll(cast(SensorRoll, added))
    served.sensors.remove("hall/machine")
    served.sensors.add(served.machine)
    at, child = "hall/machine", "hall/machine/jobs/0"
    assert (await served.ask(Code.DELETE, at)).code == Code.DELETED
    assert ([call.method for call in served.machine.calls], added.removed) == (["DELETE"], [])
    served.machine.children.add("jobs/0", Job(""))
    added.names.add(at)
    assert (await served.ask(Code.DELETE, child)).code == Code.DELETED
    assert (len(served.machine.children), added.removed) == (0, [])
    assert (await served.ask(Code.DELETE, at)).code == Code.DELETED
    assert (len(served.machine.calls), added.removed) == (1, [at])


async def test_links_of_children_come_and_go_with_attributes_of_their_own(served: Served) -> None:
    job = Job("here", attributes={"position": "left"})
    threading.Thread(target=served.machine.children.add, args=("jobs/a", job)).start()
    link = '</sensors/hall/machine/jobs/a>;rt="job";ct="0";obs;domain="campus";group="north"'

    async def is_listed(text: str) -> bool:
        return text in await served.links("?rt=job")

    while not await is_listed('position="left"'):
        await asyncio.sleep(0.01)
    assert f'{link};position="left"' in await served.links()
    assert any(one.href.endswith("/jobs/a") for one in served.sensors.links())
    job.describe({"position": "right"})
    while not await is_listed('position="right"'):
        await asyncio.sleep(0.01)
    served.machine.describe({"position": "roof"})
    while 'position="roof"' not in await served.links("?href=/sensors/hall/machine"):
        await asyncio.sleep(0.01)
    served.machine.children.remove("jobs/a")
    while await is_listed("jobs/a"):
        await asyncio.sleep(0.01)


def test_what_no_link_can_carry_is_no_attribute() -> None:
    machine = Machine("m", attributes={"floor": "2"})
    assert machine.attributes == {"position": "hall", "floor": "2"}
    for attributes in (
        {"Position": "a"},
        {"rt": "a"},
        {"a": "two\nlines"},
        {"a": "x" * 201},
        {f"a{n}": "" for n in range(17)},
    ):
        with pytest.raises(ValueError, match=r"attributes"):
            machine.describe(attributes)
        with pytest.raises(ValueError, match=r"attributes"):
            Job("", attributes=attributes)


async def test_what_a_handler_raises_is_an_answer_and_creates_nothing(served: Served) -> None:
    async def answer(what: str) -> tuple[str, bytes]:
        answer = await served.ask(Code.POST, "hall/machine", what.encode())
        return answer.code.dotted, answer.payload

    assert await answer("refuse") == ("4.09", b"it moves")
    assert await answer("value") == ("4.00", b"1 to 3")
    assert await answer("create and fail") == (
        "5.00",
        rb"hall/machine: OSError: no\nbus; it may be done",
    )
    assert len(served.machine.children) == 0
    code, why = await answer("large")
    assert (code, why) == (
        "5.00",
        b"hall/machine: ValueError: an answer of 70000 bytes, over 65536; it may be done",
    )
    refused = await served.ask(Code.FETCH, "hall/machine", b"no")
    assert (refused.code, refused.payload) == (Code.NOT_FOUND, b"no such field")
    broken = await served.ask(Code.FETCH, "hall/machine", b"broken")
    assert (broken.code.dotted, broken.payload) == ("5.03", b"hall/machine: OSError: bus")
    over = await served.ask(Code.POST, "hall/machine", bytes(65))
    assert (over.code, over.opt.size1) == (Code.REQUEST_ENTITY_TOO_LARGE, 64)
    unknown = served.message(Code.POST, "hall/machine")
    unknown.opt.add_option(aiocoap.optiontypes.OpaqueOption(aiocoap.OptionNumber(65_003), b""))
    assert (await served.client.request(unknown).response).code == Code.BAD_OPTION


def test_children_are_few_for_each_principal_and_for_all() -> None:
    children = Machine("m").children
    for number in range(CHILDREN_OF_ONE_MAX):
        children.add(str(number), Job(""), "psk:a")
    with pytest.raises(ChildConflictError, match="you have 16 already"):
        children.add("more", Job(""), "psk:a")
    with pytest.raises(ChildConflictError, match="there is '0' already"):
        children.add("0", Job(""), "psk:b")
    children.remove("0")
    children.add("more", Job(""), "psk:a")
    for number in range(CHILDREN_MAX - len(children)):
        children.add(f"own-{number}", Job(""))
    with pytest.raises(ChildConflictError, match="there are 64 already"):
        children.add("one-more", Job(""), "psk:b")
    for name in ("", "a//b", "..", "A", "a b", "a" * 101):
        with pytest.raises(ValueError, match="child"):
            children.add(name, Job(""))


async def test_an_observer_is_told_whenever_the_developer_says_changed(served: Served) -> None:
    request = served.client.request(served.message(Code.GET, "panel", observe=0))
    assert json.loads((await request.response).payload) == {"shown": "a"}
    told = list[str]()
    following = asyncio.create_task(
        follow(request, lambda one: told.append(json.loads(one.payload)["shown"]))
    )
    served.panel.shown = "b"
    for _ in range(1_000):  # however often it says so
        served.panel.changed()
    await until(lambda: told == ["b"])
    served.panel.shown = "c"
    threading.Thread(target=served.panel.changed).start()
    await until(lambda: told == ["b", "c"])
    following.cancel()


async def test_who_observes_with_fetch_is_told_what_it_asked_for_whenever_it_changes(
    served: Served,
) -> None:
    """RFC 8132, section 2.4: what is observed is the resource with the body of the FETCH."""
    bodies, told = (b"one", b"two"), dict[bytes, list[bytes]]()
    following = []
    for body in bodies:
        asked = served.message(Code.FETCH, "panel", body, content_format=0, observe=0)
        request = served.client.request(asked)
        first = await request.response
        assert (first.opt.observe is not None, json.loads(first.payload)) == (
            True,
            {body.decode(): "a"},
        )
        told[body] = []
        tell = partial(lambda body, one: told[body].append(one.payload), body)
        following.append(asyncio.create_task(follow(request, tell)))
    served.panel.shown = "b"
    served.panel.changed()
    await until(lambda: all(told.values()))
    assert {body: json.loads(of[0]) for body, of in told.items()} == {
        body: {body.decode(): "b"} for body in bodies
    }
    for one in following:
        one.cancel()


async def test_a_long_fetch_is_answered_and_not_observed(served: Served) -> None:
    body = bytes(OBSERVED_BODY_BYTES + 1)
    asked = served.message(Code.FETCH, "panel", body, content_format=0, observe=0)
    answer = await served.client.request(asked).response
    assert (answer.code, answer.opt.observe) == (Code.CONTENT, None)


async def test_an_observer_of_a_child_is_told_of_its_end(served: Served) -> None:
    served.machine.children.add("jobs/a", Job("new"))
    request = served.client.request(served.message(Code.GET, "hall/machine/jobs/a", observe=0))
    assert (await request.response).payload == b"new"
    told = list[bytes]()
    following = asyncio.create_task(follow(request, lambda one: told.append(one.payload)))
    assert (await served.ask(Code.PUT, "hall/machine/jobs/a", b"half")).code == Code.CHANGED
    await until(lambda: told == [b"half"])
    served.machine.children.remove("jobs/a")
    await asyncio.wait([following])
    assert told[1:] in ([], [b"removed"])


async def test_a_sensor_that_says_it_has_changed_is_read_at_once(served: Served) -> None:
    served.machine.position, served.machine.slow_s = 4.0, 0.3
    sampling = asyncio.create_task(served.sampler.run())
    await until(lambda: served.machine.reads == 1)
    served.machine.position = 5.0  # in the midst of a read, which has seen it as it was
    served.machine.changed()
    await until(lambda: 5.0 in served.delivered)
    sampling.cancel()


async def test_calls_of_a_device_wait_for_their_turn_and_not_more_than_few(served: Served) -> None:
    served.machine.hold.clear()
    asked = [asyncio.ensure_future(served.ask(Code.POST, "hall/machine", b"x")) for _ in range(10)]
    await until(lambda: sum(one.done() for one in asked) == 5)
    assert (await served.ask(Code.GET, "panel")).code == Code.CONTENT  # another device's waits not
    served.machine.hold.set()
    answers = [(await one) for one in asked]
    by_code = sorted(one.code.dotted for one in answers)
    assert by_code == ["2.04"] * 5 + ["5.03"] * 5  # one, and four that wait
    assert {one.opt.max_age for one in answers if not one.code.is_successful()} == {10}
    assert len(served.machine.calls) == 5


@pytest.mark.parametrize("served", [LONG_S], indirect=True)
async def test_a_handler_that_hangs_is_waited_for_no_longer_and_may_be_done_yet(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = HeldTimers(monkeypatch, LONG_S)
    served.machine.hold.clear()
    asked = asyncio.create_task(served.ask(Code.POST, "hall/machine", b"x"))
    await until(lambda: served.machine.calls)
    timers.run_out()
    late = await asked
    assert (late.code.dotted, late.payload[-14:]) == ("5.04", b"it may be done")
    busy = await served.ask(Code.POST, "hall/machine", b"y")  # its thread is still in the first
    assert (busy.code.dotted, busy.opt.max_age) == ("5.03", 61)
    served.machine.hold.set()
    assert [call.payload for call in served.machine.calls] == [b"x"]


async def test_no_path_but_its_own_leads_to_a_device(served: Served) -> None:
    """A rule for what is below a device, as ``/sensors/hall/machine/+``, is none for the device."""
    path = (b"sensors", b"hall", b"machine")
    request = CoapRequest(codes.POST, tuple((11, one) for one in (*path, b"")), b"x")
    peer = CoapPeer("somewhere", "somewhere", None)
    answer = served.sensors.devices.answer(request, peer, 0.0)
    assert answer is None
    assert (await served.ask(Code.POST, "hall/machine/")).code == Code.NOT_FOUND
    assert served.machine.calls == []


async def test_a_child_that_goes_while_a_request_waits_for_it_is_asked_nothing(
    served: Served,
) -> None:
    at, job, next_job = "hall/machine", Job("first"), Job("second")
    served.machine.children.add("job", job)
    served.machine.hold.clear()
    held = asyncio.create_task(served.ask(Code.POST, at, b"x"))
    await until(lambda: served.machine.calls)
    waiting = [
        asyncio.create_task(served.ask(code, f"{at}/job", b"late"))
        for code in (Code.PUT, Code.DELETE)
    ]
    await until(lambda: served.waiting == 2)
    served.machine.children.remove("job")
    served.machine.children.add("job", next_job)
    served.machine.hold.set()
    await held
    assert [one.code for one in await asyncio.gather(*waiting)] == [Code.NOT_FOUND] * 2
    assert (job.text, next_job.text) == ("first", "second")
    assert served.machine.children.get("job") is next_job


async def test_who_may_no_more_when_the_device_is_free_has_nothing_done(served: Served) -> None:
    at = "hall/machine"
    served.machine.hold.clear()
    held = asyncio.create_task(served.ask(Code.POST, at, b"x"))
    await until(lambda: served.machine.calls)
    waiting = [
        asyncio.create_task(served.ask(Code.PUT, at, b"4")),
        asyncio.create_task(served.ask(Code.POST, at, b"late")),
    ]
    await until(lambda: served.waiting == 2)
    served.may = False
    served.machine.hold.set()
    assert (await held).code == Code.CHANGED
    assert [one.code for one in await asyncio.gather(*waiting)] == [Code.FORBIDDEN] * 2
    assert ([call.payload for call in served.machine.calls], served.machine.position) == ([b"x"], 0)
    served.may = True
    assert (await served.ask(Code.PUT, at, b"4")).code == Code.CHANGED  # it is free


def test_each_method_is_a_right_of_its_own_below_a_device_too() -> None:
    access = access_of({"psk:operator": "operator", "psk:reader": "reader"})
    at = PeerAddress(("192.0.2.1", 40_000))
    operator, reader = (
        session_peer(n, at, PeerIdentity(Proof.PSK, name))
        for n, name in enumerate(("operator", "reader"))
    )

    def may(peer: CoapPeer, code: int, *path: bytes) -> bool:
        request = CoapRequest(code, tuple((11, segment) for segment in (b"sensors", *path)))
        return access.refusal(request, peer) is None

    for path in ((b"stepper",), (b"stepper", b"moves", b"1")):
        for code in (codes.POST, codes.PUT, codes.PATCH, codes.IPATCH, codes.DELETE):
            assert may(operator, code, *path)
            assert not may(reader, code, *path)
        for code in (codes.GET, codes.FETCH):
            assert may(reader, code, *path)


def test_a_refusal_has_the_code_of_an_error() -> None:
    for code in ("2.05", "4", "4.99", "409"):
        with pytest.raises(ValueError, match="is no code of an error"):
            CallRefusedError(code, "")
    with pytest.raises(CallRefusedError, match="no JSON"):
        ResourceCall("POST", b"{").json()
    with pytest.raises(CallRefusedError, match=r"no UTF-8"):
        ResourceCall("POST", b"\xff").text()
    with pytest.raises(ValueError, match="GET creates nothing"):
        ResourceCall("GET").create("a", Job(""))
    assert device_resource.HANDLERS.keys() == {
        *("GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "iPATCH")
    }
