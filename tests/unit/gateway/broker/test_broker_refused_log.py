"""Answers to clients when the log takes their messages late or not at all."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from log_world import LogWorld, publish
from loop_clock import Clock

from gateway.log.errors import PartlyTakenError
from gateway.log.message_log import LogError, MessageLog
from gateway.mqtt import PubAck, PubRec, ReasonCode, Version
from gateway.node.links.commit import AGAIN_INTERVAL_S, GroupCommit
from tree_handler import batch
from tree_handler.batch import MAX_BODY_BYTES, MAX_ENTRIES, Entry, Flags

V5 = Version.V5
FULL = LogError("disk full")
REFUSED = ReasonCode.QUOTA_EXCEEDED


async def held() -> tuple[LogWorld, int, int]:
    """A broker whose log takes its time, a publisher and a subscriber to all."""
    world = LogWorld()
    writer, reader = await world.client(V5), await world.client(V5, ("#", 2))
    world.holds = True
    return world, writer, reader


def incoming(world: LogWorld, number: int) -> set[int]:
    session = world.core.sessions.get(f"client-{number}")
    assert session is not None
    return set(session.incoming)


async def test_nobody_is_answered_or_served_before_the_log_has_it() -> None:
    world, writer, reader = await held()
    world.send(writer, publish(V5, "t", 1, 5) + publish(V5, "t", 2, 6))
    await world.turn()
    assert world.written(writer) == world.written(reader) == []
    world.settle()
    await world.turn()
    assert world.written(writer) == [PubAck(5), PubRec(6)]
    assert [packet.qos for packet in world.written(reader)] == [1, 2]
    world.core.stop()


async def test_a_refused_turn_is_neither_acknowledged_nor_delivered() -> None:
    world, writer, reader = await held()
    world.send(writer, publish(V5, "t", 1, 1) + publish(V5, "t", 2, 2))
    await world.turn()
    world.settle(FULL)
    await world.turn()
    assert world.written(writer) == [PubAck(1, REFUSED), PubRec(2, REFUSED)]
    assert (world.written(reader), incoming(world, writer)) == ([], set())
    world.core.stop()


async def test_a_client_of_3_1_1_whose_message_is_refused_is_disconnected() -> None:
    world = LogWorld()
    writer = await world.client(Version.V311)
    world.refusal = FULL
    world.send(writer, publish(Version.V311, "t", 1, 1))
    await world.turn()
    assert world.is_closing(writer)
    assert world.written(writer) == []
    world.core.stop()


async def test_qos_0_goes_on_when_it_was_to_be_retained_too() -> None:
    world, writer, reader = await held()
    before = publish(V5, "t", 1, 1, b"before", retain=True)
    world.send(writer, before + publish(V5, "t", 0, 0, b"zero", retain=True))
    await world.turn()
    assert world.written(reader) == []  # it waits for the one before on its topic
    world.settle(FULL)
    await world.turn()
    assert [packet.payload for packet in world.written(reader)] == [b"zero"]
    world.core.stop()


@pytest.mark.parametrize("error", [None, FULL], ids=["taken", "refused"])
async def test_a_message_that_comes_again_is_answered_as_its_first_coming(
    error: LogError | None,
) -> None:
    """The PUBLISH that comes beside it may fare otherwise: it is in another batch of the log."""
    world, writer, reader = await held()
    world.send(writer, publish(V5, "t", 2, 7))
    await world.turn()
    world.send(writer, publish(V5, "t", 2, 7) + publish(V5, "t", 1, 8))
    await world.turn()
    world.settle(error)
    world.settle(None if error else FULL)
    await world.turn()
    answer, other = (REFUSED, 0) if error else (0, REFUSED)
    assert world.written(writer) == [PubRec(7, answer), PubRec(7, answer), PubAck(8, other)]
    assert len(world.written(reader)) == 1
    world.core.stop()


async def test_a_refused_identifier_can_be_used_for_another_message() -> None:
    world, writer, reader = await held()
    for packets in (
        publish(V5, "t", 2, 7, b"refused"),
        publish(V5, "t", 1, 1),  # so that something waits for the log all the time
    ):
        world.send(writer, packets)
        await world.turn()
    world.settle(FULL)
    world.send(writer, publish(V5, "t", 2, 7, b"another"))
    await world.turn()
    world.send(writer, publish(V5, "t", 2, 7, b"another"))  # which comes again
    await world.turn()
    while world.handed_in:
        world.settle()
    await world.turn()
    assert world.written(writer) == [PubRec(7, REFUSED), PubAck(1), PubRec(7), PubRec(7)]
    assert [packet.payload for packet in world.written(reader)] == [b"x", b"another"]
    world.core.stop()


@pytest.mark.parametrize(
    ("count", "size"),
    [(MAX_ENTRIES + 1, 1), (3, MAX_BODY_BYTES // 2), (2, MAX_BODY_BYTES * 2)],
)
async def test_what_is_answered_alike_is_one_batch_of_the_log(count: int, size: int) -> None:
    """Else a part would be in the log and be refused nevertheless."""
    world = LogWorld(receive_maximum=2 * MAX_ENTRIES)
    writer = await world.client(V5)
    world.holds = True
    packets = [publish(V5, "t", 1, number, bytes(size)) for number in range(1, count + 1)]
    world.send(writer, b"".join(packets))
    world.core.commit_queue.commit()
    assert len(world.handed_in) > 1
    for rows, _ in world.handed_in:
        assert len(list(batch.cut(rows))) == 1
    assert sum(len(rows) for rows, _ in world.handed_in) == count
    world.settle()
    while world.handed_in:
        world.settle(FULL)
    await world.turn()
    answers = world.written(writer)
    assert [answer.packet_id for answer in answers] == list(range(1, count + 1))
    assert {answer.reason for answer in answers} == {0, REFUSED}
    world.core.stop()


async def test_a_publisher_is_not_read_from_while_too_much_waits_for_the_log() -> None:
    world = LogWorld(uncommitted_bytes=100)
    writer = await world.client(V5)
    world.holds = True
    world.send(writer, publish(V5, "t", 1, 1, bytes(101)))
    await world.turn()
    assert not world.is_read(writer)
    world.settle()
    await world.turn()
    assert world.is_read(writer)
    world.core.stop()


async def test_of_a_turn_taken_in_part_the_first_are_acknowledged_and_the_rest_refused() -> None:
    world, writer, reader = await held()
    at_qos = enumerate((1, 2, 1, 2), 1)
    sent = [publish(V5, "t", qos, number, b"%d" % number) for number, qos in at_qos]
    world.send(writer, b"".join(sent))
    await world.turn()
    rows, done = world.handed_in.popleft()
    assert done is not None
    world.logged += rows[:2]
    done(len(world.logged) - 1, PartlyTakenError(FULL, 2))
    await world.turn()
    told = {one.packet_id: one.reason for one in world.written(writer)}
    assert told == {1: 0, 2: 0, 3: REFUSED, 4: REFUSED}
    assert [one.payload for one in world.written(reader)] == [b"1", b"2"]
    assert incoming(world, writer) == {2}
    world.core.stop()


# -- group commit ----------------------------------------------------------------------------------


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[MessageLog]:
    made = MessageLog(tmp_path / "log")
    made.open()
    yield made
    made.close()


def frame(first: int) -> tuple[bytes, batch.Header]:
    made = batch.encode("gw", 1, first, [Entry("t", b"", 1)], flags=Flags.LOGGED, origin_time_us=0)
    return made, batch.check(made)


async def test_who_waits_while_a_sync_fails_is_refused_too(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed sync may have dropped their bytes, and the kernel tells of a failure only once."""
    told: list[tuple[str, OSError | None]] = []
    commit = GroupCommit(log, sync=True)

    def tell(name: str) -> Callable[[OSError | None], None]:
        return lambda error: told.append((name, error))

    loop = asyncio.get_running_loop()
    syncing, failing = asyncio.Event(), asyncio.Event()

    def sync() -> None:
        loop.call_soon_threadsafe(syncing.set)
        asyncio.run_coroutine_threadsafe(failing.wait(), loop).result(60)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(log, "start_sync", lambda: sync)
        commit.append(*frame(1))
        commit.settle([tell("first")])
        await syncing.wait()
        commit.append(*frame(2))
        commit.settle([tell("meanwhile")])
        failing.set()
        await commit.drain()
    assert [(name, type(error)) for name, error in told] == [
        ("first", OSError),
        ("meanwhile", OSError),
    ]
    told.clear()
    commit.append(*frame(3))
    commit.settle([tell("later")])
    await commit.drain()
    assert told == [("later", None)]


