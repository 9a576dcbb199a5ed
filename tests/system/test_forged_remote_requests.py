"""Goal: a gateway executes what another one asks of it, once, and only if that one has asked.

Two honest gateways and a stolen one between them, linked over mutual TLS. What they ask each other
goes through it, so the thief sees all of it, and may say what he likes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fleet_gateway import Fleet, FleetGateway, until

from gateway.coap_client import CoapClient, NoAnswerError, Response
from tree_handler.batch import Entry
from tree_handler.remote.message import Query
from tree_handler.remote.query import QUERY_TOPIC
from tree_handler.remote.resource import ResourceRequest
from tree_handler.routing.direct import DirectMessage

TOPIC = QUERY_TOPIC + "gw-b"
VALVE = '[[sensors]]\ntype = "switch"\nname = "valve"\n'


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


@pytest.fixture
async def gateways(fleet: Fleet) -> list[FleetGateway]:
    """gw-a, gw-b and the stolen one between them; gw-b has a valve."""
    found = [fleet.gateway(name) for name in ("gw-a", "gw-b", "gw-x")]
    found[1].coap = VALVE
    before: list[str] = []
    for one in (found[0], found[2], found[1]):
        await one.start(neighbours=before)
        before = [f"127.0.0.1:{one.port}"]
    for one in found:
        await until(lambda one=one: len(one.process.parts.members.known) == len(found))
        await until(lambda one=one: len(one.process.parts.proof.keys.ring) == len(found))
    for asker in (found[0], found[2]):
        await reaches(asker, found[1])
    return found


async def reaches(asker: FleetGateway, target: FleetGateway) -> None:
    """Wait until the tree carries what they say to each other: some of it is lost before."""
    while True:
        with contextlib.suppress(NoAnswerError):
            if (await of(asker, "GET", target, "status", timeout_s=0.5)).ok:
                return


def queries(gateway: FleetGateway) -> Any:
    return SimpleNamespace(**gateway.process.parts.site.query_counts())


def linked(gateway: FleetGateway) -> set[str]:
    return {neighbour["id"] for neighbour in gateway.process.parts.node.status()["neighbours"]}


def valve(gateway: FleetGateway) -> float:
    [switch] = gateway.process.parts.readings.sensors
    return switch.read()


def put(value: bytes) -> ResourceRequest:
    return ResourceRequest("PUT", ("sensors", "valve"), (), 0, None, value, "psk:op", ("operator",))


async def of(
    asker: FleetGateway, method: str, target: FleetGateway, path: str, **more: Any
) -> Response:
    """Ask one gateway, as a client of it, for a resource of another one."""
    client = CoapClient()
    port = asker.process.parts.coap.coap_port
    try:
        uri = f"coap://127.0.0.1:{port}/q/-/-/{target.name}/{path}"
        return await client.request(method, uri, **more)
    finally:
        await client.close()


async def ask(asker: FleetGateway, target: FleetGateway, value: bytes) -> str:
    answer = await of(asker, "PUT", target, "sensors/valve", payload=value, content_format=0)
    return answer.code


async def test_what_a_gateway_did_not_ask_is_not_executed_whoever_says_so(
    gateways: list[FleetGateway],
) -> None:
    honest, target, thief = gateways
    lives = honest.process.parts.life.epoch, target.process.parts.life.epoch
    executed = queries(target).executed
    query = Query("gw-a", f"{lives[0]}-900", 5_000, put(b"1"), "gw-b", lives[1], 0)
    seals = thief.process.parts.proof.remote_seals
    assert seals is not None
    for payload in (query.encode(), seals.seal("query 2", query.encode())):
        thief.process.parts.node.publish(Entry(TOPIC, payload), control=True)
    await until(lambda: queries(target).unproven == 2)
    assert (valve(target), queries(target).executed) == (0.0, executed)
    assert await ask(honest, target, b"1") == "2.04"
    assert valve(target) == 1.0


async def test_what_a_gateway_asked_is_executed_once_whoever_says_it_again(
    gateways: list[FleetGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, target, thief = gateways
    executed = queries(target).executed
    overheard: list[bytes] = []
    direct = thief.process.parts.node.direct
    passes_on = direct.receive

    def overhear(link: int, topic: bytes, payload: bytes, now: float) -> None:
        passed = DirectMessage.decode(payload)
        if passed.topic == TOPIC:
            overheard.append(passed.payload)
        passes_on(link, topic, payload, now)

    monkeypatch.setattr(direct, "receive", overhear)
    assert await ask(honest, target, b"1") == "2.04"
    assert await ask(honest, target, b"0") == "2.04"
    await until(lambda: len(overheard) >= 2)  # more where an answer took its time
    before = queries(target).answered_again
    for payload in overheard:
        thief.process.parts.node.publish(Entry(TOPIC, payload), control=True)
    await until(lambda: queries(target).answered_again >= before + 2)
    assert (valve(target), queries(target).executed) == (0.0, executed + 2)
    await target.stop()
    await target.start(neighbours=[f"127.0.0.1:{honest.port}", f"127.0.0.1:{thief.port}"])
    await until(lambda: {"gw-a", "gw-x"} <= linked(target))
    while queries(target).refused + queries(target).unproven < 2:  # what is on its way may be lost
        for payload in overheard:
            thief.process.parts.node.publish(Entry(TOPIC, payload), control=True)
        await asyncio.sleep(0.1)
    assert (valve(target), queries(target).executed) == (0.0, 0)
