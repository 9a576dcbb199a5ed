"""MQTT over websockets, as clients of the websockets package and raw bytes meet it."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_transport import MemoryTransport
from mqtt_peer import LIMIT_S, Bench
from surroundings import hooks
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, NegotiationError
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.typing import Origin, Subprotocol

from gateway.broker.data_plane import DataPlane
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from gateway.broker.listeners import websocket
from gateway.broker.listeners.listener import Listener
from gateway.broker.listeners.websocket import (
    ANY_ORIGIN,
    HANDSHAKE_BYTES_MAX,
    WebSocket,
    WebSocketRules,
)
from gateway.node.links.wire import LinkConnect
from gateway.trust.shares import paced_reading

CONNECT = b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02ws"
CONNACK = b"\x20\x02\0\0"
SUBSCRIBE = b"\x82\x06\0\x01\0\x01t\0"
SUBACK = b"\x90\x03\0\x01\0"
PUBLISH = b"\x30\x05\0\x01thi"
PING, PONG = b"\xc0\0", b"\xd0\0"


async def start(rules: WebSocketRules | None = None, **options: Any) -> Bench:
    bench = Bench(
        anonymous=True,
        listeners=[Listener("ws", ("127.0.0.1",), 0)],
        websocket_rules=rules or WebSocketRules(),
        **options,
    )
    await bench.start()
    return bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    started = await start()
    yield started
    await started.stop()


def dial(bench: Bench, path: str = "/mqtt", **options: Any) -> connect:
    given = {"subprotocols": [Subprotocol("mqtt")], "proxy": None, "compression": None}
    return connect(f"ws://127.0.0.1:{bench.broker.ports['ws']}{path}", **given | options)


async def receive(client: ClientConnection, size: int) -> bytes:
    """So many bytes, in whatever frames they come."""
    data = b""
    async with asyncio.timeout(LIMIT_S):
        while len(data) < size:
            frame = await client.recv()
            assert isinstance(frame, bytes)
            data += frame
    return data


async def greet(client: ClientConnection) -> None:
    await client.send(CONNECT)
    assert await receive(client, 4) == CONNACK


async def closed(client: ClientConnection) -> int | None:
    with pytest.raises(ConnectionClosed):
        async with asyncio.timeout(LIMIT_S):
            while True:
                await client.recv()
    return client.close_code


# -- the request -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/mqtt", "/any/other?x=y"])
async def test_by_default_any_path_is_granted_to_who_is_no_browser(bench: Bench, path: str) -> None:
    async with dial(bench, path) as client:
        assert client.subprotocol == "mqtt"
        await greet(client)


async def test_with_a_path_only_that_one_is_granted() -> None:
    bench = await start(WebSocketRules(path="/mqtt"))
    try:
        async with dial(bench, "/mqtt?token=1") as client:
            await greet(client)
        with pytest.raises(InvalidStatus, match="404"):
            await dial(bench, "/other")
        assert bench.counts["websocket request refused (404)"] == 1
    finally:
        await bench.stop()


async def test_by_default_no_page_of_a_browser_is_granted(bench: Bench) -> None:
    with pytest.raises(InvalidStatus, match="403"):
        await dial(bench, origin=Origin("http://example.org"))


async def test_pages_of_all_origins_are_granted_where_the_configuration_says_so() -> None:
    bench = await start(WebSocketRules(origins=(ANY_ORIGIN,)))
    try:
        async with dial(bench, origin=Origin("http://example.org")) as client:
            await greet(client)
    finally:
        await bench.stop()


async def test_with_origins_only_their_pages_and_programs_are_granted() -> None:
    bench = await start(WebSocketRules(origins=("https://a.example",)))
    try:
        for origin in (None, Origin("https://a.example")):
            async with dial(bench, origin=origin) as client:
                await greet(client)
        for origin in ("https://b.example", "https://a.example:444", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                await dial(bench, origin=Origin(origin))
    finally:
        await bench.stop()


@pytest.mark.parametrize("offered", [None, [Subprotocol("mqttv3.1")], [Subprotocol("amqp")]])
async def test_a_client_that_does_not_offer_mqtt_is_refused(bench: Bench, offered: Any) -> None:
    with pytest.raises((InvalidStatus, NegotiationError)):
        await dial(bench, subprotocols=offered)
    assert bench.counts["websocket request refused (400)"] == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        CONNECT + b"\r\n",
        b"POST /mqtt HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Y: z\r\n" * 200 + b"\r\n",
        b"GET /" + b"a" * HANDSHAKE_BYTES_MAX + b" HTTP/1.1\r\n",
        b"a" * (HANDSHAKE_BYTES_MAX + 1),
    ],
)
async def test_what_is_no_request_is_closed_and_counted(bench: Bench, request_bytes: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.broker.ports["ws"])
    writer.write(request_bytes)
    async with asyncio.timeout(LIMIT_S):
        with_error = await asyncio.gather(reader.read(), return_exceptions=True)
    assert not with_error[0] or isinstance(with_error[0], ConnectionError)
    writer.close()
    assert sum(bench.counts.values()) == 1
    assert not len(bench.broker.core.connections)


async def test_an_ordinary_http_request_is_told_to_upgrade(bench: Bench) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.broker.ports["ws"])
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 426 ")
    writer.close()


async def test_a_client_that_draws_out_its_request_is_disconnected() -> None:
    bench = await start(limits=Limits(connect_s=0.2))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.broker.ports["ws"])
        writer.write(b"GET / HTTP/1.1\r\n")
        async with asyncio.timeout(LIMIT_S):
            assert await asyncio.gather(reader.read(), return_exceptions=True)
        writer.close()
        assert bench.counts["connection without CONNECT"] == 1
    finally:
        await bench.stop()


# -- frames ----------------------------------------------------------------------------------------


async def test_packets_need_not_align_with_frames(bench: Bench) -> None:
    async with dial(bench) as client:
        for byte in CONNECT:
            await client.send(bytes((byte,)))
        await client.send(SUBSCRIBE[:3])
        await client.send(SUBSCRIBE[3:] + PUBLISH + PING[:1])
        await client.send(b"")
        await client.send(PING[1:])
        expected = CONNACK + SUBACK + PUBLISH + PONG
        assert await receive(client, len(expected)) == expected


async def test_a_packet_may_come_in_a_fragmented_message(bench: Bench) -> None:
    async with dial(bench) as client:
        await client.send([CONNECT[:5], CONNECT[5:], PING])
        assert await receive(client, 6) == CONNACK + PONG


async def test_a_text_frame_ends_the_connection(bench: Bench) -> None:
    async with dial(bench) as client:
        await greet(client)
        await client.send("hello")
        assert await closed(client) == CloseCode.UNSUPPORTED_DATA
    assert bench.counts["websocket frame that is not binary"] == 1


async def test_what_came_before_a_text_frame_is_processed(bench: Bench) -> None:
    async with dial(bench) as client:
        await greet(client)
        client.transport.write(
            Frame(Opcode.BINARY, b"\x32\x07\0\x01t\0\x07hi").serialize(mask=True)
            + Frame(Opcode.TEXT, b"x").serialize(mask=True)
        )
        await closed(client)
    assert [entry.payload for entry in bench.entries] == [b"hi"]


async def test_a_ping_is_answered_with_its_payload(bench: Bench) -> None:
    async with dial(bench) as client:
        async with asyncio.timeout(LIMIT_S):
            await (await client.ping(b"there?"))
        await greet(client)


async def test_a_message_over_the_packet_limit_ends_the_connection(bench: Bench) -> None:
    limit = bench.broker.core.limits.packet_bytes
    async with dial(bench) as client:
        await greet(client)
        await client.send(bytes(limit + 1))
        assert await closed(client) == CloseCode.MESSAGE_TOO_BIG
    assert bench.counts["websocket error (PayloadTooBig)"] == 1


async def test_before_connect_the_limit_is_that_of_a_connect(bench: Bench) -> None:
    async with dial(bench) as client:
        await client.send(bytes(bench.broker.core.limits.connect_bytes + 1))
        assert await closed(client) == CloseCode.MESSAGE_TOO_BIG


async def test_the_largest_message_arrives(bench: Bench) -> None:
    payload = b"x" * bench.broker.core.limits.payload_bytes
    async with dial(bench, max_size=None) as client:
        await greet(client)
        await client.send(SUBSCRIBE)
        await receive(client, len(SUBACK))
        length = len(payload) + 3
        digits = bytes((length & 127 | 128, length >> 7 & 127 | 128, length >> 14))
        packet = b"\x30" + digits + b"\0\x01t" + payload
        await client.send(packet)
        assert await receive(client, len(packet)) == packet


async def test_an_unmasked_frame_ends_the_connection(bench: Bench) -> None:
    async with dial(bench) as client:
        client.transport.write(Frame(Opcode.BINARY, CONNECT).serialize(mask=False))
        assert await closed(client) == CloseCode.PROTOCOL_ERROR


# -- the end ---------------------------------------------------------------------------------------


async def test_a_client_that_disconnects_is_answered_by_a_close_frame(bench: Bench) -> None:
    async with dial(bench) as client:
        await greet(client)
        await client.send(b"\xe0\0")
        assert await closed(client) == CloseCode.NORMAL_CLOSURE
    assert not len(bench.broker.core.connections)


async def test_the_will_is_published_where_the_websocket_closes_without_disconnect(
    bench: Bench,
) -> None:
    will = b"\x10\x1b\0\x04MQTT\x04\x0e\0\0\0\x02wi\0\x01w\0\x08farewell"
    async with dial(bench) as client:
        await client.send(will)
        assert await receive(client, 4) == CONNACK
    while not bench.entries:
        await asyncio.sleep(0.01)
    assert [(entry.topic, entry.payload) for entry in bench.entries] == [("w", b"farewell")]


async def test_a_close_frame_in_the_midst_of_a_message_ends_the_connection(bench: Bench) -> None:
    async with dial(bench) as client:
        await greet(client)
        client.transport.write(
            Frame(Opcode.BINARY, b"\xc0", fin=False).serialize(mask=True)
            + Frame(Opcode.CLOSE, Close(1000, "").serialize()).serialize(mask=True)
        )
        await closed(client)
    while len(bench.broker.core.connections):
        await asyncio.sleep(0.01)


async def test_a_client_that_never_answers_the_close_frame_is_cut_off() -> None:
    bench = await start(limits=Limits(close_s=0.1))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.broker.ports["ws"])
        writer.write(upgrade())
        await reader.readuntil(b"\r\n\r\n")
        frames = (CONNECT, b"\xe0\0")
        writer.writelines(Frame(Opcode.BINARY, f).serialize(mask=True) for f in frames)
        async with asyncio.timeout(LIMIT_S):
            with_error = await asyncio.gather(reader.read(), return_exceptions=True)
        writer.close()
        assert with_error
        assert not len(bench.broker.core.connections)
    finally:
        await bench.stop()


async def test_a_broker_that_stops_closes_websockets(bench: Bench) -> None:
    async with dial(bench) as client:
        await greet(client)
        bench.broker.core.stop()
        assert await closed(client) == CloseCode.NORMAL_CLOSURE


async def test_a_link_over_a_websocket_is_refused(bench: Bench) -> None:
    async with dial(bench) as client:
        await client.send(LinkConnect("gw-b", "tree", bytes(16)).encode())
        assert await receive(client, 4) == b"\x20\x02\0\x05"
        await closed(client)
    assert bench.links == []


# -- flow control ----------------------------------------------------------------------------------


async def test_a_websocket_client_that_does_not_read_loses_qos_0_and_is_not_kept_in_memory() -> (
    None
):
    bench = await start(limits=Limits(held_bytes=10_000, write_buffer_bytes=10_000))
    try:
        async with dial(bench) as slow:
            await greet(slow)
            await slow.send(SUBSCRIBE)
            await receive(slow, len(SUBACK))
            slow.transport.pause_reading()
            peer = await bench.open(version=4)
            await peer.connect("fast")
            packet = b"\x30\xe8\x07\0\x01t" + bytes(997)
            kind = "QoS 0 message for a client that does not read"
            async with asyncio.timeout(LIMIT_S):
                while not bench.counts[kind]:
                    peer.writer.write(packet * 1000)
                    await peer.writer.drain()
                    await peer.nothing_came()
            slow.transport.resume_reading()
            await slow.send(PING)
            async with asyncio.timeout(LIMIT_S):
                while not (await slow.recv()).endswith(PONG):  # perhaps behind messages
                    pass
    finally:
        await bench.stop()


async def test_pings_of_a_client_that_does_not_read_take_no_memory() -> None:
    bench = await start(limits=Limits(write_buffer_bytes=10_000, keep_alive_s=0))
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", bench.broker.ports["ws"])
        writer.write(upgrade())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(Frame(Opcode.BINARY, CONNECT).serialize(mask=True))
        await reader.readexactly(6)
        writer.transport.pause_reading()
        pings = Frame(Opcode.PING, bytes(125)).serialize(mask=True) * 1000
        (seen,) = bench.broker.core.connections
        channel = seen.channel
        async with asyncio.timeout(LIMIT_S):
            while not channel.is_paused:
                writer.write(pings)
                await writer.drain()
                await asyncio.sleep(0)
            for _ in range(20):
                writer.write(pings)
                await writer.drain()
        transport = channel.transport
        assert transport is not None
        assert transport.get_write_buffer_size() < 1 << 20
        writer.close()
    finally:
        await bench.stop()


# -- any bytes -------------------------------------------------------------------------------------


class Below(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def upgrade() -> bytes:
    key = base64.b64encode(bytes(16))
    return (
        b"GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n"
        b"Sec-WebSocket-Key: " + key + b"\r\n\r\n"
    )


def feed(parts: list[bytes]) -> bytes:
    """Return the bytes that a websocket answers when it reads these parts."""

    async def fed() -> bytes:
        core = DataPlane(hooks(commit=lambda *_: None))
        below, connection = Below(), Connection(core.service)
        websocket = WebSocket(connection, WebSocketRules(), core.limits, core.refusals)
        websocket.connection_made(below)
        for part in parts:
            if not below.closing:
                websocket.data_received(part)
                await asyncio.sleep(0)
        turns = 0
        while turns < 4:  # with nothing that waits: then all that is due is written
            await asyncio.sleep(0)
            turns = 0 if connection.peer.channel.is_stalled else turns + 1
        core.stop()
        websocket.connection_lost(None)
        return below.written

    return asyncio.run(fed())


FRAMED = upgrade() + b"".join(
    Frame(Opcode.BINARY, data).serialize(mask=True)
    for data in (CONNECT[:4], CONNECT[4:] + SUBSCRIBE, PUBLISH, PING + PUBLISH[:2], PUBLISH[2:])
)


def payload_of(written: bytes) -> bytes:
    """Return the payload of a server's binary frames, which follow its HTTP response."""
    _, _, data = written.partition(b"\r\n\r\n")
    found = b""
    while data[:1] == b"\x82":
        found += data[2 : 2 + data[1]]
        data = data[2 + data[1] :]
    return found


