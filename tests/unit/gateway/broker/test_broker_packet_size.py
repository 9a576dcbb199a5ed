"""No packet is larger than the client's Maximum Packet Size, whatever is in it [MQTT-3.1.2-24]."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mqtt_peer import LIMIT_S, Bench, Peer

from gateway.broker.limits import TOO_LARGE
from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.message import Message
from gateway.mqtt import (
    V5,
    Connect,
    Packet,
    PacketType,
    PropertyId,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    Will,
    encode,
    packet_end,
)

EXPIRY = {PropertyId.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFF}
ALIASES = {PropertyId.TOPIC_ALIAS_MAXIMUM: 10}
TALKATIVE = {PropertyId.REQUEST_RESPONSE_INFORMATION: 1, PropertyId.REQUEST_PROBLEM_INFORMATION: 1}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(anonymous=True)
    await made.start()
    yield made
    await made.stop()


def limited(limit: int, **more: Any) -> dict[str, Any]:
    properties = more.pop("properties", {})
    return {"properties": {PropertyId.MAXIMUM_PACKET_SIZE: limit, **properties}, **more}


async def to_the_end(peer: Peer) -> list[bytes]:
    """All packets up to the end of the stream, as bytes."""
    data = b""
    async with asyncio.timeout(LIMIT_S):
        try:
            while more := await peer.reader.read(1 << 16):
                data += more
        except ConnectionError:
            pass
    return cut(data)


def cut(data: bytes) -> list[bytes]:
    packets = []
    while data:
        found = packet_end(data, 0, 1 << 24)
        assert found is not None
        packets.append(data[: found[1]])
        data = data[found[1] :]
    return packets


def filters(count: int) -> list[str]:
    return [f"f/{number}" for number in range(count)]


def subscribe(count: int) -> Subscribe:
    return Subscribe(1, [SubscriptionRequest(one, 1) for one in filters(count)], {})


REQUESTS: dict[str, Packet] = {"suback": subscribe(40), "unsuback": Unsubscribe(2, filters(40), {})}
UNKNOWN = (PubRel(99), PubRec(99), PubRec(98, ReasonCode.NOT_AUTHORIZED))


@pytest.mark.parametrize(
    ("client_id", "properties"),
    [("", {}), ("a", EXPIRY), ("", TALKATIVE), ("a", TALKATIVE), ("", EXPIRY | TALKATIVE)],
)
async def test_no_answer_is_larger_than_the_client_takes(
    bench: Bench, client_id: str, properties: dict[int, Any]
) -> None:
    for limit in range(1, 64):
        peer = await bench.open()
        requests = (*UNKNOWN, Unsubscribe(2, filters(20), {}), subscribe(30))
        peer.greet(client_id, *requests, **limited(limit, properties=properties))
        peer.writer.write(b"\xf0\0")  # AUTH that nobody asked for: an end with a reason
        answers = await to_the_end(peer)
        assert [answer for answer in answers if len(answer) > limit] == []
        peer.close()


def malformed(limit: int, *, where: str) -> bytes:
    """A CONNECT with a Maximum Packet Size, and a fault behind it or in its place."""
    told = {PropertyId.MAXIMUM_PACKET_SIZE: limit}
    packet = encode(Connect(Version.V5, "a", will=Will("w" * 40, b"", 0), properties=told), V5)
    if where == "will topic":
        return packet.replace(b"w" * 40, b"#" * 40)
    return packet.replace(b"\0\0\5\x27", b"\0\0\5\xfe")


@pytest.mark.parametrize("where", ["will topic", "its identifier"])
async def test_a_malformed_connect_is_answered_within_what_it_says(
    bench: Bench, where: str
) -> None:
    for limit in range(1, 100):
        peer = await bench.open()
        peer.writer.write(malformed(limit, where=where))
        answers = await to_the_end(peer)
        assert [answer for answer in answers if len(answer) > limit >= 5] == []
        if where == "will topic":
            assert [answer for answer in answers if len(answer) > limit] == []
        assert len(answers) == 1 or limit < 5
    longest = max(len(answer) for answer in answers)
    assert (longest > 5) == (where == "will topic")  # a reason string, where that may be sent


async def test_a_connack_leaves_out_what_the_client_can_do_without(bench: Bench) -> None:
    peer = await bench.connect("a", **limited(1 << 10, properties=TALKATIVE))
    assert set(peer.told) >= {PropertyId.RESPONSE_INFORMATION, PropertyId.TOPIC_ALIAS_MAXIMUM}
    peer = await bench.connect("a", **limited(20, properties=TALKATIVE))
    assert PropertyId.RESPONSE_INFORMATION not in peer.told
    assert PropertyId.TOPIC_ALIAS_MAXIMUM in peer.told
    peer = await bench.connect("a", **limited(13, properties=TALKATIVE))
    assert set(peer.told) == {PropertyId.RECEIVE_MAXIMUM, PropertyId.MAXIMUM_PACKET_SIZE}


async def test_a_client_whose_connack_does_not_fit_is_refused_and_its_session_stays(
    bench: Bench,
) -> None:
    keeps = {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}
    first = await bench.connect("a", properties=keeps)
    peer = await bench.open()
    reason = await peer.connect("a", **limited(12))
    assert reason == ReasonCode.PACKET_TOO_LARGE
    await first.nothing_came()
    silent = await bench.open()
    assert await silent.connect("a", **limited(4)) == -1
    await first.nothing_came()


@pytest.mark.parametrize("kind", ["suback", "unsuback"])
async def test_a_request_whose_answer_does_not_fit_ends_the_connection_and_changes_nothing(
    bench: Bench, kind: str
) -> None:
    peer = await bench.connect("a", **limited(44))
    await peer.subscribe("f/0")
    peer.send(REQUESTS[kind])
    [packet] = await to_the_end(peer)
    assert (packet[0] >> 4, packet[2]) == (PacketType.DISCONNECT, ReasonCode.PACKET_TOO_LARGE)
    assert len(packet) <= 44
    fits = await bench.connect("b", **limited(45))
    fits.send(REQUESTS[kind])
    answer = await fits.next()
    assert len(answer.reasons) == 40


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_that_fits_without_its_alias_is_sent_without(
    bench: Bench, qos: int
) -> None:
    limit, topic = 512, "a/topic"
    peer = await bench.connect("a", **limited(limit, properties=ALIASES))
    await peer.subscribe("a/#", qos)
    publisher = await bench.connect("p")
    # Of a packet whose length takes two bytes:
    head = 3 + 2 + len(topic) + 1 + (2 if qos else 0) + 1
    sizes = range(limit - head - 5, limit - head + 2)
    for number, size in enumerate(sizes):  # a topic each, so that each wants an alias
        publisher.send(
            Publish(f"{topic}{number}", bytes(size), qos, False, False, 7 if qos else None, {})
        )
        if qos == 2:
            publisher.send(PubRel(7))
    got = [len(await peer.next_bytes() or b"") for _ in sizes[:-1]]
    assert got == [limit - 2, limit - 1, limit, limit - 2, limit - 1, limit]
    await peer.nothing_came()


async def test_what_does_not_fit_is_dropped_and_counted(bench: Bench) -> None:
    peer = await bench.connect("a", **limited(64, properties=ALIASES))
    await peer.subscribe("a/#", 0)
    publisher = await bench.connect("p")
    await publisher.publish("a/1", bytes(64))
    await peer.nothing_came()
    assert bench.counts[TOO_LARGE] == 1


@pytest.mark.parametrize("qos", [0, 1])
async def test_what_one_member_of_a_shared_subscription_does_not_take_goes_to_another(
    bench: Bench, qos: int
) -> None:
    small = [await bench.connect(f"small{n}", **limited(64)) for n in range(2)]
    large = await bench.connect("large")
    for member in (*small, large):
        await member.subscribe("$share/g/a/#", qos)
    publisher = await bench.connect("p")
    packet_ids = iter(range(1, 99))
    for payload in [bytes(64)] * 6 + [b""] * 3:
        packet_id = next(packet_ids) if qos else None
        publisher.send(Publish("a/1", payload, qos, False, False, packet_id, {}))
    for _ in range(7):
        assert await large.next_bytes()
    for member in small:  # of the short ones, one each
        assert len(await member.next_bytes() or b"") < 64
    for member in (*small, large):
        await member.nothing_came()
    assert bench.counts[TOO_LARGE] == 0


async def test_what_no_connected_member_takes_waits_for_one_that_is_away(bench: Bench) -> None:
    away = await bench.connect("away", properties=EXPIRY)
    await away.subscribe("$share/g/a/#", 1)
    away.writer.write(b"\xe0\0")  # DISCONNECT
    assert await away.next() is None
    small = await bench.connect("small", **limited(64))
    await small.subscribe("$share/g/a/#", 1)
    publisher = await bench.connect("p")
    await publisher.publish("a/1", bytes(64))
    back = await bench.connect("away", clean_start=False, properties=EXPIRY)
    assert len(await back.next_bytes() or b"") > 64
    await small.nothing_came()
    assert bench.counts[TOO_LARGE] == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_alias_is_given_once_it_fits(qos: int) -> None:
    aliases, topic = OutgoingAliases(2), "t" * 10

    def packet(payload: int) -> bytes:
        return Message(topic, topic.encode(), bytes(payload), qos, False).packet(
            5, qos << 1, 7, (), 0.0
        )

    for payload in range(90, 140):  # over the step of the packet's length to two bytes
        full = packet(payload)
        assert aliases.shorten(full, len(full)) == full
        assert aliases.shorten(full, len(full) + 2) == full
    first = aliases.shorten(packet(50), 1 << 10)
    assert len(first) == len(packet(50)) + 3
    assert len(aliases.shorten(packet(50), len(packet(50)))) < len(packet(50))
