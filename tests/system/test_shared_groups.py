"""A shared subscription is one over the fleet: three gateways in each mode, and under kills.

Its members are clients on different gateways, which count what they get.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from chain import CONVERGE_S, Chain, TreeGateway
from mqtt_peer import Peer

from gateway.coap_client import request
from gateway.mqtt import (
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
)
from tree_handler.sharing.claims import DURABLE, ONLINE

pytestmark = pytest.mark.timeout(300)

FILTER = "$share/workers/jobs/#"
MODES = ("flood", "routed", "topic")


async def status(one: TreeGateway) -> dict[str, Any]:
    coap = json.loads((one.state / "listeners.json").read_text())["coap"]
    answer = await request("GET", f"coap://{coap}/status", timeout_s=10)
    told: dict[str, Any] = json.loads(answer.payload)
    return told


async def until(holds: Callable[[], bool], told: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(CONVERGE_S):
            while not holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(told()) from None


async def know(one: TreeGateway, **presence: int) -> None:
    """Wait until a gateway reaches others and knows who is there of the shared subscription."""
    found: dict[str, int] = {}
    try:
        async with asyncio.timeout(CONVERGE_S):
            while True:
                said = await status(one)
                gateways = said["shared_subscriptions"]["gateways"]
                found = {
                    name: sum(group["presence"] for group in gateways[name]["groups"])
                    for name in gateways.keys() & set(said["reached"])
                }
                routed = said["routed"]
                wants = {} if routed is None else routed["interests"]
                is_wanted = all(
                    not there or wants[name]["subscribes"] == ["jobs/#"]
                    for name, there in presence.items()
                    if routed is not None and name in wants
                )
                if all(found.get(name) == there for name, there in presence.items()) and is_wanted:
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError((found, presence)) from None


class Member:
    """A member of the shared subscription, which takes what it gets at QoS 1 or 2."""

    def __init__(self, name: str, peer: Peer) -> None:
        self.name = name
        self.peer = peer
        self.got: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        peer = self.peer
        unreleased: set[int] = set()
        while (packet := await self._next()) is not None:
            match packet:
                case Publish():
                    if packet.qos < 2 or packet.packet_id not in unreleased:
                        self.got.append(packet.payload.decode())
                    if packet.qos == 1:
                        peer.send(PubAck(packet.packet_id))
                    elif packet.qos:
                        unreleased.add(packet.packet_id)
                        peer.send(PubRec(packet.packet_id))
                case PubRel():
                    unreleased.discard(packet.packet_id)
                    peer.send(PubComp(packet.packet_id))
                case PingResp():
                    pass

    async def _next(self) -> Any:
        while True:
            with suppress(TimeoutError):  # nothing came
                return await self.peer.next()

    async def leave(self) -> None:
        self.peer.close()
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading


@asynccontextmanager
async def member(
    one: TreeGateway, name: str, *, qos: int = 1, lasts: bool = True, subscribes: bool = True
) -> AsyncIterator[Member]:
    """A client that is a member; one whose session lasts need not subscribe again."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", one.port), 4)
    assert await peer.connect(name, clean_start=not lasts) == 0
    if subscribes:
        assert await peer.subscribe(FILTER, qos) == qos
    found = Member(name, peer)
    try:
        yield found
    finally:
        await found.leave()


async def send(one: TreeGateway, *payloads: str, qos: int = 1) -> None:
    async with one.client(f"writer-{payloads[0]}", 4) as writer:
        for payload in payloads:
            if qos == 1:
                assert await writer.publish(f"jobs/{payload}", payload.encode()) == 0
            else:
                writer.send(
                    Publish(
                        f"jobs/{payload}",
                        payload.encode(),
                        qos,
                        False,
                        False,
                        7 if qos else None,
                        {},
                    )
                )
                if qos == 2:
                    assert isinstance(await writer.next(), PubRec)
                    writer.send(PubRel(7))
                    assert isinstance(await writer.next(), PubComp)
        writer.send(PingReq())
        assert isinstance(await writer.next(), PingResp)


def all_got(*members: Member) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in members:
        found.update(one.got)
    return found


async def each_once(expected: set[str], *members: Member) -> None:
    """Wait until members have got just these messages together, each once."""
    await until(
        lambda: all_got(*members).keys() >= expected,
        lambda: (sorted(expected - all_got(*members).keys()), {m.name: m.got for m in members}),
    )
    assert all_got(*members) == Counter(expected)


@pytest.mark.soak(
    "processes in three modes; tests/unit/gateway/node/links/test_groups_part has a sample"
)
@pytest.mark.parametrize("mode", MODES)
async def test_each_message_goes_to_one_member_in_the_fleet_and_near_ones_come_first(
    tmp_path: Path, mode: str
) -> None:
    async with Chain(tmp_path, 3, mode=mode) as chain:
        a, b, c = chain.gateways
        async with member(c, "far") as far:
            await know(a, c=ONLINE | DURABLE)
            await send(a, "1", "2")
            await send(a, "3", qos=2)
            await send(a, "4", qos=0)
            await each_once({"1", "2", "3", "4"}, far)
            async with member(b, "near") as near:
                await know(a, b=ONLINE | DURABLE, c=ONLINE | DURABLE)
                await know(c, b=ONLINE | DURABLE)
                await send(a, "5", "6")  # b is linked to a
                await send(c, "7")
                await send(b, "8", qos=0)
                await each_once({"5", "6", "8"}, near)
                await each_once({"1", "2", "3", "4", "7"}, far)
            await know(a, b=DURABLE)
            await send(a, "9")  # whoever is connected comes before whoever is away
            await each_once({"1", "2", "3", "4", "7", "9"}, far)


