"""Goal: whatever becomes of a file of the log, what is lost equals what is told; beside a whole
neighbour nothing is lost, and a client that was away has everything once and in order.

Method: a gateway and its neighbour have both published to a client of the first that is away. Its
state folder is kept as a kill and as a stop leave it. Each file of the log is then damaged in each
way, and the gateway is started over it in this process, alone or with the neighbour; the client
comes back. CI draws some of these, `--soak` has all.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import by_seed
import pytest
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer
from state_copies import copy_of_running

from gateway.broker.limits import NO_LONGER_LOGGED
from gateway.mqtt import PingReq, PingResp, PubAck, Publish
from gateway.node.links import settings as node_settings
from tree_handler.replication.repairing import RepairSettings

COUNT = 60
SIZE = 600
PAGE = 4_096
DRAWN = 12
LIMIT_S = 60

Damage = Callable[[Path], object]


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _zero_page(path: Path) -> None:
    data = path.read_bytes()
    begin = len(data) // 2 // PAGE * PAGE
    path.write_bytes(data[:begin] + bytes(min(PAGE, len(data) - begin)) + data[begin + PAGE :])


DAMAGE: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3 - 7]),
    "one bit": _flipped,
    "zero page": _zero_page,
    "other version": lambda path: path.write_bytes(b"HB\x63" + path.read_bytes()[3:]),
    "foreign": lambda path: path.write_bytes(b"# vim: set ft=ini :\n[remote]\nname = other\n"),
    "missing": Path.unlink,
}


def _segments(log: Path) -> list[Path]:
    return sorted(log.glob("*.log"))


FILES: dict[str, Callable[[Path], list[Path]]] = {
    "oldest segment": lambda log: _segments(log)[:1],
    "middle segment": lambda log: _segments(log)[2:3],
    "last sealed segment": lambda log: _segments(log)[-2:-1],
    "newest segment": lambda log: _segments(log)[-1:],
    "all segments": _segments,
    "oldest index": lambda log: sorted(log.glob("*.index"))[:1],
    "newest index": lambda log: sorted(log.glob("*.index"))[-1:],
    "all indexes": lambda log: sorted(log.glob("*.index")),
    "oldest segment and index": lambda log: sorted(log.glob(f"{_segments(log)[0].stem}.*")),
    "inner": lambda log: [log / "inner"],
    "trimmed": lambda log: [log / "trimmed"],
    "all files": lambda log: [path for path in log.iterdir() if path.is_file()],
}
ENDS = ("killed", "stopped", "killed while it gave them out")
READ = 30
ALL = [*itertools.product(FILES, DAMAGE, ENDS)]
IN_BYTES = {"newest segment", "all segments", "all files"}
"""Nobody knows the numbers of what stood behind the last index: it is told in bytes. With it goes
what the client had acknowledged, which it may get again."""


@dataclass
class World:
    """Two gateways of one fleet, and what was published to a client of the first."""

    fleet: Fleet
    one: FleetGateway
    other: FleetGateway
    published: dict[str, list[str]]
    had: list[str]
    """Payloads that the client had acknowledged when the gateway was killed amid delivery."""
    mode: str

    def due(self, end: str) -> dict[str, list[str]]:
        """Return the payloads that the client still has to get, by gateway."""
        had = self.had if end == ENDS[2] else []
        rows = self.published.items()
        return {name: [one for one in published if one not in had] for name, published in rows}

    async def start(self, end: str, damage: Callable[[Path], None], *, alone: bool) -> None:
        """Start the gateway over what is left of its log."""
        for gateway in (self.one, self.other):
            state = gateway.folder / "state"
            shutil.rmtree(state, ignore_errors=True)
            shutil.copytree(gateway.folder / (end if gateway is self.one else "stopped"), state)
        damage(self.one.folder / "state" / "log")
        tree = {"mode": self.mode, "repair_interval_s": 0.1}
        await self.one.start(**tree)
        if not alone:
            await self.other.start(**tree, neighbours=[f"127.0.0.1:{self.one.port}"])

    async def stop(self) -> None:
        await self.one.stop()
        await self.other.stop()


async def _peer(gateway: FleetGateway, name: str, *, stays: bool = False) -> Peer:
    made = Peer(*await asyncio.open_connection("127.0.0.1", gateway.process.mqtt_port), 4)
    assert await made.connect(name, clean_start=not stays) == 0
    return made


async def _received(peer: Peer) -> list[str]:
    """Acknowledge and return all messages that come before the answer to a ping."""
    got = []
    peer.send(PingReq())
    while not isinstance(packet := await peer.next(), PingResp):
        got.append(_acknowledged(peer, packet))
    return got


async def _next(peer: Peer) -> str:
    return _acknowledged(peer, await peer.next())


def _acknowledged(peer: Peer, packet: Publish) -> str:
    assert isinstance(packet, Publish), packet
    peer.send(PubAck(packet.packet_id))
    return packet.payload.decode().rstrip(".")


async def _all_of(peer: Peer, is_all: Callable[[list[str]], object]) -> list[str]:
    got: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        while not is_all(got):
            more = await _received(peer)
            got += more
            if not more:
                await asyncio.sleep(0.01)
    return got + await _received(peer)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made once: each test starts over copies."""
    return asyncio.run(_filled(tmp_path_factory.mktemp("world"), "flood"))


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> World:
    """One in which messages go only to who wants them."""
    return asyncio.run(_filled(tmp_path_factory.mktemp("routed"), "routed"))


