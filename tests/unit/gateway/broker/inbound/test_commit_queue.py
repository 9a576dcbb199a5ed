"""Messages on their way into the log and out again, where one of them, or an answer, fails."""

from __future__ import annotations

import errno
import os

import pytest
from log_world import LogWorld, publish

from gateway.broker.durability.persistence import Persistence
from gateway.broker.outbound.message import OVERHEAD_BYTES, Message
from gateway.broker.sessions.due_will import DueWill
from gateway.mqtt import PubAck, Publish, PubRec, ReasonCode, Version, Will
from tree_handler.batch import MAX_ENTRIES, Epoch

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
V5 = Version.V5


async def test_a_log_that_answers_twice_is_heard_once() -> None:
    world = LogWorld()
    world.holds = True
    number = await world.client(V5, ("t", 0))
    world.send(number, publish(V5, "t", 1, 7))
    await world.turn()
    _, done = world.handed_in[0]
    assert done is not None
    world.settle()
    done(1, None)
    done(0, FULL)
    await world.turn()
    found = world.written(number)
    assert [type(packet) for packet in found] == [Publish, PubAck]
    assert found[1] == PubAck(7)
    assert world.core.commit_queue.waiting_bytes == 0


async def test_what_cannot_be_noted_of_one_turn_keeps_no_later_one_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(_: Persistence, stream: Epoch, last: int) -> None:
        raise RuntimeError(f"{last} of {stream[0]}")

    world = LogWorld(durability=Persistence(("gw", 3)))
    number = await world.client(V5)
    with monkeypatch.context() as patched:
        patched.setattr(Persistence, "has_delivered", failing)
        world.send(number, publish(V5, "t", 1, 7))
        await world.turn()
    world.send(number, publish(V5, "t", 1, 8))
    await world.turn()
    assert world.written(number) == [PubAck(7), PubAck(8)]
    assert world.core.refusals.counts == {"set aside: answers to what the log has": 1}
    assert world.core.commit_queue.waiting_bytes == 0


async def test_one_that_cannot_be_refused_keeps_nobody_else_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(due: DueWill) -> None:
        raise RuntimeError(due.client_id)

    world = LogWorld()
    world.refusal = FULL
    number = await world.client(V5)
    will = DueWill("gone", Will("wills/gone", b"x", 1), None, failing)
    world.core.commit_queue.publish_own(Message("wills/gone", b"wills/gone", b"x", 1, False), will)
    world.send(number, publish(V5, "t", 1, 7))
    await world.turn()
    assert world.written(number) == [PubAck(7, ReasonCode.QUOTA_EXCEEDED)]
    assert world.core.refusals.counts == {"set aside: message that the log refused": 1}
    assert "wills/gone: RuntimeError: gone" in caplog.text


async def test_a_message_of_the_gateways_own_that_the_log_refuses_is_told() -> None:
    world = LogWorld()
    world.refusal = FULL
    number = await world.client(V5, ("own/#", 1))
    for qos in (0, 1):
        topic = f"own/{qos}"
        message = Message(topic, topic.encode(), b"x", qos, True)
        world.core.commit_queue.publish_own(message)
    await world.turn()
    assert [(one.topic, one.qos) for one in world.written(number)] == [("own/0", 0)]
    assert world.core.refusals.counts == {"set aside: message of the gateway's own": 1}
    assert world.core.retention.get("own/1") is None


async def test_a_turn_that_fails_knows_what_is_due_whether_it_is_logged_or_not() -> None:
    world = LogWorld({"carries_unlogged": lambda: True})
    queue = world.core.commit_queue
    for qos in (0, 1):
        queue.publish_own(Message("own", b"own", b"x", qos, False))
        assert queue.is_due, qos
        await world.turn()
        assert not queue.is_due, qos


async def test_what_waits_for_the_log_counts_with_its_overhead_until_it_is_delivered() -> None:
    world = LogWorld()
    world.holds = True
    number = await world.client(V5)
    queue = world.core.commit_queue
    world.send(number, publish(V5, "t", 1, 7, b"12345") + publish(V5, "t", 2, 8, b"123"))
    await world.turn()
    assert queue.waiting_bytes == 2 * OVERHEAD_BYTES + 8
    world.send(number, publish(V5, "t", 1, 9, b"1"))
    await world.turn()
    assert queue.waiting_bytes == 3 * OVERHEAD_BYTES + 9
    world.settle()
    await world.turn()
    assert queue.waiting_bytes == OVERHEAD_BYTES + 1
    world.settle(FULL)
    await world.turn()
    assert (queue.waiting_bytes, queue.is_due) == (0, False)


