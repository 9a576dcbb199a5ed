"""SUBSCRIBE and UNSUBSCRIBE: the answer to each filter, and which retained messages follow."""

from __future__ import annotations

from typing import Any

import pytest
from log_world import LogWorld, publish

from gateway.broker.sessions.subscription import Subscription
from gateway.mqtt import (
    Connect,
    Packet,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    encode,
)
from tree_handler.holders import SharedGroup
from tree_handler.sharing.rule import EachGateway

V5, V311 = Version.V5, Version.V311
R = ReasonCode


async def answered(
    world: LogWorld, number: int, packet: Packet, version: Version = V5
) -> list[Any]:
    world.clients[number][1].written.clear()
    world.send(number, encode(packet, version))
    await world.turn()
    return world.written(number)


def subscribe(*filters: str | SubscriptionRequest, qos: int = 1) -> Subscribe:
    requests = [
        one if isinstance(one, SubscriptionRequest) else SubscriptionRequest(one, qos)
        for one in filters
    ]
    return Subscribe(9, requests, {})


LONG = "é" * 10
ASKED: dict[str, tuple[int, str]] = {
    "a": (1, ""),
    "$SYS/#": (1, ""),
    LONG: (1, ""),
    LONG + "x": (R.TOPIC_FILTER_INVALID, "filter over the limit"),
    "a/b/c": (1, ""),
    "a/b/c/": (R.TOPIC_FILTER_INVALID, "filter over the limit"),
    f"$share/group/{LONG}": (1, ""),
    f"$share/group/{LONG}x": (R.TOPIC_FILTER_INVALID, "filter over the limit"),
    "$other/a": (R.NOT_AUTHORIZED, "subscription to a forbidden filter"),
    "$SYS": (R.NOT_AUTHORIZED, "subscription to a forbidden filter"),
    "secret": (R.NOT_AUTHORIZED, "subscription to a forbidden filter"),
    "hidden": (R.UNSPECIFIED_ERROR, "subscription to a forbidden filter"),
}
"""Each filter, with the reason in 5.0 and what is counted."""


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("topic_filter", ASKED)
async def test_a_filter_is_granted_or_refused_with_its_reason(
    topic_filter: str, version: Version
) -> None:
    """A filter has 20 bytes and 3 levels at most here; 3.1.1 has one code for a failure (3.9.3)."""
    world = LogWorld(
        {
            "may_subscribe": lambda client, asked: asked not in {"secret", "hidden"},
            "is_concealed": lambda client, asked: asked == "hidden",
        },
        topic_bytes=20,
        topic_levels=3,
    )
    number = await world.client(version)
    reason, counted = ASKED[topic_filter]
    told = 0x80 if version == V311 and reason >= 0x80 else reason
    found = await answered(world, number, subscribe(topic_filter), version)
    assert found == [SubAck(9, [told])]
    assert world.core.refusals.counts == ({counted: 1} if counted else {})
    session = world.core.sessions.get("client-0")
    assert session is not None
    assert list(session.subscriptions) == ([topic_filter] if reason < 0x80 else [])


class NoRoom(EachGateway):
    """Other gateways can be told of no shared subscription but of one."""

    def has_room_for(self, group: SharedGroup) -> bool:
        return group == ("g", "a/#")


async def test_a_shared_subscription_that_no_other_gateway_can_be_told_of_is_refused() -> None:
    """Any other is no business of theirs."""
    world = LogWorld({"groups": NoRoom()})
    number = await world.client(V5)
    asked = subscribe("$share/g/a/#", "$share/g/a", "$share/h/a/#", "a/#", "b")
    [answer] = await answered(world, number, asked)
    assert answer.reasons == [1, R.QUOTA_EXCEEDED, R.QUOTA_EXCEEDED, 1, 1]