async def _filled(folder: Path, mode: str) -> World:
    fleet = Fleet(folder)
    one, other = (fleet.gateway(name, tls=False) for name in ("one", "other"))
    for gateway in (one, other):
        gateway.access = "\n[log]\nsegment_bytes = 16384\nmax_bytes = 1000000"
    await one.start(mode=mode)
    await other.start(mode=mode, neighbours=[f"127.0.0.1:{one.port}"])
    away = await _peer(one, "away", stays=True)
    await away.subscribe("t/#", 1)
    away.close()
    (session,) = (
        s for s in one.process.parts.broker.core.sessions.values() if s.client.client_id == "away"
    )
    await until(lambda: session.channel is None)  # else the first messages are sent to it
    await until(lambda: one.links and other.links)
    if (part := other.process.parts.routed) is not None:  # who wants what is known there
        await until(lambda: any(r.gateway_id == "one" and r.subscribes for r in part.interests))
    published: dict[str, list[str]] = {"one": [], "other": []}
    writers = {gateway.name: await _peer(gateway, "writer") for gateway in (one, other)}
    for number in range(COUNT):
        if number == COUNT // 2:
            checkpoints = one.process.parts.broker.core.checkpoints
            assert checkpoints is not None
            await checkpoints.checkpoint()
        for name, writer in writers.items():
            payload = f"{name} {number}"
            assert await writer.publish(f"t/{name}", payload.ljust(SIZE, ".").encode()) == 0
            published[name].append(payload)
    await until(lambda: session.outgoing.backlog.count == 2 * COUNT)
    copy_of_running(one.folder / "state", one.folder / "killed")
    for gateway in (one, other):
        await gateway.stop()
        shutil.copytree(gateway.folder / "state", gateway.folder / "stopped")
    await one.start(mode=mode)
    away = await _peer(one, "away", stays=True)
    had = [await _next(away) for _ in range(READ)]
    away.send(PingReq())
    while not isinstance(await away.next(), PingResp):
        pass  # what is on its way is not acknowledged
    copy_of_running(one.folder / "state", one.folder / ENDS[2])
    away.close()
    await one.stop()
    return World(fleet, one, other, published, had, mode)


@pytest.fixture
async def started(world: World) -> AsyncIterator[World]:
    yield world
    await world.stop()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "file" in metafunc.fixturenames:
        cases = by_seed.some(metafunc.config, ALL, DRAWN)
        rows = [pytest.param(*case, id=", ".join(case)) for case in cases]
        metafunc.parametrize(("file", "kind", "end"), rows)


def _harm(file: str, kind: str) -> Callable[[Path], None]:
    def do(log: Path) -> None:
        for path in FILES[file](log):
            DAMAGE[kind](path)

    return do


def _told(caplog: pytest.LogCaptureFixture, published: dict[str, list[str]]) -> set[str]:
    """Return the payloads under the numbers that the log reports as lost."""
    told: set[str] = set()
    for line in (one.getMessage() for one in caplog.records):
        if line.startswith("damage cost the log"):
            for origin, first, last in re.findall(r"(?<=[ ])(\w+)/\d+ (\d+)\.\.(\d+)", line):
                told |= set(published[origin][int(first) - 1 : int(last)])
    return told


