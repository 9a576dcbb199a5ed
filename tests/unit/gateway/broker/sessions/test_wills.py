"""Wills that the log refuses: which are kept, for how long, and which are given up."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any

import pytest
from log_world import LogWorld

from gateway.broker.hooks import Client
from gateway.broker.sessions import wills
from gateway.broker.sessions.session import Session
from gateway.broker.sessions.wills import PAUSE_S, REFUSED, TOO_MANY, UNFIT, message_of, size_bytes
from gateway.mqtt import Connect, Disconnect, PropertyId, Version, Will, encode
from tree_handler.batch import Row

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refusing() -> LogWorld:
    world = LogWorld()
    world.refusal = FULL
    return world


def topics(rows: Sequence[Row]) -> list[str]:
    return [row[0] for row in rows]


async def published(world: LogWorld, *topics_of: str, **options: Any) -> None:
    for topic in topics_of:
        world.core.wills.publish_of(f"of {topic}", Will(topic, b"gone", **{"qos": 1, **options}))
    await world.turn()


async def test_one_that_the_log_refuses_is_tried_again_after_pauses_until_it_takes_it() -> None:
    world = refusing()
    await published(world, "w/1", "w/2")
    assert world.core.refusals.counts == {REFUSED: 2}
    assert world.core.wills.bytes_held == 2 * len("w/1gone")
    tried = []
    for at_s in (PAUSE_S - 0.01, PAUSE_S, 2 * PAUSE_S, 3 * PAUSE_S - 0.01, 3 * PAUSE_S):
        world.now_s = at_s
        world.core.wills.publish_due(at_s)
        await world.turn()
        tried.append(world.core.refusals.counts[REFUSED])
    assert tried == [2, 4, 4, 4, 6], "the second pause is twice as long"
    world.refusal = None
    world.now_s = 99.0
    world.core.wills.publish_due(99.0)
    await world.turn()
    assert topics(world.logged) == ["w/1", "w/2"]
    world.core.wills.publish_due(999.0)
    world.core.wills.add_up([])
    await world.turn()
    assert (topics(world.logged), world.core.wills.bytes_held) == (["w/1", "w/2"], 0)


async def test_one_of_qos_0_that_was_to_be_retained_is_given_to_subscribers_and_ends() -> None:
    world = refusing()
    reader = await world.client(Version.V5, ("w/#", 1))
    await published(world, "w/1", qos=0, retain=True)
    assert [one.payload for one in world.written(reader)] == [b"gone"]
    assert (dict(world.core.refusals.counts), world.core.wills.bytes_held) == ({}, 0)
    world.refusal = None
    world.core.wills.publish_due(99.0)
    await world.turn()
    assert world.logged == []


async def test_of_too_many_that_the_log_refuses_the_oldest_are_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wills, "REFUSED_MAX", 2)
    world = refusing()
    await published(world, "w/1", "w/2", "w/3")
    assert world.core.refusals.counts == {REFUSED: 3, TOO_MANY: 1}
    assert f"'of w/1', on 'w/1': the oldest: {TOO_MANY} (1 so far)" in caplog.messages
    world.refusal = None
    world.core.wills.publish_due(99.0)
    await world.turn()
    assert topics(world.logged) == ["w/2", "w/3"]


async def test_one_whose_topic_is_over_a_limit_by_now_is_given_up() -> None:
    world = LogWorld(topic_levels=2)
    await published(world, "w/1", "w/1/2")
    assert topics(world.logged) == ["w/1"]
    assert world.core.refusals.counts == {UNFIT: 1}


def test_what_is_published_has_no_delay_and_its_expiry_counts_from_then_on() -> None:
    """Sections 3.1.3.2.2 and 3.1.3.2.4."""
    properties = {
        PropertyId.WILL_DELAY_INTERVAL: 7,
        PropertyId.MESSAGE_EXPIRY_INTERVAL: 60,
        PropertyId.CONTENT_TYPE: "text",
    }
    will = Will("w", b"gone", 1, True, properties)
    message = message_of(will, 100.0)
    assert message.properties == {
        PropertyId.MESSAGE_EXPIRY_INTERVAL: 60,
        PropertyId.CONTENT_TYPE: "text",
    }
    sent = (message.topic, message.payload, message.qos, message.retain, message.expires_at_s)
    assert sent == ("w", b"gone", 1, True, 160.0)
    assert PropertyId.WILL_DELAY_INTERVAL in will.properties
    assert size_bytes(will) == 5


async def test_a_session_whose_client_has_gone_is_not_left_twice() -> None:
    world = LogWorld()
    number = await world.client(Version.V5)
    session = world.core.sessions.get("client-0")
    assert isinstance(session, Session)
    world.core.sessions.left(session, "gone")
    world.core.sessions.left(session, "gone")
    assert (world.core.sessions.connected, len(world.core.sessions)) == (0, 0)
    assert world.core.sessions.why_full(Client("c", None, "", 5), None) == ""
    world.clients[number][0].connection_lost(None)
    assert world.core.sessions.connected == 0


@pytest.mark.parametrize(
    ("delay_s", "end", "at_s"),
    [
        (0, "lost", 0.0),
        (0, "DISCONNECT with will", 0.0),
        (0, "DISCONNECT", None),
        (5, "lost", 5.0),
        (5, "back in time", None),
        (90, "lost", 60.0),
    ],
)
async def test_a_will_is_published_when_its_delay_or_its_session_is_over(
    delay_s: int, end: str, at_s: float | None
) -> None:
    """Sections 3.1.2.5 and 3.1.3.2.2; the session lasts for 60 s here."""
    world = LogWorld()

    async def comes(will: Will | None) -> int:
        number = world.opened()
        connect = Connect(Version.V5, "c", False, properties={17: 60}, will=will)
        world.send(number, encode(connect, Version.V5))
        await world.turn()
        return number

    number = await comes(Will("w", b"gone", 1, False, {24: delay_s} if delay_s else {}))
    world.core.upkeep.sweep(0.0)
    assert world.core.wills.bytes_held == len("wgone")
    if end.startswith("DISCONNECT"):
        world.send(number, encode(Disconnect(4 if end.endswith("will") else 0), Version.V5))
    world.clients[number][0].connection_lost(None)
    await world.turn()
    if end == "back in time":
        world.now_s = 4.9
        await comes(None)
    published = [0.0] if world.logged else []
    for now_s in (4.9, 5.0, 59.9, 60.0, 99.0):
        world.now_s = now_s
        world.core.upkeep.sweep(now_s)
        await world.turn()
        if world.logged and not published:
            published.append(now_s)
    assert published == ([] if at_s is None else [at_s])
    assert topics(world.logged) == (["w"] if published else [])
    assert world.core.wills.bytes_held == 0