async def test_so_many_subscriptions_has_a_session_and_one_of_them_may_be_replaced() -> None:
    world = LogWorld(subscriptions_per_session=2)
    number = await world.client(V5)
    [answer] = await answered(world, number, subscribe("a", "b"))
    assert answer.reasons == [1, 1]
    [answer] = await answered(world, number, subscribe("c", "b", qos=2))
    assert answer.reasons == [R.QUOTA_EXCEEDED, 2]
    assert world.core.refusals.counts == {"subscription over the limit of a session": 1}
    [answer] = await answered(world, number, Unsubscribe(9, ["a", "x"], {}))
    assert answer == UnsubAck(9, [R.SUCCESS, R.NO_SUBSCRIPTION_EXISTED])
    [answer] = await answered(world, number, subscribe("c"))
    assert answer.reasons == [1]


@pytest.mark.parametrize("limit", ["all", "a user"])
async def test_subscriptions_of_a_user_and_of_all_have_so_many_bytes(limit: str) -> None:
    """Beyond which none is new."""
    one = LogWorld()
    number = await one.client(V5)
    await answered(one, number, subscribe("a"))
    name = "subscriptions_bytes" + ("" if limit == "all" else "_per_user")
    held = one.core.subscriptions.bytes_held
    of_user = one.core.subscriptions.bytes_of((None, False))
    used = held if limit == "all" else of_user
    for room in (used, used - 1):
        world = LogWorld(**{name: room})
        number = await world.client(V5)
        [answer] = await answered(world, number, subscribe("a", "b", "a"))
        assert answer.reasons == ([1, 1, 1] if room == used else [1, R.QUOTA_EXCEEDED, 1])
        kind = f"subscription over the limit of {limit}"
        assert world.core.refusals.counts == ({} if room == used else {kind: 1})


@pytest.mark.parametrize(
    ("handling", "first", "again"), [(0, True, True), (1, True, False), (2, False, False)]
)
async def test_retain_handling_says_when_retained_messages_are_sent(
    handling: int, *, first: bool, again: bool
) -> None:
    """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]."""
    world = LogWorld()
    writer, reader = await world.client(V5), await world.client(V5)
    world.send(writer, publish(V5, "a", 1, 1, b"kept", retain=True))
    await world.turn()
    request = SubscriptionRequest("a", 1, retain_handling=handling)
    for is_sent in (first, again):
        found = await answered(world, reader, subscribe(request))
        assert [type(one) for one in found] == ([SubAck, Publish] if is_sent else [SubAck])
    shared = await answered(world, reader, subscribe("$share/g/a"))
    assert [type(one) for one in shared] == [SubAck], "none for a shared subscription"


@pytest.mark.parametrize("is_bridge", [False, True])
async def test_a_bridge_subscribes_as_if_it_had_asked_for_no_local_and_retain_as_published(
    *, is_bridge: bool
) -> None:
    """But for shared subscriptions, where No Local is an error [MQTT-3.8.3-4]."""
    world = LogWorld()
    number = world.opened()
    world.send(number, encode(Connect(V311, "c", bridge=is_bridge), V311))
    await answered(world, number, subscribe("a", "$share/g/a"), V311)
    session = world.core.sessions.get("c")
    assert session is not None
    assert session.subscriptions == {
        "a": Subscription(1, is_bridge, is_bridge, 0),
        "$share/g/a": Subscription(1, False, is_bridge, 0),
    }


@pytest.mark.parametrize("kind", ["subscribe", "unsubscribe"])
@pytest.mark.parametrize("filters", [15, 16])
async def test_a_request_whose_answer_a_client_does_not_take_is_refused_before_it_is_carried_out(
    kind: str, filters: int
) -> None:
    """[MQTT-3.1.2-24]: an answer has 5 bytes and one for each filter."""
    world = LogWorld()
    number = world.opened()
    world.send(number, encode(Connect(V5, "c", properties={39: 20, 17: 60}), V5))
    await world.turn()
    names = [f"f/{at}" for at in range(filters)]
    packet = subscribe(*names) if kind == "subscribe" else Unsubscribe(9, names, {})
    [answer] = await answered(world, number, packet)
    session = world.core.sessions.get("c")
    assert session is not None
    if filters == 15:
        assert len(answer.reasons) == 15
    else:
        assert (type(answer).__name__, answer.reason) == ("Disconnect", R.PACKET_TOO_LARGE)
    assert len(session.subscriptions) == (15 if kind == "subscribe" and filters == 15 else 0)
