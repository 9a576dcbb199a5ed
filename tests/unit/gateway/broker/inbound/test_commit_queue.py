"""Messages on their way into the log and out again, where one of them, or an answer, fails."""

from __future__ import annotations

import errno
import os

import pytest
from log_world import LogWorld, publish

from gateway.broker.durability.persistence import Persistence
from gateway.broker.outbound.message import Message
from gateway.broker.sessions.due_will import DueWill
from gateway.mqtt import PubAck, Publish, ReasonCode, Version, Will
from tree_handler.batch import Epoch

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