async def test_a_full_disk_is_counted_and_named_once_a_second_at_most(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    commit = GroupCommit(log, sync=False)

    def full(*_: object) -> None:
        raise LogError("state/log: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", full)
        for _ in range(100):
            assert commit.append(*frame(1)) is not None
    assert commit.refusals.counts["batch refused by the log"] == 100
    assert len(caplog.records) <= 2
    assert "No space left" in caplog.text
    caplog.clear()
    assert commit.append(*frame(1)) is None
    assert [record.getMessage() for record in caplog.records] == ["the log takes batches again"]


async def test_on_a_disk_that_is_nearly_full_the_log_that_takes_again_is_said_rarely(
    log: MessageLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, loop = Clock(), asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", clock.time)
    monkeypatch.setattr(loop, "call_later", clock.call_later)
    commit = GroupCommit(log, sync=False)
    append = log.append

    def full(*_: object) -> None:
        raise LogError("state/log: No space left on device")

    def said() -> int:
        return [one.getMessage() for one in caplog.records].count("the log takes batches again")

    for number in range(1, 51):
        monkeypatch.setattr(log, "append", full)
        assert commit.append(*frame(number)) is not None
        monkeypatch.setattr(log, "append", append)
        assert commit.append(*frame(number)) is None
    assert said() == 1
    # The last word of the log is how it is.
    clock.pass_s(AGAIN_INTERVAL_S - 0.1)
    assert said() == 1
    clock.pass_s(0.1)
    assert said() == 2
    await commit.drain()
    assert commit.append(*frame(51)) is None
    assert said() == 2
