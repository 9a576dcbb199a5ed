"""Retained messages between neighbours: what one is told of, and what is taken of what it tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from log_world import LogWorld, publish

from gateway.broker.durability.persistence import Persistence
from gateway.mqtt import Version
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained

OTHER = ("other", 3)


def told(topic: str, stamp: int = 5, payload: bytes = b"x") -> Retained:
    return Retained(topic, RetainedVersion(stamp, 0, *OTHER), 4, 1, payload, {3: "text"}, None)


async def test_a_deletion_is_told_of_when_the_log_has_it() -> None:
    """It may still refuse it, and then the message stays."""
    world = LogWorld(durability=Persistence(("gw", 1)))
    number = await world.client(Version.V5)
    world.send(number, publish(Version.V5, "t", 1, 1, b"x", retain=True))
    await world.turn()
    shared = world.core.shared_retention
    message = shared.told("t", 0.0)
    assert message is not None
    assert (message.payload, message.number, message.dead_s) == (b"x", 1, None)
    world.holds = True
    world.send(number, publish(Version.V5, "t", 0, 0, b"", retain=True))
    await world.turn()
    assert world.core.retention.get("t") is None
    assert shared.told("t", 0.0) is None
    world.now_s = 30.0
    world.settle()
    await world.turn()
    deletion = shared.told("t", 0.0)
    assert deletion is not None
    assert (deletion.payload, deletion.number, deletion.qos, deletion.dead_s) == (b"", 2, 0, 30.0)


async def test_what_no_packet_can_carry_is_not_taken_from_a_neighbour() -> None:
    world = LogWorld()
    shared = world.core.shared_retention
    assert not shared.learn(told("bad/#"), 0.0, is_news=True)
    assert world.core.refusals.counts == {"retained message of a neighbour": 1}
    assert shared.learn(told("good"), 0.0, is_news=True)
    kept = world.core.retention.get("good")
    assert kept is not None
    assert (kept.payload, kept.qos, kept.ref) == (b"x", 1, (OTHER, 4))


async def test_nothing_is_taken_from_a_neighbour_while_the_log_does_not_note_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = LogWorld()
    reader = await world.client(Version.V5, ("t", 1))
    shared = world.core.shared_retention
    with monkeypatch.context() as patched:
        patched.setattr(Persistence, "is_refused", True)
        assert not shared.learn(told("t"), 0.0, is_news=True)
    await world.turn()
    assert (world.core.retention.get("t"), world.written(reader)) == (None, [])
    assert shared.learn(told("t"), 0.0, is_news=True)
    await world.turn()
    assert [one.payload for one in world.written(reader)] == [b"x"]


async def test_of_two_versions_a_neighbour_tells_the_older_is_not_taken() -> None:
    shared = LogWorld().core.shared_retention
    assert shared.learn(told("t", 5, b"new"), 0.0, is_news=False)
    assert not shared.learn(told("t", 4, b"old"), 0.0, is_news=False)
    found = shared.told("t", 0.0)
    assert found == told("t", 5, b"new")


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_what_a_neighbour_told_is_kept_sent_and_told_on_at_its_own_qos(qos: int) -> None:
    world = LogWorld()
    reader = await world.client(Version.V5, ("t", 2))
    shared = world.core.shared_retention
    news = replace(told("t"), qos=qos)
    assert shared.learn(news, 0.0, is_news=True)
    await world.turn()
    assert [(one.payload, one.qos) for one in world.written(reader)] == [(b"x", qos)]
    assert shared.told("t", 0.0) == news
