"""Goal: who asks many gateways with Observe sees answers as they come, and at the end all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import aiocoap
import cbor2
import pytest
from aiocoap.numbers.codes import Code
from held_timers import HeldTimers
from loop_turns import turns
from remote_fleet import PLACES, Fleet, RawObserver, asking

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from gateway.coap.access import Introduction
from gateway.coap.remote import gathering as remote_gathering
from gateway.coap.remote.reply import OnReply, RemoteReply
from tests.held_objects import held_instances
from tree_handler.members.member import MemberRecord
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

CONTENT, NO_ANSWER = 0x45, 0xA4


@pytest.fixture(autouse=True)
async def time(monkeypatch: pytest.MonkeyPatch) -> HeldTimers:
    """The time for which all are waited for: a test says when it is over."""
    monkeypatch.setattr(remote_gathering, "GROWTH_S", 0.01)
    monkeypatch.setattr(remote_gathering, "GATHER_S", 600.0)
    return HeldTimers(monkeypatch, 600.0)


class Growth:
    """One who asks with Observe, and the bodies that it was told."""

    def __init__(self, fleet: Fleet, path: str = "q/*/*/*/probe") -> None:
        uri = f"coap://127.0.0.1:{fleet.served.coap_port}/{path}"
        self.request = fleet.client.request(
            aiocoap.Message(code=Code.GET, uri=uri, observe=0, accept=60)
        )
        self.told: list[Any] = []
        self.is_over = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        self._take(await self.request.response)
        with contextlib.suppress(aiocoap.error.NotObservable, aiocoap.error.ObservationCancelled):
            async for response in self.request.observation:
                self._take(response)
        self.is_over.set()

    def _take(self, response: Any) -> None:
        self.told.append({row[0]: (row[1], row[3]) for row in cbor2.loads(response.payload)})

    async def until_told(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.told) < count:
                await asyncio.sleep(0)


async def test_answers_are_told_as_they_come_and_all_at_the_end(time: HeldTimers) -> None:
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    async with asking(fleet):
        growth = Growth(fleet)
        await growth.until_told(1)
        assert growth.told == [{"gw-root": (CONTENT, b"21.5")}]
        fleet.north.probe.hold.set()
        await growth.until_told(2)
        both = {"gw-north": (CONTENT, b"21.5"), "gw-root": (CONTENT, b"21.5")}
        assert growth.told[1] == both
        time.run_out()
        async with asyncio.timeout(30):
            await growth.is_over.wait()
        assert growth.told[2:] == [{"gw-dead": (NO_ANSWER, b""), **both}]
        assert len(fleet.north.probe.seen) == 1
        assert not held_instances(fleet.root.remote, remote_gathering.GatheredAnswer)
        assert fleet.served.peers()["open_requests"] == 0


async def test_the_last_body_comes_in_blocks_and_nobody_is_asked_again_for_them(
    time: HeldTimers,
) -> None:
    fleet = Fleet()
    fleet.north.probe.hold.clear()
    fleet.north.probe.value = b"0123456789" * 500
    async with asking(fleet):
        growth = Growth(fleet)
        await growth.until_told(1)
        fleet.north.probe.hold.set()
        async with asyncio.timeout(30):
            while fleet.is_owed_answers():
                await asyncio.sleep(0)
        time.run_out()
        await growth.until_told(2)
        assert growth.told[1]["gw-north"] == (CONTENT, fleet.north.probe.value)
        assert len(growth.told[1]) == 3
        assert len(fleet.north.probe.seen) == 1


async def test_what_all_answer_soon_is_one_answer_that_is_no_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_gathering, "GROWTH_S", 600.0)
    fleet = Fleet(deadline_s=0.05)
    async with asking(fleet) as ask:
        answer = await ask("GET", "q/*/*/*/probe", accept=60, observe=0)
    assert answer.opt.observe is None
    assert [row[1] for row in cbor2.loads(answer.payload)] == [NO_ANSWER, CONTENT, CONTENT]


async def test_when_who_asked_goes_the_others_are_told() -> None:
    fleet = Fleet(places=PLACES | {"gw-south": ("campus", "south")})
    fleet.north.probe.hold.clear()
    south = fleet.nodes["gw-south"].probe
    south.hold.clear()
    async with asking(fleet):
        with RawObserver(fleet, "q/*/*/*/probe", (17, bytes([60]))) as asker:
            async with asyncio.timeout(30):
                await asker.ask()
                await asker.hear()
                south.hold.set()
                await asker.reset(await asker.hear())
                while "$hedgerow/cancel/gw-north" not in fleet.published:
                    await asyncio.sleep(0)
        assert not held_instances(fleet.root.remote, remote_gathering.GatheredAnswer)
        assert fleet.root.exchange.waiting == 0
        fleet.north.probe.hold.set()


class Lets:
    """Lets everybody ask for everything, but for where it is known who asks."""

    def introduction(self, _peer: CoapPeer) -> Introduction:
        return "psk:operator", ("operator",)

    def lets(self, _peer: CoapPeer, _method: str, _path: Sequence[str]) -> bool:
        return True

    def tell_of_changes(self, changed: Callable[[], None]) -> None:
        """Nothing changes."""


class Gathered:
    """Three gateways that are asked by one who observes, and what that one is told."""

    def __init__(self, *, binds: bool = True) -> None:
        self.takers: dict[str, OnReply] = {}
        self.ended: list[str] = []
        self.told: list[tuple[int, int, bool]] = []
        self._binds = binds
        request = CoapRequest(codes.GET, (), observe=True)
        root = Fleet().root
        self.watching, self.request = root.remote.watching, request
        parts = replace(root.parts, access=Lets())
        records = [
            MemberRecord(name, 1, 1, "", "", "10.0.0.1", 1883) for name in ("gw-a", "gw-b", "gw-c")
        ]
        self.answer = remote_gathering.GatheredAnswer(
            parts,
            records,
            (ResourceRequest("GET", ("probe",)), 60),
            CoapPeer("here", "here"),
            self._ask_one,
            remote_gathering.GrowingAnswer(self.watching, request),
        )
        self.end = self.answer.begin(self._done, lambda *_: None)

    def _ask_one(
        self, record: MemberRecord, _request: ResourceRequest, _peer: CoapPeer, told: OnReply
    ) -> Callable[[], None]:
        self.takers[record.id] = told
        return lambda: self.ended.append(record.id)

    def _done(self, response: CoapResponse) -> None:
        self._tell(0, response, False)
        if self._binds and self.answer.goes_on:
            assert self.watching.observe(5, self.request, self._tell)

    def _tell(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        self.told.append((exchange, len(cbor2.loads(response.payload)), is_last))

    async def has(self, name: str, payload: bytes = b"1") -> None:
        """Have a gateway answer, and let what grows be looked at twice."""
        while name not in self.takers:
            await asyncio.sleep(0)
        self.takers[name](RemoteReply(ResourceResponse(codes.CONTENT, payload)))
        loop = asyncio.get_running_loop()
        until = loop.time() + 2.5 * remote_gathering.GROWTH_S
        while loop.time() < until:
            await asyncio.sleep(remote_gathering.GROWTH_S / 2)


async def test_what_has_not_grown_or_is_too_long_is_told_at_the_end_alone() -> None:
    gathered = Gathered()
    await gathered.has("gw-a")
    assert gathered.told == [(0, 1, False)]
    await gathered.has("gw-b", bytes(remote_gathering.GROWN_BYTES))
    assert gathered.told == [(0, 1, False)]
    await gathered.has("gw-c")
    assert gathered.told == [(0, 1, False), (5, 3, True)]
    assert not gathered.answer.goes_on
    assert gathered.ended == []


async def test_who_is_not_let_observe_is_answered_once_and_nobody_is_asked_on() -> None:
    gathered = Gathered(binds=False)
    await gathered.has("gw-b")
    assert gathered.told == [(0, 1, False)]
    assert gathered.ended == ["gw-a", "gw-c"]
    await gathered.has("gw-a")
    assert len(gathered.told) == 1


@pytest.mark.parametrize("ends", ["left", "all answered", "time over"])
async def test_when_it_is_over_no_timer_of_a_gathered_answer_is_left(
    time: HeldTimers, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(remote_gathering, "GROWTH_S", 600.0)
    gathered = Gathered()
    await turns(3)
    assert list(gathered.takers) == ["gw-a", "gw-b", "gw-c"]
    assert time.count == 2
    if ends == "left":
        gathered.end()
    elif ends == "time over":
        time.run_out()
    else:
        for told in gathered.takers.values():
            told(RemoteReply(ResourceResponse(codes.CONTENT, b"1")))
    assert time.count == 0
    assert gathered.ended == ([] if ends == "all answered" else ["gw-a", "gw-b", "gw-c"])
    assert gathered.told == ([] if ends == "left" else [(0, 3, False)])
