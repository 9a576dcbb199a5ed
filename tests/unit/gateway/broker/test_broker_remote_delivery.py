"""Batches of other gateways come to local subscribers as the messages would one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_world import LogWorld
from mqtt_peer import Bench

from gateway.broker.durability.persistence import Persistence
from gateway.broker.inbound.remote_delivery import CLOSED, EXPIRED
from gateway.broker.limits import Limits
from gateway.broker.outbound.message import plain_packets
from gateway.mqtt import Publish, Version, decode, packet_end
from tree_handler.batch import Entry, Row
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import VERSION, Retained

KEY = ("gw-other", 3)
CONTENT_TYPE, EXPIRY = 3, 2


@pytest.fixture
async def started() -> AsyncIterator[Bench]:
    one = Bench(anonymous=True)
    await one.start()
    yield one
    await one.stop()


def rows(*messages: tuple[str, int, bytes]) -> list[Row]:
    return [(topic, qos, payload) for topic, qos, payload in messages]


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
@pytest.mark.parametrize(("qos", "granted"), [(0, 2), (1, 0), (1, 1), (2, 1), (2, 2)])
async def test_a_batch_comes_in_order_whole_and_at_the_lower_qos(
    started: Bench, version: int, qos: int, granted: int
) -> None:
    peer = await started.open(version=version)
    assert await peer.connect("reader") == 0
    await peer.subscribe("a/#", granted)
    sent = [(f"a/{n // 7 % 3}", qos, b"%d" % n + b"." * (n % 5)) for n in range(60)]
    started.broker.core.remote_delivery.publish_batch(rows(*sent), KEY, 60 if qos else 0)
    found = []
    for _ in sent:
        packet = await peer.next()
        assert isinstance(packet, Publish)
        assert packet.qos == min(qos, granted)
        found.append((packet.topic, qos, packet.payload))
    assert found == sent


async def test_a_message_that_expired_on_its_way_is_not_delivered(started: Bench) -> None:
    peer = await started.connect("reader")
    await peer.subscribe("a", 1)
    batch = [
        ("a", 1, b"old", {EXPIRY: 0}),
        ("a", 1 | 4, b"retained", {EXPIRY: 0}),
        ("a", 1, b"new", {EXPIRY: 1}),
    ]
    started.broker.core.remote_delivery.publish_batch(batch, KEY, 3)
    packet = await peer.next()
    assert isinstance(packet, Publish)
    assert packet.payload == b"new"
    assert list(started.broker.core.retention.match("#")) == []


async def test_what_is_not_plain_stands_in_its_place_among_plain_messages(started: Bench) -> None:
    peer = await started.connect("reader")
    await peer.subscribe("a", 1)
    batch = [
        ("a", 1, b"1"),
        ("a", 1, b"2", {CONTENT_TYPE: "text/plain"}),
        ("a", 1 | 4, b"3"),
        ("b", 1, b"elsewhere"),
        ("a", 1, b"4"),
    ]
    started.broker.core.remote_delivery.publish_batch(batch, KEY, 5)
    found = [await peer.next() for _ in range(4)]
    assert [packet.payload for packet in found] == [b"1", b"2", b"3", b"4"]
    assert found[1].properties == {CONTENT_TYPE: "text/plain"}
    late = await started.connect("late")
    await late.subscribe("a", 1)
    assert (await late.next()).payload == b"3"


async def test_a_topic_that_no_packet_can_carry_is_counted_and_the_others_come(
    started: Bench,
) -> None:
    peer = await started.connect("reader")
    await peer.subscribe("#", 1)
    sent = rows(("a", 1, b"1"), ("bad/#", 1, b"2"), ("bad/#", 1, b"3"), ("b", 1, b"4"))
    started.broker.core.remote_delivery.publish_batch(sent, KEY, 4)
    assert [(await peer.next()).payload for _ in range(2)] == [b"1", b"4"]
    assert started.counts["message of the tree that no packet can carry"] == 2


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=20),
    st.sampled_from([Version.V311, Version.V5]),
)
def test_plain_packets_read_back(payloads: list[bytes], version: Version) -> None:
    for packet, payload in zip(plain_packets(b"a/b", payloads, version), payloads, strict=True):
        found = packet_end(packet, 0, 1 << 20)
        assert found is not None
        body, end = found
        assert end == len(packet)
        read = decode(packet[0], packet[body:end], version)
        assert read == Publish("a/b", payload, 0, False, False, None, {})


async def test_what_a_limit_kept_from_being_retained_is_not_delivered_again_with_room() -> None:
    bench = Bench(anonymous=True, limits=Limits(retained_messages=1))
    await bench.start()
    try:
        core = bench.broker.core
        peer = await bench.connect("reader")
        await peer.subscribe("#", 0)
        kept, over = (
            ("kept", 1 | 4, b"x", {VERSION: (1, 0)}),
            ("over", 1 | 4, b"x", {VERSION: (1, 1)}),
        )
        core.remote_delivery.publish_batch([kept, over], KEY, 2)
        assert [(await peer.next()).topic for _ in range(2)] == ["kept", "over"]
        assert core.retention.get("over") is None
        core.remote_delivery.publish_batch([("kept", 1 | 4, b"", {VERSION: (2, 0)})], KEY, 3)
        assert (await peer.next()).payload == b""
        told = Retained("over", RetainedVersion(1, 1, *KEY), 2, 1, b"x", {}, None, None)
        assert core.shared_retention.learn(told, 0.0, is_news=True)
        assert core.retention.get("over") is not None
        await peer.nothing_came()
    finally:
        await bench.stop()


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_another_gateway_publishes_where_nobody_may_is_not_delivered(
    started: Bench, qos: int
) -> None:
    peer = await started.connect("reader")
    await peer.subscribe("$SYS/#", 1)
    batch = rows(
        ("$SYS/x", qos, b"forged"), ("$SYS/y", qos | 4, b"forged"), ("$hedgerow/x", qos, b"")
    )
    started.broker.core.remote_delivery.publish_batch(batch, KEY, 3 if qos else 0)
    await peer.nothing_came()
    assert started.counts[CLOSED] == 3


@pytest.mark.parametrize("had", [True, False])
@pytest.mark.parametrize("payload", [b"new", b""])
async def test_what_a_neighbour_told_and_the_log_does_not_bring_is_announced_to_subscribers(
    started: Bench, payload: bytes, *, had: bool
) -> None:
    """The deletion of what was never here is no news to anybody."""
    core = started.broker.core
    peer = await started.connect("reader")
    await peer.subscribe("a", 1)
    if had:
        core.remote_delivery.publish_batch([("a", 1 | 4, b"old", {VERSION: (1, 0)})], KEY, 1)
        assert (await peer.next()).payload == b"old"
    told = Retained("a", RetainedVersion(2, 0, *KEY), 2, 1, payload, {}, None, None)
    assert core.shared_retention.learn(told, 0.0, is_news=False)
    await peer.nothing_came()
    core.shared_retention.announce("a", 0.0)
    if payload or had:
        assert (await peer.next()).payload == payload
    await peer.nothing_came()


# -- messages that the log had lost ----------------------------------------------------------------


async def test_of_what_had_been_lost_and_comes_back_subscribers_get_what_is_right() -> None:
    """Not what is nobody's topic, what has expired meanwhile, or what no packet can carry."""
    durability = Persistence(("gw", 1))
    world = LogWorld(durability=durability)
    reader = await world.client(Version.V5, ("#", 2), ("$SYS/#", 2))
    lacking = durability.lacking
    lacking.lost(KEY, 1, 6)
    lacking.was_sent(7, KEY, 5)  # some session has had 1 to 5
    batch: list[Row] = [
        ("$SYS/forged", 1, b"1"),
        ("a", 2, b"2"),
        ("a", 2, b"3", {EXPIRY: 0}),
        ("bad/#", 2, b"4"),
        ("a", 1, b"5"),
        ("a", 2 | 4, b"6", {EXPIRY: 9}),
    ]
    rows_new = world.core.remote_delivery.publish_batch(batch, KEY, 6)
    await world.turn()
    got = [(one.topic, one.qos, one.payload) for one in world.written(reader)]
    assert got == [("a", 2, b"2"), ("a", 1, b"5"), ("a", 2, b"6")]
    assert rows_new == batch, "nothing of it came before this process began"
    assert not [number for number in range(1, 7) if (KEY, number) in lacking]
    assert world.core.refusals.counts == {
        EXPIRED: 1,
        "message of the tree that no packet can carry": 1,
    }
    kept = world.core.retention.get("a")
    assert kept is not None
    assert kept.payload == b"6"


async def test_what_acts_on_messages_is_given_those_that_have_not_expired_on_their_way() -> None:
    world = LogWorld()
    plain: list[Row] = [("a", 1, b"1"), ("b", 1, b"2", {CONTENT_TYPE: "text"})]
    assert world.core.remote_delivery.in_time(plain, KEY) is plain
    timed: list[Row] = [*plain, ("a", 1, b"3", {EXPIRY: 0}), ("a", 1, b"4", {EXPIRY: 1})]
    assert world.core.remote_delivery.in_time(timed, KEY) == [timed[0], timed[1], timed[3]]


async def test_a_member_is_handed_no_message_that_no_packet_can_carry() -> None:
    world = LogWorld()
    assert world.core.remote_delivery.take_over(Entry("bad/#", b"x", 1), ("g", "#"), 1)
    assert world.core.refusals.counts == {"message of the tree that no packet can carry": 1}