@given(st.lists(st.integers(0, len(FRAMED)), max_size=20).map(sorted))
@settings(max_examples=50, deadline=None)
def test_any_split_of_the_bytes_into_reads_gives_the_same(cuts: list[int]) -> None:
    # The request comes alone, as RFC 6455 has it: the client waits for the answer.
    at = len(upgrade())
    edges = sorted({0, at, *cuts, len(FRAMED)})
    written = feed([FRAMED[a:b] for a, b in itertools.pairwise(edges)])
    assert payload_of(written) == CONNACK + SUBACK + PUBLISH + PONG + PUBLISH


@given(
    st.lists(
        st.binary(max_size=300)
        | st.just(upgrade())
        | st.builds(
            # Masked with zeros, or not masked, and with any bits set.
            lambda first, data, masked: (
                bytes((first, masked << 7 | len(data))) + bytes(4 * masked) + data
            ),
            st.integers(0, 255) | st.sampled_from([0x80 | opcode for opcode in Opcode]),
            st.binary(max_size=100) | st.just(CONNECT),
            st.booleans(),
        ),
        max_size=6,
    ),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise_anything(parts: list[bytes], upgraded: bool) -> None:
    feed([upgrade(), *parts] if upgraded else parts)
    feed([b"".join([upgrade(), *parts])])


class Slow(MemoryTransport):
    """A transport whose reading can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


async def test_frames_without_end_leave_others_their_turns(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many frames a read brings, so many bytes of it are looked at in a turn."""
    monkeypatch.setattr(paced_reading, "PART_S", -1.0)  # over when a piece is taken
    core = bench.broker.core
    rules, refusals = WebSocketRules(), core.refusals
    connection = Connection(core.service)
    server = WebSocket(connection, rules, core.limits, refusals)
    transport = Slow()
    server.connection_made(transport)
    ping = Frame(Opcode.PING, b"").serialize(mask=True)
    server.data_received(upgrade())
    server.data_received(Frame(Opcode.BINARY, CONNECT).serialize(mask=True))
    while connection.peer.publisher is None:
        await asyncio.sleep(0)
    server.data_received(ping * 2_000)
    turns = 1
    while not transport.is_read:
        before = len(transport.written)
        await asyncio.sleep(0)
        turns += 1
        assert len(transport.written) - before <= 2 * paced_reading.PIECE_BYTES
    assert turns >= 2_000 * len(ping) // paced_reading.PIECE_BYTES
    pong = Frame(Opcode.PONG, b"").serialize(mask=False)
    assert transport.written.count(pong) == 2_000
    server.connection_lost(None)


async def test_what_a_client_sent_before_it_went_is_given_up(bench: Bench) -> None:
    core = bench.broker.core
    server = WebSocket(Connection(core.service), WebSocketRules(), core.limits, core.refusals)
    transport = Slow()
    server.connection_made(transport)
    server.data_received(upgrade())
    server.reading.hold_up(is_held_up=True)
    assert not transport.is_read
    server.data_received(Frame(Opcode.BINARY, CONNECT).serialize(mask=True))
    assert not core.service.output.traffic.connects
    server.reading.hold_up(is_held_up=False)
    server.connection_lost(None)
    await asyncio.sleep(0)
    assert not core.service.output.traffic.connects
    assert not len(core.connections)


async def test_who_sends_frames_and_no_connect_is_cut_off(bench: Bench) -> None:
    core = bench.broker.core
    server = WebSocket(Connection(core.service), WebSocketRules(), core.limits, core.refusals)
    transport = Slow()
    server.connection_made(transport)
    server.data_received(upgrade())
    ping = Frame(Opcode.PING, b"").serialize(mask=True)
    for _ in range(40):
        server.data_received(ping * 100)
        await asyncio.sleep(0)
    assert transport.is_closed
    assert bench.counts["websocket frames without a client"] == 1
    assert transport.written.count(b"\x8a\0") <= websocket.EARLY_FRAMES_MAX + 200
    server.connection_lost(None)


@pytest.mark.parametrize("more", [0, 1])
async def test_a_request_of_16_kib_may_still_become_one_and_a_larger_one_is_none(
    more: int,
) -> None:
    core = DataPlane(hooks(commit=lambda *_: None))
    below, connection = Below(), Connection(core.service)
    carried = WebSocket(connection, WebSocketRules(), core.limits, core.refusals)
    carried.connection_made(below)
    lines = b"".join(b"X-%d: " % at + b"x" * 4_000 + b"\r\n" for at in range(4))
    begin = b"GET /mqtt HTTP/1.1\r\n" + lines
    request = begin + b"X-Last: ".ljust(HANDSHAKE_BYTES_MAX + more - len(begin), b"x")
    assert HANDSHAKE_BYTES_MAX == 16 << 10
    carried.data_received(request)
    while more and not below.closing:  # it may be read in turns
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert below.closing == bool(more)
    assert core.refusals.counts == ({"websocket request too large": 1} if more else {})
    assert below.written == b""
    carried.connection_lost(None)
    carried.close()
    assert below.written == b""
    core.stop()
