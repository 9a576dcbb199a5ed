"""Requests that a device handles itself, over OSCORE: child resources, and observation by FETCH."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from aiocoap import Code, resource
from aiocoap.oscore import ProtectionInvalid
from fleet_gateway import until

from dtls.datagrams import PeerAddress
from gateway.coap.answers import Answers
from gateway.coap.oscore.answers import OscoreAnswers
from gateway.coap.requester import plain_requester
from gateway.coap.sensors.resources import SensorResources
from gateway.sensors.device_resource import ChildResource, Handled, ResourceCall
from gateway.sensors.sampler import Sampler
from gateway.sensors.sensor import Sensor
from tests.policies import open_access
from tests.unit.gateway.oscore_world import THERMOMETER, World
from tree_handler.members.place import Place


class Job(ChildResource):
    """One that can be read, set and ended."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def handle_get(self, call: ResourceCall) -> str:
        return self.text

    def handle_put(self, call: ResourceCall) -> None:
        self.text = call.text()
        self.changed()

    def handle_delete(self, call: ResourceCall) -> str:
        return "ended"


class Machine(Sensor):
    """Has jobs, of which it had one before it was started."""

    shown = "a"

    def begin(self) -> None:
        self.children.add("jobs/kept", Job("kept"))

    def read(self) -> float:
        return 1.0

    def handle_post(self, call: ResourceCall) -> None:
        call.create("jobs/new", Job(call.text()))

    def handle_fetch(self, call: ResourceCall) -> Handled:
        return {call.text(): self.shown}


class Asking(World):
    """A device that asks for another one, which its gateway serves."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler, site = Sampler(lambda *_: None), resource.Site()
        self.sensors = SensorResources(site, self.sampler, "gw", Place("", ""))
        self.sensors.devices.begin(lambda: None)
        self.machine = Machine("machine")
        self.machine.begin()
        self.sampler.add(self.machine)
        self.sensors.add(self.machine)
        at = PeerAddress(("192.0.2.7", 5683))
        inside = Answers(
            site,
            open_access(),
            (self.sensors.answers, self.sensors.devices),
            lambda _: plain_requester(at, ("192.0.2.1", 5683)),
        )
        contexts = {THERMOMETER.known_by: self.context}
        loop = asyncio.get_running_loop()
        self.answers = OscoreAnswers(contexts, inside, loop, self.shares)
        self.context.recipient_replay_window.initialize_empty()

    async def asks(self, code: Code, path: str, **options: Any) -> tuple[Any, Any]:
        """Ask, and take the first answer; it, and what opens the next ones."""
        request, request_id = self.protect(code, uri_path=("sensors", *path.split("/")), **options)
        before = len(self.told)
        answer = self.begin_sending(request)
        if answer is not None:
            return self.open(answer[0], request_id), request_id
        for at in itertools.count(before):
            await self.has_told(at + 1)
            with suppress(ProtectionInvalid):  # what an observer is told meanwhile
                return self.open(self.told[at], request_id), request_id
        raise AssertionError

    async def has_told(self, count: int) -> None:
        await until(lambda: len(self.told) >= count)


@pytest.fixture
async def world() -> AsyncIterator[Asking]:
    made = Asking()
    yield made
    await made.sensors.devices.stop()


async def test_a_child_is_created_read_set_observed_and_ended(world: Asking) -> None:
    made, _ = await world.asks(Code.POST, "machine", payload=b"first")
    assert (made.code, made.opt.location_path[-1]) == (Code.CREATED, "new")
    told, opens = await world.asks(Code.GET, "machine/jobs/new", observe=0)
    assert (told.payload, told.opt.observe) == (b"first", 0)
    before = len(world.told)
    assert (await world.asks(Code.PUT, "machine/jobs/new", payload=b"half"))[0].code == Code.CHANGED
    await world.has_told(before + 2)  # its own answer, and what is observed
    payloads = list[bytes]()
    for one in world.told[before:]:
        with suppress(ProtectionInvalid):  # the answer of another request
            payloads.append(world.open(one, opens).payload)
    assert payloads == [b"half"]
    ended, _ = await world.asks(Code.DELETE, "machine/jobs/new")
    assert (ended.code, ended.payload) == (Code.DELETED, b"ended")
    assert (await world.asks(Code.GET, "machine/jobs/new"))[0].code == Code.NOT_FOUND


async def test_a_child_that_its_class_adds_in_begin_is_there_after_each_start(
    world: Asking,
) -> None:
    told, _ = await world.asks(Code.GET, "machine/jobs/kept")
    assert (told.code, told.payload) == (Code.CONTENT, b"kept")
    links = [link.href for link in world.sensors.links()]
    assert any(href.endswith("/sensors/machine/jobs/kept") for href in links)


async def test_what_is_observed_with_fetch_is_told_as_it_was_asked_for(world: Asking) -> None:
    first, opens = await world.asks(
        Code.FETCH, "machine", payload=b"one", content_format=0, observe=0
    )
    assert (json.loads(first.payload), first.opt.observe) == ({"one": "a"}, 0)
    before = len(world.told)
    world.machine.shown = "b"
    world.machine.changed()
    await until(lambda: len(world.told) > before)
    assert json.loads(world.open(world.told[before], opens).payload) == {"one": "b"}
