"""A client that answers with the wrong kind of acknowledgement is ended, and loses nothing.

Its packet identifiers would stay taken for ever: a window full of them gets no message any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from mqtt_peer import Bench, Peer

from gateway.mqtt import (
    Disconnect,
    Packet,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Version,
)

FAILED = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
WRONG: dict[str, tuple[int, Packet]] = {
    "puback for qos 2": (2, PubAck(1)),
    "pubrec for qos 1": (1, PubRec(1)),
    "pubcomp for qos 1": (1, PubComp(1)),
    "pubcomp before pubrel": (2, PubComp(1)),
}
OF_5_0: dict[str, tuple[int, Packet]] = {
    "puback with a reason for qos 2": (2, PubAck(1, FAILED)),
    "pubrec of failure for qos 1": (1, PubRec(1, FAILED)),
    "pubcomp with a reason before pubrel": (2, PubComp(1, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)),
}
CASES = [
    *((version, *case) for version in Version for case in WRONG.values()),
    *((Version.V5, *case) for case in OF_5_0.values()),
]
NAMES = [
    *(f"{name}-{version.name}" for version in Version for name in WRONG),
    *OF_5_0,
]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(anonymous=True)
    await made.start()
    yield made
    await made.stop()


async def lasting(bench: Bench, version: int) -> Peer:
    """A client whose session outlives its connection."""
    peer = await bench.open(version=version)
    is_5 = version == Version.V5
    properties: dict[int, Any] = {PropertyId.SESSION_EXPIRY_INTERVAL: 60} if is_5 else {}
    assert await peer.connect("wrong", clean_start=False, properties=properties) == 0
    return peer


async def publish(bench: Bench, qos: int, count: int = 1) -> None:
    publisher = await bench.connect("publisher")
    for number in range(1, count + 1):
        publisher.send(Publish("t", b"%d" % number, qos, False, False, number, {}))
        answer = await publisher.next()
        assert isinstance(answer, PubAck if qos == 1 else PubRec), answer
        if qos == 2:
            publisher.send(PubRel(number))
            assert isinstance(await publisher.next(), PubComp)
    publisher.close()


@pytest.mark.parametrize(("version", "qos", "answer"), CASES, ids=NAMES)
async def test_an_answer_of_the_wrong_kind_ends_the_connection_and_the_message_comes_again(
    bench: Bench, version: Version, qos: int, answer: Packet
) -> None:
    peer = await lasting(bench, version)
    await peer.subscribe("t", qos)
    await publish(bench, qos)
    assert isinstance(await peer.next(), Publish)
    peer.send(answer)
    if version == Version.V5:
        end = await peer.next()
        assert isinstance(end, Disconnect)
        assert end.reason == ReasonCode.PROTOCOL_ERROR
        assert type(answer).__name__.upper() in end.properties[PropertyId.REASON_STRING]
    assert await peer.next() is None
    back = await lasting(bench, version)
    again = await back.next()
    assert isinstance(again, Publish)
    assert (again.payload, again.dup) == (b"1", True)


@pytest.mark.parametrize("version", Version)
async def test_a_pubrel_after_the_exchange_was_released_and_answered_wrongly_comes_again(
    bench: Bench, version: Version
) -> None:
    peer = await lasting(bench, version)
    await peer.subscribe("t", 2)
    await publish(bench, 2)
    assert isinstance(await peer.next(), Publish)
    peer.send(PubRec(1))
    assert isinstance(await peer.next(), PubRel)
    peer.send(PubAck(1))
    if version == Version.V5:
        assert (await peer.next()).reason == ReasonCode.PROTOCOL_ERROR
    assert await peer.next() is None
    back = await lasting(bench, version)
    assert isinstance(await back.next(), PubRel)
    back.send(PubComp(1))
    await back.nothing_came()


@pytest.mark.parametrize("version", Version)
async def test_answers_for_what_was_never_sent_are_no_reason_to_end_a_client(
    bench: Bench, version: Version
) -> None:
    peer = await lasting(bench, version)
    peer.send(PubAck(7), PubComp(8))
    await peer.nothing_came()
    peer.send(PubRec(9))
    answer = await peer.next()
    assert isinstance(answer, PubRel)
    unknown = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND if version == Version.V5 else 0
    assert (answer.packet_id, answer.reason) == (9, unknown)
    peer.send(PubRel(10))
    answer = await peer.next()
    assert isinstance(answer, PubComp)
    assert (answer.packet_id, answer.reason) == (10, unknown)
    if version == Version.V5:
        peer.send(PubRec(11, FAILED))
        await peer.nothing_came()


async def test_a_refused_message_gives_its_place_in_the_window_to_the_next(bench: Bench) -> None:
    peer = await bench.open()
    receive_one: dict[int, Any] = {PropertyId.RECEIVE_MAXIMUM: 1}
    assert await peer.connect("refuses", properties=receive_one) == 0
    await peer.subscribe("t", 2)
    await publish(bench, 2, count=3)
    got = []
    for _ in range(3):
        message = await peer.next()
        assert isinstance(message, Publish)
        got.append(message.payload)
        peer.send(PubRec(message.packet_id or 0, FAILED))
    assert got == [b"1", b"2", b"3"]
    await peer.nothing_came()
