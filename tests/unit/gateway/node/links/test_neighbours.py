"""The neighbours that a gateway dials, dials back, and no longer dials."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from fleet_gateway import LIMIT_S, Fleet, FleetGateway, until
from loop_turns import turns
from loopback_wire import wire_to
from ports import free_port
from tree_host import never_linked

from gateway.node.links import neighbours as module
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.tcp import TcpAddress
from gateway.node.links.transport import Address


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def dialling(gateway: FleetGateway) -> dict[str, int]:
    told: dict[str, int] = gateway.process.status()["dialling"]
    return told


@contextlib.asynccontextmanager
async def way_without_the_last_word(port: int) -> AsyncIterator[int]:
    """A port that leads to a gateway's: who dials it does not hear that he is accepted."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        has_proved = False

        async def answer() -> None:
            while not has_proved and (data := await far_reader.read(4_096)):
                if not has_proved:
                    writer.write(data)

        answering = asyncio.create_task(answer())
        try:
            far_writer.write(await reader.read(4_096))  # CONNECT; what proves him is the next
            while data := await reader.read(4_096):
                has_proved = True
                far_writer.write(data)
        finally:
            answering.cancel()
            far_writer.close()
            writer.close()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_gateway_without_configuration_dials_back_who_dialled_it(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    with wire_to(a.port) as wire:
        await b.start(neighbours=[f"127.0.0.1:{wire.port}"])
        await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
        await until(lambda: dialling(a)["found"] == 1)
        # The one that has the address can't dial any more; the link breaks.
        wire.to = free_port()
        for link in list(b.process.parts.node.links.values()):
            link.close()
        await until(lambda: not a.links)
        await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
    (link,) = b.process.parts.node.links.values()
    assert link.dialler_id == "gw-a"


async def test_a_neighbour_that_ends_its_link_itself_is_not_dialled_back(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    calm = {"hello_s": 1.0}  # a link that breaks by itself would be dialled back
    await a.start(**calm)
    await b.start(neighbours=[f"127.0.0.1:{a.port}"], **calm)
    await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
    await until(lambda: dialling(a)["found"] == 1)
    b.write(neighbours=[], **calm)
    await b.process.reload()
    await until(lambda: not a.links and not b.links)
    await until(lambda: dialling(a)["found"] == 0)


async def test_a_neighbour_that_gives_up_while_it_dials_is_not_dialled_back(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    async with way_without_the_last_word(a.port) as port:
        await b.start(neighbours=[f"127.0.0.1:{port}"])
        await until(lambda: a.links == {"gw-b"} and dialling(a)["found"] == 1)
        assert not b.links
        b.write(neighbours=[])
        await b.process.reload()
        await until(lambda: dialling(a)["found"] == 0 and not a.links)


async def test_a_neighbour_that_has_dialled_in_itself_is_shown_as_linked_at_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    a.plain_port, b.plain_port = free_port(), free_port()
    await a.start()
    # The next attempt is a long time away, as after many that have failed.
    monkeypatch.setattr(module, "FIRST_RETRY_S", 1_000.0)
    monkeypatch.setattr(module, "LAST_RETRY_S", 1_000.0)
    a.write(neighbours=[f"127.0.0.1:{b.plain_port}"])
    await a.process.reload()
    await until(lambda: dialling(a)["failed"] == 1)
    await b.start(neighbours=[f"127.0.0.1:{a.plain_port}"])
    await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
    (told,) = a.process.status()["dialling"]["addresses"]
    assert (told["linked"], told["why"]) == (True, "")
    await b.stop()
    await until(lambda: not a.links)
    (told,) = a.process.status()["dialling"]["addresses"]
    assert not told["linked"]


async def test_a_gateway_that_has_itself_for_a_neighbour_counts_it_and_goes_on(
    fleet: Fleet,
) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    await b.start()
    a.write(neighbours=[f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"])
    await a.process.reload()
    await until(lambda: a.links == {"gw-b"} and dialling(a)["itself"] == 1)


async def test_two_that_dial_each_other_keep_one_link(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a", tls=False), fleet.gateway("gw-b", tls=False)
    await a.start()
    await b.start()
    # By another name than the one that it announces: else who is dialled first knows that it is
    # linked to that address, and does not dial.
    for gateway, other in ((a, b), (b, a)):
        gateway.write(neighbours=[f"localhost:{other.port}"])
    await asyncio.gather(a.process.reload(), b.process.reload())
    await until(lambda: a.links == {"gw-b"} and b.links == {"gw-a"})
    await until(lambda: dialling(a)["duplicate_links"] + dialling(b)["duplicate_links"] > 0)
    await until(lambda: len(a.process.parts.node.links) == len(b.process.parts.node.links) == 1)
    (link,) = a.process.parts.node.links.values()
    (other,) = b.process.parts.node.links.values()
    assert link.dialler_id == other.dialler_id  # whose link was up first, or else the lower id


class Dialled:
    """Stands for links: each dial hangs until the test ends it."""

    def __init__(self) -> None:
        self.calls: list[Address] = []

    async def dial(self, address: Address, _: Callable[[str], None]) -> None:
        self.calls.append(address)
        await asyncio.get_running_loop().create_future()
        raise AssertionError


@pytest.mark.parametrize(
    ("add", "most"),
    [("add_discovered", module.MAX_FOUND), ("add_listed", module.MAX_LISTED)],
)
async def test_no_more_are_dialled_than_the_limit_says(add: str, most: int) -> None:
    dialled = Dialled()
    neighbours = Neighbours("gw-a", dialled.dial, lambda _: False, never_linked)
    for n in range(most + 3):
        getattr(neighbours, add)(TcpAddress("10.0.0.1", n + 1), f"gw-{n}")
    neighbours.add_static(TcpAddress("10.0.0.2", 1))
    async with asyncio.timeout(LIMIT_S):
        while len(dialled.calls) < most + 1:
            await asyncio.sleep(0.01)
    assert neighbours.counters.over_limit == 3
    assert len(set(dialled.calls)) == most + 1
    await neighbours.stop()


async def test_an_address_that_becomes_static_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GIVE_UP_S", -1.0)
    dialled = Dialled()
    neighbours = Neighbours("gw-a", dialled.dial, lambda _: False, never_linked)
    address = TcpAddress("10.0.0.1", 1)
    neighbours.add_discovered(address, "gw-b")
    neighbours.add_static(address)
    await asyncio.sleep(0)
    assert neighbours.status()["static"] == 1
    neighbours.remove_listed(address)
    neighbours.remove_met(address)
    assert neighbours.status()["static"] == 1
    neighbours.remove_static(address)
    neighbours.add_discovered(address, "gw-b")
    async with asyncio.timeout(LIMIT_S):
        while neighbours.counters.given_up == 0:
            await asyncio.sleep(0.01)
    await neighbours.stop()


class AtOnce(random.Random):
    """Draws no wait at all, and notes of what range."""

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[float, float]] = []

    def uniform(self, a: float, b: float) -> float:
        self.ranges.append((a, b))
        return 0.0


async def test_each_wait_between_two_attempts_is_drawn_from_half_of_it_to_as_much_more() -> None:
    jitter, attempts = AtOnce(), list[Address]()

    async def refuses(address: Address, _: Callable[[str], None]) -> None:
        attempts.append(address)
        raise ConnectionRefusedError

    neighbours = Neighbours("gw-a", refuses, lambda _: False, never_linked, jitter=jitter)
    neighbours.add_static(TcpAddress("10.0.0.1", 1))
    async with asyncio.timeout(LIMIT_S):
        while len(attempts) < 5:
            await asyncio.sleep(0)
    await neighbours.stop()
    assert set(jitter.ranges) == {(0.5, 1.5)}


class LinkOfTheOther:
    """Stands for a link that the other gateway has dialled, until it ends."""

    def __init__(self) -> None:
        self.looks = 0
        self.ended = asyncio.Event()

    def is_linked(self, _: str) -> bool:
        self.looks += 1
        return not self.ended.is_set()

    async def ends(self, _: str) -> None:
        await self.ended.wait()


async def test_who_has_a_link_is_not_looked_at_again_and_again_but_dialled_when_it_ends() -> None:
    dialled, link = Dialled(), LinkOfTheOther()
    neighbours = Neighbours("gw-a", dialled.dial, link.is_linked, link.ends, jitter=AtOnce())
    address = TcpAddress("10.0.0.1", 1)
    neighbours.add_listed(address, "gw-b")
    await turns(50)
    assert link.looks == 1
    assert not dialled.calls
    link.ended.set()
    await turns(50)
    assert dialled.calls == [address]
    await neighbours.stop()


async def test_who_is_listed_no_more_while_it_has_a_link_is_forgotten() -> None:
    dialled, link = Dialled(), LinkOfTheOther()
    neighbours = Neighbours("gw-a", dialled.dial, link.is_linked, link.ends, jitter=AtOnce())
    neighbours.add_listed(TcpAddress("10.0.0.1", 1), "gw-b")
    await turns(50)
    neighbours.remove_listed(TcpAddress("10.0.0.1", 1))
    assert neighbours.status()["listed"] == 0
    link.ended.set()
    await turns(50)
    assert not dialled.calls
    await neighbours.stop()


async def test_a_neighbour_whose_link_lasted_for_long_is_not_given_up_when_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dialled, link = Dialled(), LinkOfTheOther()
    neighbours = Neighbours("gw-a", dialled.dial, link.is_linked, link.ends, jitter=AtOnce())
    loop = asyncio.get_running_loop()
    later_s = 0.0
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + later_s)
    link.ended.set()  # when it was found
    neighbours.add_discovered(address := TcpAddress("10.0.0.1", 1), "gw-b")
    link.ended.clear()
    await turns(50)
    later_s = module.GIVE_UP_S + 1
    link.ended.set()
    await turns(50)
    assert dialled.calls == [address]
    assert neighbours.counters.given_up == 0
    await neighbours.stop()