class Lasting:
    """A member that comes back to its session, or to a new one, whenever it lost its connection.

    Attributes:
        got: what it was sent, in its order; what came again as a duplicate of QoS 1 included.

    """

    def __init__(self, one: TreeGateway, name: str, *, qos: int, lasts: bool) -> None:
        self._one, self._name, self._qos, self._lasts = one, name, qos, lasts
        self.got: list[str] = []
        self.is_there = asyncio.Event()
        self._unreleased: set[int] = set()
        self._task = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        while True:
            with suppress(OSError, AssertionError, TimeoutError):
                await self._serve()
            self.is_there.clear()
            await asyncio.sleep(0.05)

    async def _serve(self) -> None:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._one.port), 4)
        try:
            assert await peer.connect(self._name, clean_start=not self._lasts) == 0
            if not self._lasts:
                self._unreleased.clear()
            peer.send(Subscribe(1, [SubscriptionRequest(FILTER, self._qos)], {}))
            while True:
                try:
                    packet = await peer.next()
                except TimeoutError:  # nothing came
                    continue
                if packet is None:
                    return
                self._take(peer, packet)
        finally:
            peer.close()

    def _take(self, peer: Peer, packet: Any) -> None:
        match packet:
            case Publish():
                if packet.qos < 2 or packet.packet_id not in self._unreleased:
                    self.got.append(packet.payload.decode())
                if packet.qos == 1:
                    peer.send(PubAck(packet.packet_id))
                elif packet.qos:
                    self._unreleased.add(packet.packet_id)
                    peer.send(PubRec(packet.packet_id))
            case PubRel():
                self._unreleased.discard(packet.packet_id)
                peer.send(PubComp(packet.packet_id))
            case SubAck():
                self.is_there.set()

    async def leave(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class Writer:
    """Publishes at QoS 1, one after the other, whatever becomes of its gateway.

    Attributes:
        acknowledged: what its gateway took.
        unknown: what had no answer; it is not sent again.

    """

    def __init__(self, one: TreeGateway, name: str) -> None:
        self._one, self._name = one, name
        self.acknowledged: set[str] = set()
        self.unknown: set[str] = set()
        self._count = 0
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while True:
            with suppress(OSError, AssertionError, TimeoutError):
                await self._serve()
            await asyncio.sleep(0.05)

    async def _serve(self) -> None:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self._one.port), 4)
        try:
            assert await peer.connect(self._name) == 0
            while True:
                self._count += 1
                payload = f"{self._name}-{self._count}"
                self.unknown.add(payload)
                assert await peer.publish(f"jobs/{self._name}", payload.encode()) == 0
                self.unknown.discard(payload)
                self.acknowledged.add(payload)
                await asyncio.sleep(0.01)
        finally:
            peer.close()

    async def end(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def holders(members: dict[str, Lasting]) -> dict[str, set[str]]:
    """Return the members that got each message."""
    found: dict[str, set[str]] = {}
    for name, one in members.items():
        for payload in one.got:
            found.setdefault(payload, set()).add(name)
    return found


@pytest.mark.soak("kills in all modes take minutes; that one member gets each is shown above")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lasts", [True, False], ids=["sessions-last", "sessions-end"])
async def test_no_message_goes_to_two_members_and_none_is_lost_while_gateways_are_killed(
    tmp_path: Path, mode: str, lasts: bool, request: pytest.FixtureRequest
) -> None:
    """Goal: one member for each message, at most, whatever is killed; all of them where sessions
    last. Method: members on both ends of three gateways, a writer on each, six kills."""
    rng = random.Random(f"{mode} {lasts} {request.config.getoption('--seed')}")
    async with Chain(tmp_path, 3, mode=mode) as chain:
        members = {
            f"{one.gateway_id}{n}": Lasting(one, f"{one.gateway_id}{n}", qos=n + 1, lasts=lasts)
            for one in (chain.gateways[0], chain.gateways[2])
            for n in range(2)
        }
        for one in members.values():
            await one.is_there.wait()
        there = ONLINE | DURABLE if lasts else ONLINE
        for one in chain.gateways:
            await know(one, **{name: there for name in "ac" if name != one.gateway_id})
        writers = [Writer(one, f"w-{one.gateway_id}") for one in chain.gateways]
        for _ in range(6):
            await asyncio.sleep(rng.uniform(0.3, 1.5))
            victim = rng.choice(chain.gateways)
            victim.kill()
            await victim.ended()
            await asyncio.sleep(rng.uniform(0, 1.5))
            await victim.start()
        for one in members.values():
            await one.is_there.wait()
        for one in chain.gateways:
            await know(one, **{name: there for name in "ac" if name != one.gateway_id})
        for writer in writers:
            await writer.end()
        await send(chain.gateways[0], "the-last")
        acknowledged = set().union(*(one.acknowledged for one in writers)) | {"the-last"}
        if lasts:
            await until(
                lambda: holders(members).keys() >= acknowledged,
                lambda: ("lost", sorted(acknowledged - holders(members).keys())),
            )
        else:
            await until(lambda: "the-last" in holders(members), lambda: "the last one is lost")
        found = holders(members)
        assert {p: names for p, names in found.items() if len(names) > 1} == {}
        lost = acknowledged - found.keys()
        assert len(lost) < len(acknowledged) / 10, sorted(lost)
        for one in members.values():
            await one.leave()