def _is_settled(gateway: FleetGateway) -> bool:
    """Return whether no message waits for a client, and none is missing that is not given up."""
    process = gateway.process
    sessions = process.parts.broker.core.sessions.values()
    waits = any(one.outgoing.backlog.count or one.outgoing.inflight for one in sessions)
    have = process.parts.node.replication.have.values()
    return not waits and not any(numbers.missing(1, numbers.last) for numbers in have)


async def test_alone_what_is_lost_is_told(
    started: World,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    kind: str,
    end: str,
) -> None:
    # Whoever is alone for so long has no neighbour: a day, elsewhere.
    gives_up_soon = partial(RepairSettings, origin_gone_s=0.0)
    monkeypatch.setattr(node_settings, "RepairSettings", gives_up_soon)
    await started.start(end, _harm(file, kind), alone=True)
    away = await _peer(started.one, "away", stays=True)
    got = await _all_of(away, lambda _: _is_settled(started.one))
    away.close()
    told = _told(caplog, started.published)
    for name, due in started.due(end).items():
        has = [payload for payload in got if payload.startswith(name)]
        assert has == [one for one in started.published[name] if one in has], "in order, once"
        assert file in IN_BYTES or set(has) <= set(due)
        if not set(due) <= set(has):
            # A torn end may be what an append had left that was never acknowledged.
            least = logging.WARNING if file in IN_BYTES else logging.ERROR
            assert any(one.levelno >= least for one in caplog.records)
            assert file in IN_BYTES or set(due) <= {*has, *told}


async def test_beside_a_whole_neighbour_nothing_is_lost(
    started: World, caplog: pytest.LogCaptureFixture, file: str, kind: str, end: str
) -> None:
    await started.start(end, _harm(file, kind), alone=False)
    at_start = _told(caplog, started.published)
    await until(lambda: started.one.links)
    away = await _peer(started.one, "away", stays=True)
    due = started.due(end)
    got = await _all_of(away, lambda got: {one for some in due.values() for one in some} <= {*got})
    away.close()
    for name in due:
        has = [payload for payload in got if payload.startswith(name)]
        assert len(set(has)) == len(has), "once"
        # What a start knows to be lost is given when it comes, and what stands behind it before;
        # at QoS 1 to a client that had it, too.
        late = [payload for payload in has if payload not in at_start]
        assert file in IN_BYTES or late == [one for one in due[name] if one in late]


@pytest.mark.parametrize("where", ["oldest segment", "middle segment", "last sealed segment"])
@pytest.mark.parametrize("kind", ["one bit", "cut"])
async def test_what_is_damaged_while_the_gateway_runs_is_given_in_its_order_when_it_comes_back(
    started: World, where: str, kind: str
) -> None:
    await started.start("stopped", lambda _: None, alone=False)
    await until(lambda: started.one.links)
    _harm(where, kind)(started.one.folder / "state" / "log")
    away = await _peer(started.one, "away", stays=True)
    got = await _all_of(away, lambda got: len(got) >= 2 * COUNT)
    away.close()
    for name, published in started.published.items():
        assert [payload for payload in got if payload.startswith(name)] == published
    assert started.one.refusals(NO_LONGER_LOGGED) == 0


@pytest.mark.parametrize("end", ENDS[:1])
@pytest.mark.parametrize("where", ["oldest segment", "middle segment", "last sealed segment"])
@pytest.mark.parametrize("kind", ["missing", "one bit"])
async def test_where_messages_are_routed_own_ones_that_are_lost_are_told_and_hold_nothing_up(
    routed: World, caplog: pytest.LogCaptureFixture, where: str, kind: str, end: str
) -> None:
    """Those of others come from their origins."""
    try:
        await routed.start(end, _harm(where, kind), alone=False)
        await until(lambda: routed.one.links)
        away = await _peer(routed.one, "away", stays=True)
        due = {payload for published in routed.due(end).values() for payload in published}

        def is_all(got: list[str]) -> bool:
            lost = _told(caplog, routed.published) & set(routed.published["one"])
            return due <= {*got, *lost}

        got = await _all_of(away, is_all)
        away.close()
        assert len(set(got)) == len(got)
    finally:
        await routed.stop()
