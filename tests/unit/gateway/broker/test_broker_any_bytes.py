"""Whatever a client sends, nothing but an answer or a closed connection comes of it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_transport import MemoryTransport
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.inbound.connection import Connection
from gateway.mqtt import (
    Connect,
    Disconnect,
    PingReq,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    encode,
    packet_end,
)

VERSIONS = [Version.V311, Version.V5]


def packets(version: int) -> list[bytes]:
    v5 = version == Version.V5
    aliased = {int(PropertyId.TOPIC_ALIAS): 1, int(PropertyId.USER_PROPERTY): [("k", "v")]}
    return [
        encode(packet, version)
        for packet in (
            Publish("t", b"0", 0, False, False, None, {}),
            Publish("t", b"0" * 200, 0, True, False, None, {}),
            Publish("t", b"1", 1, False, False, 1, aliased if v5 else {}),
            Publish("t", b"2", 2, False, True, 2, {}),
            PubAck(1),
            PubRec(2, 0x80 if v5 else 0),
            PubRec(2),
            PubRel(2),
            PubComp(2),
            PingReq(),
            Subscribe(1, [SubscriptionRequest("t/#", 2), SubscriptionRequest("$share/g/t", 1)], {}),
            Subscribe(1, [SubscriptionRequest("t", 1)], {11: [5]} if v5 else {}),
            Unsubscribe(3, ["t/#", "none"], {}),
            Disconnect(0, {}),
        )
    ]


def connect(version: int) -> bytes:
    return encode(Connect(Version(version), "c", True, 60, None, None, None, {}, False), version)


async def feed(pieces: list[bytes]) -> bytearray:
    """Give the pieces to a fresh broker's connection, each once the last is handled; its answers.

    One turn is enough, but on a machine so busy that the connection has had its time.
    """
    core = DataPlane(hooks(commit=lambda *commit: commit[2] and commit[2](1, None)))
    try:
        connection, transport = Connection(core.service), MemoryTransport()
        connection.connection_made(transport)
        for piece in pieces:
            channel = connection.peer.channel
            if not channel.is_closing:
                connection.data_received(piece)
            turns = 0
            while turns < 4:  # with nothing that waits: then all that is due is written
                await asyncio.sleep(0)
                turns += 1
                if channel.is_stalled or core.commit_queue.waiting_bytes:
                    turns = 0
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert (len(core.connections), len(core.sessions)) == (0, 0)
    finally:
        core.stop()
    return transport.written


def whole(written: bytearray) -> list[bytes]:
    """The packets that were written, which must be whole ones."""
    found: list[bytes] = []
    at = 0
    while at < len(written):
        bounds = packet_end(bytes(written), at, 1 << 24)
        assert bounds is not None
        found.append(bytes(written[at : bounds[1]]))
        at = bounds[1]
    return found


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(data=st.data())
def test_packets_with_bytes_changed_end_in_an_answer_or_a_closed_connection(
    version: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(packets(version)), min_size=1, max_size=8))
    stream = bytearray(b"".join(chosen))
    for _ in range(data.draw(st.integers(0, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    pieces = [connect(version)]
    pieces += [
        bytes(stream[start:end])
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    whole(asyncio.run(feed(pieces)))


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=60), max_size=4), st.sampled_from([b"", *map(connect, VERSIONS)])
)
def test_any_bytes_end_in_an_answer_or_a_closed_connection(
    pieces: list[bytes], first: bytes
) -> None:
    whole(asyncio.run(feed([first, *pieces])))


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(data=st.data())
def test_where_the_stream_is_cut_changes_nothing_of_the_answers(
    version: int, data: st.DataObject
) -> None:
    # Without what depends on the turn: a message is delivered when the log has it, at its end.
    flow = [packet for packet in packets(version) if packet[0] >> 4 in {3, 6, 12}]
    subscribe = encode(Subscribe(1, [SubscriptionRequest("t", 1)], {}), version)
    chosen = data.draw(st.lists(st.sampled_from(flow), min_size=1, max_size=8))
    stream = connect(version) + subscribe + b"".join(chosen)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    # Only their order may differ: a QoS 0 message does not wait for the log.
    at_once, in_pieces = (asyncio.run(feed(given)) for given in ([stream], pieces))
    assert sorted(map(len, whole(at_once))) == sorted(map(len, whole(in_pieces)))


LENGTH_OF_TWO_BYTES_WITHOUT_THE_BIT = bytes((0x32, 20, 1, 0, 1, ord("t"), 0, 7)) + bytes(143)
"""Longer by two bytes than it says, were there a second byte of the length."""


@pytest.mark.parametrize("version", VERSIONS)
@settings(deadline=None)
@given(
    qos=st.sampled_from([1, 2]),
    size=st.one_of(st.integers(0, 300), st.integers(8_170, 8_200)),
    length=st.none() | st.binary(min_size=2, max_size=2),
)
def test_a_publish_alone_in_its_read_is_answered_as_one_among_others(
    version: int, qos: int, size: int, length: bytes | None
) -> None:
    packet = encode(Publish("t", bytes(size), qos, False, False, 7, {}), version)
    if length is not None:  # which is wrong, nearly always
        packet = packet[:1] + length + packet[3:]
    assert_alike_alone_and_among_others(version, packet)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_length_of_one_byte_is_not_read_as_one_of_two(version: int) -> None:
    assert_alike_alone_and_among_others(version, LENGTH_OF_TWO_BYTES_WITHOUT_THE_BIT)


def assert_alike_alone_and_among_others(version: int, packet: bytes) -> None:
    before = [
        connect(version),
        encode(Subscribe(1, [SubscriptionRequest("t", 1)], {}), version),
        encode(Publish("t", b"its route is known", 1, False, False, 6, {}), version),
    ]
    ping = encode(PingReq(), version)
    alone = asyncio.run(feed([*before, ping, packet]))
    among = asyncio.run(feed([*before, ping + packet]))
    assert sorted(whole(alone)) == sorted(whole(among))
