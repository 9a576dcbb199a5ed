"""Shared subscriptions between gateways that run: who knows of whom, and what is handed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from fleet_gateway import Fleet, FleetGateway, until
from memory_link import lone_node
from mqtt_peer import Peer
from unreadable_files import Unopened

from gateway.log.errors import LogError
from gateway.log.message_log import MessageLog
from gateway.mqtt import PubAck, Publish
from gateway.node.links.groups_part import FILE_NAME, GroupsPart
from tree_handler import batch
from tree_handler.batch import MAX_FRAME_BYTES, Entry, Flags, Header
from tree_handler.routing.locator import ReachUpdate
from tree_handler.sharing.claims import ONLINE, TOPIC, Claims

JOBS = ("workers", "jobs/#")
FILTER = "$share/workers/jobs/#"
SMALL_LOG = "[log]\nsegment_bytes = 4096\nmax_bytes = 16384\n"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    one = Fleet(tmp_path)
    yield one
    await one.stop()


async def line(fleet: Fleet, **shared_by: str) -> list[FleetGateway]:
    """Gateways in a line, which all reach each other."""
    found: list[FleetGateway] = []
    for name, shared in shared_by.items():
        one = fleet.gateway(name, tls=False)
        neighbours = [f"127.0.0.1:{found[-1].port}"] if found else []
        await one.start(neighbours=neighbours, shared_subscriptions=shared)
        found.append(one)
    for one in found:
        await until(lambda one=one: len(one.process.parts.node.locator.reached) == len(found) - 1)
    return found


async def client(one: FleetGateway, name: str, *, subscribes: bool = False) -> Peer:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", one.process.mqtt_port), 5)
    assert await peer.connect(name) == 0
    if subscribes:
        assert await peer.subscribe(FILTER) == 1
    return peer


async def takes(peer: Peer) -> bytes:
    packet = await peer.next()
    assert isinstance(packet, Publish)
    peer.send(PubAck(packet.packet_id))
    return packet.payload


def knows(one: FleetGateway, other: str) -> bool:
    return any(
        record.gateway_id == other and JOBS in record.groups
        for record in one.process.parts.groups.groups
    )


async def test_each_message_goes_to_one_member_in_the_fleet_near_ones_first_and_to_who_is_left(
    fleet: Fleet,
) -> None:
    a, b, c = await line(fleet, a="fleet", b="fleet", c="fleet")
    at_c, writer = await client(c, "m", subscribes=True), await client(a, "w")
    await until(lambda: knows(a, "c"))
    assert await writer.publish("jobs/1", b"far") == 0
    assert await takes(at_c) == b"far"
    at_b = await client(b, "m", subscribes=True)
    await until(lambda: knows(a, "b"))
    assert await writer.publish("jobs/1", b"near") == 0  # b is linked to a
    assert await takes(at_b) == b"near"
    at_a = await client(a, "m", subscribes=True)
    assert await writer.publish("jobs/1", b"own") == 0
    assert await takes(at_a) == b"own"
    for peer in (at_a, at_b, at_c):
        await peer.nothing_came()
    at_a.close()
    await until(lambda: a.process.status()["mqtt_clients"] == 1)  # who writes
    await c.stop()
    await until(lambda: a.process.parts.node.locator.reached == {"b"})
    assert await writer.publish("jobs/1", b"left") == 0
    assert await takes(at_b) == b"left"


async def test_of_who_lost_its_disk_and_drew_an_earlier_epoch_the_members_that_are_there_count(
    fleet: Fleet,
) -> None:
    (a,) = await line(fleet, a="fleet")
    part, locator = a.process.parts.groups, a.process.parts.node.locator
    for record in (
        Claims("b", 500, 1, True, {JOBS: ONLINE}),  # of a life that no log knows
        Claims("b", 20, 1, True, {("others", "jobs/#"): ONLINE}),
    ):
        header = Header("b", record.epoch, 1, 1, Flags.CONTROL, 0, 0, 0)
        part.control(Entry(TOPIC + "b", record.encode(), 1), header)
    assert part.groups.matching("jobs/1") == (JOBS,)
    locator.locator.forwards([1])
    locator.receive(1, b"", ReachUpdate(True, {"b": 20}).encode(), 0.0)
    assert part.groups.matching("jobs/1") == (("others", "jobs/#"),)


async def test_a_gateway_that_is_set_so_serves_its_own_members_and_others_those_of_theirs(
    fleet: Fleet,
) -> None:
    a, b, c = await line(fleet, a="fleet", b="gateway", c="fleet")
    at_b, at_c = await client(b, "m", subscribes=True), await client(c, "m", subscribes=True)
    await until(lambda: knows(a, "c"))
    assert not knows(a, "b")
    assert not a.process.parts.groups.groups.decides("b")
    for number, one in enumerate((a, b, c)):
        writer = await client(one, "w")
        assert await writer.publish("jobs/1", b"%d" % number) == 0
        writer.close()
    assert [await takes(at_b) for _ in range(3)] == [b"0", b"1", b"2"]
    assert [await takes(at_c) for _ in range(3)] == [b"0", b"1", b"2"]
    await at_b.nothing_came()
    await at_c.nothing_came()


async def test_a_message_goes_on_to_another_gateway_where_its_holder_has_no_member_any_more(
    fleet: Fleet,
) -> None:
    a, b, c = await line(fleet, a="fleet", b="fleet", c="fleet")
    at_b, at_c = await client(b, "m", subscribes=True), await client(c, "m", subscribes=True)
    await until(lambda: knows(a, "b") and knows(a, "c") and knows(b, "c"))
    b.process.parts.groups._is_ready = False  # so that a does not hear that the member has left
    at_b.close()
    await until(lambda: b.process.status()["mqtt_clients"] == 0)
    writer = await client(a, "w")
    assert await writer.publish("jobs/1", b"on") == 0
    assert await takes(at_c) == b"on"
    assert b.process.parts.groups.counters == {"handed_on": 1}
    assert c.process.parts.groups.counters == {"taken_over": 1}
    told = c.process.status()["shared_subscriptions"]
    assert told["gateways"]["b"]["decides"] is True
    c.process.parts.groups._is_ready = False
    at_c.close()
    await until(lambda: c.process.status()["mqtt_clients"] == 0)
    assert await writer.publish("jobs/1", b"to and fro") == 0
    await until(lambda: b.process.parts.groups.counters["without_member"] == 1)


@pytest.mark.parametrize("rule", ["fleet", "gateway"])
async def test_what_the_last_member_of_a_gateway_leaves_goes_to_one_elsewhere_also_after_a_restart(
    fleet: Fleet, rule: str
) -> None:
    a, b = await line(fleet, a=rule, b="fleet")
    at_a = Peer(*await asyncio.open_connection("127.0.0.1", a.process.mqtt_port), 5)
    assert await at_a.connect("m", clean_start=False, properties={0x11: 3_600}) == 0
    assert await at_a.subscribe(FILTER) == 1
    at_a.close()
    writer = await client(a, "w")
    expected = [b"%d" % n for n in range(10)]
    for payload in expected:
        assert await writer.publish("jobs/1", payload) == 0
    writer.close()
    at_b = await client(b, "m", subscribes=True)
    await until(lambda: knows(a, "b") or rule == "gateway")
    await a.stop()
    await a.start(neighbours=[f"127.0.0.1:{b.port}"], shared_subscriptions=rule)
    core = a.process.parts.broker.core
    core.sessions.end(core.sessions.get("m"))
    if rule == "fleet":
        assert [await takes(at_b) for _ in expected] == expected
    await at_b.nothing_came()


async def test_what_a_stop_takes_from_the_last_member_of_a_gateway_goes_to_one_elsewhere(
    fleet: Fleet,
) -> None:
    a, b = await line(fleet, a="fleet", b="fleet")
    at_a, writer = await client(a, "m", subscribes=True), await client(a, "w")
    expected = [b"%d" % n for n in range(30)]
    for payload in expected:
        assert await writer.publish("jobs/1", payload) == 0
    at_b = await client(b, "m", subscribes=True)
    await until(lambda: knows(a, "b"))
    await a.stop()
    at_a.close()
    await a.start(neighbours=[f"127.0.0.1:{b.port}"], shared_subscriptions="fleet")
    assert [await takes(at_b) for _ in expected] == expected
    await at_b.nothing_came()


async def test_who_is_there_stands_in_the_log_however_much_is_published_and_in_a_file(
    tmp_path: Path, fleet: Fleet
) -> None:
    one = fleet.gateway("gw", tls=False)
    one.access = SMALL_LOG
    await one.start()
    part: GroupsPart = one.process.parts.groups
    part.groups.update(Claims("other", 1, 1, groups={JOBS: ONLINE}))
    peer = await client(one, "m", subscribes=True)
    log = one.process.parts.node.log
    await until(lambda: any(JOBS in record.groups for record in records(log)))
    before = max(record.version for record in records(log))
    for _ in range(60):
        assert await peer.publish("x", bytes(800)) == 0
    await until(lambda: any(record.version > before for record in records(log)))
    await until((one.folder / "state" / FILE_NAME).exists)
    await one.stop()
    await one.start()
    assert knows(one, "other")


async def until_trimmed(one: FleetGateway) -> None:
    """Publish until the log has dropped its oldest, and who keeps a file beside it has heard."""
    trimmed = asyncio.Event()
    one.process.parts.node.exchange.tell_of_trims(lambda _: trimmed.set())
    writer = await client(one, "fills")
    while not trimmed.is_set():
        assert await writer.publish("x", bytes(800)) == 0
    writer.close()


def records(log: MessageLog) -> list[Claims]:
    """Those that the log still holds."""
    return [
        Claims.decode(entry.payload)
        for frame, header in log.read_from(0)
        if header.control and header.logged
        for entry in batch.decode(frame, header)
        if entry.topic.startswith(TOPIC)
    ]


async def test_who_stands_in_a_file_that_a_start_could_not_read_is_known_as_soon_as_it_can_be(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fleet.gateway("gw", tls=False)
    one.access = SMALL_LOG
    await one.start()
    one.process.parts.groups.groups.update(Claims("other", 1, 1, groups={JOBS: ONLINE}))
    await until_trimmed(one)
    await one.stop()
    unopened = Unopened(monkeypatch, FILE_NAME)
    await one.start()
    assert not knows(one, "other")
    await until_trimmed(one)
    unopened.end()
    await until(lambda: knows(one, "other"))


async def test_one_bad_record_in_the_file_costs_that_record(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    one = fleet.gateway("gw", tls=False)
    one.access = SMALL_LOG
    await one.start()
    groups = one.process.parts.groups.groups
    groups.update(Claims("good", 1, 1))
    groups.update(Claims("Bad", 1, 1))
    await until_trimmed(one)
    await one.stop()
    await one.start()
    assert [record.gateway_id for record in one.process.parts.groups.groups] == ["good"]
    assert "a record is left out: shared subscriptions gateway_id" in caplog.text


async def test_a_topic_that_stays_on_its_gateway_names_nobody_elsewhere(fleet: Fleet) -> None:
    (one,) = await line(fleet, gw="fleet")
    part = one.process.parts.groups
    part.groups.update(Claims("other", 1, 1, groups={("g", "#"): ONLINE}))
    part.groups.moved(frozenset({"other"}))
    assert part.choose("a", 0, {}) == (("g", "#", "other"),)
    await one.stop()
    await one.start(keep_local=["a"])
    part = one.process.parts.groups
    part.groups.update(Claims("other", 1, 1, groups={("g", "#"): ONLINE}))
    part.groups.moved(frozenset({"other"}))
    assert part.choose("a", 0, {}) == part.matching("a") == ()
    assert part.choose("b", 0, {}) == (("g", "#", "other"),)
    part.hand_on(Entry("a", b"x", 1), (("g", "#", "gw"),), [])


async def test_a_message_that_no_batch_has_room_for_once_it_is_handed_on_is_counted(
    fleet: Fleet,
) -> None:
    (one,) = await line(fleet, gw="fleet")
    part = one.process.parts.groups
    part.groups.update(Claims("other", 1, 1, groups={("g", "#"): ONLINE}))
    part.groups.moved(frozenset({"other"}))
    assert not part.leave(Entry("a", bytes(MAX_FRAME_BYTES - 100), 1), ("g", "#"), 1)
    part.hand_on(Entry("a", bytes(MAX_FRAME_BYTES - 100), 1), (("g", "#", "gw"),), [])
    assert part.leave(Entry("a", bytes(1 << 20), 1), ("g", "#"), 1)
    assert part.counters == {"handed_on": 1, "refused_by_log": 2}


def claimed(log: MessageLog) -> list[Claims]:
    """Return the records of shared subscriptions that a log has."""
    return [
        Claims.decode(entry.payload)
        for frame, header in log.control()
        for entry in batch.decode(frame, header)
        if entry.topic.startswith(TOPIC)
    ]


async def test_members_here_are_told_of_once_and_again_if_the_log_has_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog(tmp_path / "log")
    log.open()
    node = lone_node(log)
    part = GroupsPart(node, tmp_path, decides=True, place_of=lambda _: None)
    part.begin(lambda filters: None, lambda *_: False, lambda *_: True)

    async def told_at(now: float) -> int:
        """Return how many records are in the log when it has taken all that is told then."""
        part.handle_timer(now)
        kept = node.publish(Entry("a/b", b"behind it", qos=1))
        assert kept is not None
        with suppress(LogError):
            await kept
        return len(claimed(log))

    part.changed(JOBS, ONLINE)
    with monkeypatch.context() as patched:
        patched.setattr(log, "append", Mock(side_effect=LogError("full")))
        assert await told_at(10.0) == 0
    assert await told_at(20.0) == 1
    assert await told_at(30.0) == 1
    part.changed(JOBS, 0)
    assert await told_at(40.0) == 2
    assert [record.groups for record in claimed(log)] == [{JOBS: ONLINE}, {}]
    await node.stop()
    log.close()