@pytest.mark.parametrize("how", ["of a client", "of the gateway's own", "retained, of QoS 0"])
async def test_the_delay_of_answers_is_measured_for_a_while_since_somebody_asked(how: str) -> None:
    world = LogWorld()
    world.now_s = 100.0
    world.holds = True
    number = await world.client(V5)
    queue = world.core.commit_queue

    async def one() -> None:
        if how == "of a client":
            world.send(number, publish(V5, "t", 1, 7))
        elif how == "of the gateway's own":
            queue.publish_own(Message("t", b"t", b"x", 1, False))
        else:
            world.send(number, publish(V5, "t", 0, 0, retain=True))
        await world.turn()
        world.now_s += 2.0
        world.settle()
        await world.turn()
        world.send(number, b"\x62\x02\0\x07")  # PUBREL of nothing: whatever comes between

    await one()
    before = queue.delays.as_json(world.now_s)
    assert (before["sum_s"], sum(before["counts"])) == (0.0, 0)
    await one()
    await one()
    after = queue.delays.as_json(world.now_s)
    assert (after["sum_s"], sum(after["counts"])) == (4.0, 2)
    world.now_s += 10_000.0
    await one()  # the last that is measured, for nobody has asked since
    await one()
    assert queue.delays.as_json(world.now_s)["sum_s"] == 6.0


async def test_what_the_log_takes_as_several_batches_is_answered_in_order() -> None:
    world = LogWorld(receive_maximum=2 * MAX_ENTRIES)
    number = await world.client(V5)
    count = MAX_ENTRIES + 1
    world.holds = True
    world.send(number, b"".join(publish(V5, "t", 1, at, b"") for at in range(1, count + 1)))
    while len(world.handed_in) < 2:
        await world.turn()
    sizes = [len(rows) for rows, _ in world.handed_in]
    assert sum(sizes) == count
    assert max(sizes) <= MAX_ENTRIES
    while world.handed_in:
        world.settle()
    while len(world.written(number)) < count:
        await world.turn()
    assert world.written(number) == [PubAck(at) for at in range(1, count + 1)]


@pytest.mark.parametrize("error", [None, FULL], ids=["taken", "refused"])
async def test_a_retained_message_of_qos_0_waits_for_those_of_its_topic_and_for_no_others(
    error: OSError | None,
) -> None:
    world = LogWorld()
    writer, reader = await world.client(V5), await world.client(V5, ("#", 0))
    world.holds = True

    def zero(topic: str) -> bytes:
        return publish(V5, topic, 0, 0, b"zero", retain=True)

    async def got() -> list[str]:
        await world.turn()
        found = [one.topic for one in world.written(reader) if one.payload == b"zero"]
        world.clients[reader][1].written.clear()
        return found

    first = publish(V5, "a", 1, 1, b"1", retain=True) + publish(V5, "a", 1, 2, b"2", retain=True)
    world.send(writer, first)
    await world.turn()
    world.send(writer, zero("a") + zero("b") + publish(V5, "c", 1, 3, b"not retained") + zero("c"))
    assert await got() == ["b", "c"]
    world.settle(error)
    assert await got() == []
    world.settle()
    assert await got() == ["a"]
    world.send(writer, zero("a"))
    assert await got() == ["a"], "nothing of its topic waits any more"


@pytest.mark.parametrize("fails", ["what must precede", "the tree"])
async def test_whoever_waits_is_told_where_nothing_could_be_handed_in(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object) -> OSError:
        return FULL

    def broken(*_: object) -> None:
        raise RuntimeError("no tree")

    world = LogWorld()
    number = await world.client(V5, ("t", 1))
    with monkeypatch.context() as patched:
        if fails == "the tree":
            patched.setattr(LogWorld, "settle", broken)
        else:
            patched.setattr(Persistence, "precede", refusing)
        world.send(number, publish(V5, "t", 1, 7) + publish(V5, "t", 2, 8))
        await world.turn()
    assert world.written(number) == [
        PubAck(7, ReasonCode.QUOTA_EXCEEDED),
        PubRec(8, ReasonCode.QUOTA_EXCEEDED),
    ]
    kind = "set aside: commit of what a turn accepted"
    assert world.core.refusals.counts == ({kind: 1} if fails == "the tree" else {})
    assert (world.logged, world.core.commit_queue.waiting_bytes) == ([], 0)


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_comes_while_the_tree_gets_qos_0_is_handed_in_with_the_next_turn(
    qos: int,
) -> None:
    told = [Message("told", b"told", b"of it", qos, False)]
    is_telling = False

    def carries() -> bool:
        if is_telling and told:
            world.core.commit_queue.publish_own(told.pop())
        return True

    world = LogWorld({"carries_unlogged": carries})
    number = await world.client(V5)
    is_telling = True
    world.send(number, publish(V5, "t", 0, 0, b"x"))
    await world.turn()
    assert told == []
    assert [row[0] for row in world.logged] == ["told"] * qos
    assert not world.core.commit_queue.is_due
