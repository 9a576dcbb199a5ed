"""The broker's core over loopback TCP, with hooks of the test's own."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import surroundings
from mqtt_peer import EchoOnce

from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Client, Committed
from gateway.broker.inbound.connection import Connection
from gateway.broker.inbound.subscribe_requests import FILTERS_AT_ONCE, PAUSE_S
from gateway.broker.limits import Limits
from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    Will,
    decode,
    encode,
    packet_end,
)
from gateway.node.links import wire
from tree_handler.batch import Entry, Row


class Peer:
    """A client that says exactly what the test says."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.version = version
        self._data = b""

    def send(self, *packets: Packet) -> None:
        self.writer.write(b"".join(encode(packet, self.version) for packet in packets))

    async def next(self) -> Any:
        """The next packet, or None at the end of the stream."""
        async with asyncio.timeout(30):
            while (found := packet_end(self._data, 0, 1 << 24)) is None:
                try:
                    more = await self.reader.read(1 << 16)
                except ConnectionError:
                    more = b""
                if not more:
                    return None
                self._data += more
        packet = decode(self._data[0], self._data[found[0] : found[1]], self.version)
        self._data = self._data[found[1] :]
        return packet

    async def subscribe(self, topic_filter: str, qos: int = 2, **options: Any) -> list[int]:
        properties = options.pop("properties", {})
        self.send(Subscribe(1, [SubscriptionRequest(topic_filter, qos, **options)], properties))
        answer = await self.next()
        assert isinstance(answer, SubAck)
        return answer.reasons

    async def nothing_came(self) -> None:
        """Fail if anything was sent before the answer to a ping."""
        self.send(PingReq())
        assert isinstance(await self.next(), PingResp)


@dataclass
class Bench:
    """A core, what it handed in, and its clients."""

    core: DataPlane
    port: int
    entries: list[Entry] = field(default_factory=list)
    waiting: list[Callable[[OSError | None], None]] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def open(self, version: int = Version.V5) -> Peer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return Peer(reader, writer, version)

    async def connect(self, client_id: str, version: int = Version.V5, **fields: Any) -> Peer:
        peer = await self.open(version)
        peer.send(connect(client_id, version, **fields))
        answer = await peer.next()
        assert isinstance(answer, ConnAck), answer
        assert answer.reason == 0
        return peer


def connect(client_id: str, version: int = Version.V5, **fields: Any) -> Connect:
    start: dict[str, Any] = {
        "clean_start": True,
        "keep_alive_s": 0,
        "username": None,
        "password": None,
        "will": None,
        "properties": {},
        "bridge": False,
    }
    return Connect(Version(version), client_id, **start | fields)


Make = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    benches: list[tuple[Bench, asyncio.Server]] = []

    async def made(
        *,
        limits: Limits | None = None,
        holds: bool = False,
        fails: bool = False,
        send_buffer_bytes: int = 0,
        **hooks: Any,
    ) -> Bench:
        def commit(logged: Sequence[Row], unlogged: Sequence[Row], done: Committed | None) -> None:
            first = len(bench.entries) + 1 if logged else 0
            bench.entries += [
                Entry(topic, payload, flags & 3, bool(flags & 4), *properties)
                for topic, flags, payload, *properties in (*logged, *unlogged)
            ]
            if done is None:
                return
            if holds:
                bench.waiting.append(partial(done, first))
            else:
                done(*((0, OSError(28, "disk full")) if fails else (first, None)))

        async def links(transport: asyncio.Transport, first: bytes) -> None:
            bench.links.append(first)
            EchoOnce(transport)

        given: dict[str, Any] = {
            "commit": commit,
            "links": links,
        }
        core = DataPlane(surroundings.hooks(**given | hooks), limits)
        core.start()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(core.service), "127.0.0.1", 0)
        listening = server.sockets[0]
        if send_buffer_bytes:  # those that are accepted have it too; else the kernel's grows
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        bench = Bench(core, listening.getsockname()[1])
        benches.append((bench, server))
        return bench

    yield made
    for bench, server in benches:
        server.close()
        bench.core.stop()
        for writer in bench.writers:
            writer.close()


# -- the log ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("qos", "answer"), [(1, PubAck), (2, PubRec)])
async def test_nothing_is_acknowledged_or_delivered_before_the_log_has_it(
    make: Make, qos: int, answer: type
) -> None:
    bench = await make(holds=True)
    peer, other = await bench.connect("a"), await bench.connect("b")
    await other.subscribe("t")
    peer.send(Publish("t", b"x", qos, False, False, 7, {}))
    await peer.nothing_came()
    await other.nothing_came()
    assert [entry.payload for entry in bench.entries] == [b"x"]
    bench.waiting[0](None)
    received = await peer.next()
    assert (type(received), received.packet_id, received.reason) == (answer, 7, 0)
    assert (await other.next()).payload == b"x"


async def test_messages_of_one_turn_are_committed_together_and_in_order(make: Make) -> None:
    bench = await make(holds=True)
    peer = await bench.connect("a")
    peer.send(*(Publish("t", b"%d" % i, 1, False, False, i, {}) for i in range(1, 6)))
    await peer.nothing_came()
    assert len(bench.waiting) == 1
    bench.waiting[0](None)
    assert [(await peer.next()).packet_id for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_5_0_client_is_told_that_the_log_refused_its_message(make: Make, qos: int) -> None:
    bench = await make(fails=True)
    peer, other = await bench.connect("a"), await bench.connect("b")
    await other.subscribe("t")
    peer.send(Publish("t", b"x", qos, True, False, 7, {}))
    assert (await peer.next()).reason == ReasonCode.QUOTA_EXCEEDED
    await other.nothing_came()
    assert len(bench.core.retention) == 0
    peer.send(Publish("t", b"x", qos, False, False, 7, {}))  # the identifier is free again
    assert (await peer.next()).reason == ReasonCode.QUOTA_EXCEEDED
    assert len(bench.entries) == 2


async def test_a_3_1_1_client_is_disconnected_when_the_log_refuses_its_message(make: Make) -> None:
    bench = await make(fails=True)
    peer = await bench.connect("a", Version.V311)
    peer.send(Publish("t", b"x", 1, False, False, 7, {}))
    assert await peer.next() is None


async def test_a_qos_2_message_sent_again_is_logged_once_and_acknowledged_after_the_log(
    make: Make,
) -> None:
    bench = await make(holds=True)
    peer = await bench.connect("a", Version.V311, clean_start=False)
    publish = Publish("t", b"x", 2, False, False, 7, {})
    peer.send(publish)
    await peer.nothing_came()
    again = await bench.connect("a", Version.V311, clean_start=False)
    publish.dup = True
    again.send(publish)
    await again.nothing_came()
    for done in bench.waiting:
        done(None)
    assert isinstance(await again.next(), PubRec)
    again.send(PubRel(7))
    assert (await again.next()).packet_id == 7
    assert len(bench.entries) == 1


async def test_qos_0_messages_are_handed_in_only_while_they_are_wanted(make: Make) -> None:
    wanted = [False]
    bench = await make(carries_unlogged=lambda: wanted[0])
    peer = await bench.connect("a")
    for payload in (b"1", b"2", b"3"):
        peer.send(Publish("t", payload, 0, False, False, None, {}))
        await peer.nothing_came()
        wanted[0] = True
    assert [entry.payload for entry in bench.entries][-1] == b"3"
    assert b"1" not in [entry.payload for entry in bench.entries]


async def test_a_publisher_is_not_read_from_while_too_much_waits_for_the_log(make: Make) -> None:
    bench = await make(holds=True, limits=Limits(uncommitted_bytes=1000))
    peer = await bench.connect("a", Version.V311)
    peer.send(*(Publish("t", bytes(600), 1, False, False, i, {}) for i in (1, 2)))
    await peer.writer.drain()
    while not bench.waiting:
        await asyncio.sleep(0)
    [seen] = bench.core.connections
    channel = seen.channel
    assert channel.is_stalled
    bench.waiting[0](None)
    assert not channel.is_stalled
    assert [(await peer.next()).packet_id for _ in range(2)] == [1, 2]


# -- who may ---------------------------------------------------------------------------------------


async def test_packets_behind_a_connect_wait_for_a_decision_that_takes_time(make: Make) -> None:
    decision: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def authenticate(client: Client, password: bytes | None) -> bool:
        assert (client.username, password) == ("u", b"p")
        return await decision

    bench = await make(authenticate=authenticate)
    peer = await bench.open()
    peer.send(
        connect("a", username="u", password=b"p"),
        Subscribe(5, [SubscriptionRequest("t", 0)], {}),
    )
    while not len(bench.core.connections):
        await asyncio.sleep(0)
    peer.send(Publish("t", b"x", 0, False, False, None, {}))
    decision.set_result(True)
    assert [type(await peer.next()) for _ in range(3)] == [ConnAck, SubAck, Publish]


async def test_a_refused_client_is_told_and_closed(make: Make) -> None:
    bench = await make(authenticate=lambda client, password: False)
    peer = await bench.open()
    peer.send(connect("a", username="u", password=b"p"))
    assert (await peer.next()).reason == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert await peer.next() is None


async def test_publishing_to_a_forbidden_topic_is_refused_and_decided_once(make: Make) -> None:
    asked: list[str] = []

    async def may_publish(client: Client, topic: str) -> bool:
        asked.append(topic)
        await asyncio.sleep(0)
        return topic == "open"

    bench = await make(may_publish=may_publish)
    peer = await bench.connect("a")
    await peer.subscribe("#")
    for packet_id in (1, 2):
        peer.send(
            Publish("closed", b"x", 1, False, False, packet_id, {}),
            Publish("closed", b"x", 0, False, False, None, {}),
        )
        assert (await peer.next()).reason == ReasonCode.NOT_AUTHORIZED
    peer.send(Publish("open", b"y", 0, False, False, None, {}))
    assert (await peer.next()).topic == "open"
    assert asked == ["closed", "open"]
    assert bench.core.refusals.counts["publication to a forbidden topic"] == 4


@pytest.mark.parametrize("topic", ["$hedgerow/batch", "$SYS/x", "$share/g/t"])
async def test_no_client_publishes_to_a_topic_that_starts_with_a_dollar(
    make: Make, topic: str
) -> None:
    bench = await make()
    peer, old = await bench.connect("a"), await bench.connect("b", Version.V311)
    for client in (peer, old):
        client.send(Publish(topic, b"x", 1, True, False, 1, {}))
    assert (await peer.next()).reason == ReasonCode.NOT_AUTHORIZED
    assert (await old.next()).packet_id == 1
    assert bench.entries == []


@pytest.mark.parametrize("topic_filter", ["$hedgerow/#", "$share/g/$hedgerow/+", "$x"])
async def test_no_client_subscribes_to_topics_between_gateways(
    make: Make, topic_filter: str
) -> None:
    bench = await make()
    peer = await bench.connect("a")
    assert await peer.subscribe(topic_filter) == [ReasonCode.NOT_AUTHORIZED]


async def test_a_subscription_delivers_only_topics_that_its_client_may_receive(make: Make) -> None:
    bench = await make(
        may_subscribe=lambda client, topic_filter: topic_filter != "no",
        may_deliver=lambda client, topic: topic != "t/secret",
    )
    peer = await bench.connect("a")
    assert await peer.subscribe("no") == [ReasonCode.NOT_AUTHORIZED]
    bench.core.remote_delivery.publish(
        [Entry("t/secret", b"kept", 0, True), Entry("t/open", b"kept", 0, True)]
    )
    assert await peer.subscribe("t/#") == [2]
    assert (await peer.next()).topic == "t/open"
    bench.core.remote_delivery.publish([Entry("t/secret", b"s"), Entry("t/open", b"o")])
    assert (await peer.next()).payload == b"o"


async def test_another_users_session_is_neither_handed_over_nor_ended(make: Make) -> None:
    bench = await make()
    keep = {PropertyId.SESSION_EXPIRY_INTERVAL: 100}
    alice = await bench.connect("a", username="alice", properties=keep)
    await alice.subscribe("t", 1)
    bob = await bench.open()
    bob.send(connect("a", username="bob", clean_start=False))
    assert (await bob.next()).reason == ReasonCode.NOT_AUTHORIZED
    alice.send(Disconnect(0, {}))
    assert await alice.next() is None
    bench.core.remote_delivery.publish([Entry("t", b"for alice", 1)])
    for clean_start in (False, True):
        bob = await bench.open()
        bob.send(connect("a", username="bob", clean_start=clean_start))
        assert (await bob.next()).reason == ReasonCode.NOT_AUTHORIZED
    alice = await bench.open()
    alice.send(connect("a", username="alice", clean_start=False, properties=keep))
    assert (await alice.next()).session_present
    assert (await alice.next()).payload == b"for alice"


# -- links -----------------------------------------------------------------------------------------


async def test_the_connection_of_a_gateway_is_handed_over_with_its_bytes(make: Make) -> None:
    bench = await make()
    peer = await bench.open()
    first = wire.LinkConnect("gw-b", "tree", bytes(16)).encode() + b"\xc0\x04bpdu"
    peer.writer.write(first[:5])
    await peer.writer.drain()
    peer.writer.write(first[5:])
    while not bench.links:
        await asyncio.sleep(0)
    peer.writer.write(b"more")
    assert await peer.reader.read() == b"link:more"
    assert bench.links == [first]
    assert not len(bench.core.connections)


async def test_a_5_0_client_is_not_told_why_it_may_not_read_what_is_concealed(make: Make) -> None:
    bench = await make(
        may_subscribe=lambda client, topic_filter: False,
        is_concealed=lambda client, topic_filter: topic_filter == "keys",
    )
    peer = await bench.connect("a")
    assert await peer.subscribe("keys") == [ReasonCode.UNSPECIFIED_ERROR]
    assert await peer.subscribe("$share/g/keys") == [ReasonCode.UNSPECIFIED_ERROR]
    assert await peer.subscribe("other") == [ReasonCode.NOT_AUTHORIZED]


@pytest.mark.parametrize(("version", "reason"), [(Version.V311, 0), (Version.V5, 0x92)])
async def test_a_step_of_an_unknown_exchange_is_answered_as_unknown(
    make: Make, version: int, reason: int
) -> None:
    bench = await make()
    peer = await bench.connect("a", version)
    peer.send(PubRec(5), PubRel(6))
    assert await peer.next() == PubRel(5, reason)
    assert await peer.next() == PubComp(6, reason)


# -- keep alive, and how a connection ends ---------------------------------------------------------


@pytest.mark.parametrize(("asked", "told"), [(0, None), (60, None), (61, 60), (65_535, 60)])
async def test_a_5_0_client_that_asks_for_a_long_keep_alive_is_told_the_longest(
    make: Make, asked: int, told: int | None
) -> None:
    bench = await make()
    peer = await bench.open()
    peer.send(connect("a", keep_alive_s=asked))
    answer = await peer.next()
    assert answer.properties.get(PropertyId.SERVER_KEEP_ALIVE) == told
    [seen] = bench.core.connections
    assert seen.keep_alive_s == (told or asked)


async def test_a_3_1_1_client_which_can_not_be_told_keeps_its_keep_alive(make: Make) -> None:
    bench = await make()
    await bench.connect("a", Version.V311, keep_alive_s=1000)
    [seen] = bench.core.connections
    assert seen.keep_alive_s == 1000


async def test_a_client_is_dropped_after_one_and_a_half_keep_alives_and_no_sooner(
    make: Make,
) -> None:
    bench = await make()
    peer = await bench.connect("a", keep_alive_s=40)
    channel = bench.core.sessions.get("a").channel
    assert channel is not None
    now_s = bench.core.now()
    channel.heard_at_s = now_s - 60
    bench.core.upkeep.sweep(now_s)
    assert not channel.is_closing
    channel.heard_at_s = now_s - 60.1
    bench.core.upkeep.sweep(now_s)
    assert (await peer.next()).reason == ReasonCode.KEEP_ALIVE_TIMEOUT
    assert await peer.next() is None


async def test_no_client_was_silent_while_the_machine_slept(make: Make) -> None:
    bench = await make()
    await bench.connect("a", keep_alive_s=40)
    channel = bench.core.sessions.get("a").channel
    assert channel is not None
    now_s = bench.core.now()
    channel.heard_at_s = now_s - 60
    bench.core.upkeep.sweep(now_s)
    slept_s = 3_600.0
    bench.core.upkeep.sweep(now_s + 0.5 + slept_s)
    assert channel.heard_at_s == pytest.approx(now_s - 60 + slept_s)
    assert channel.is_closing, "half a second after its time, of which the machine slept nothing"


async def test_what_a_client_has_said_after_a_sleep_is_never_in_the_future(make: Make) -> None:
    bench = await make()
    await bench.connect("a", keep_alive_s=40)
    channel = bench.core.sessions.get("a").channel
    assert channel is not None
    now_s = bench.core.now()
    bench.core.upkeep.sweep(now_s)
    channel.heard_at_s = later_s = now_s + 100.0
    bench.core.upkeep.sweep(later_s)
    assert channel.heard_at_s == later_s
    channel.heard_at_s = later_s - 10.0
    bench.core.upkeep.sweep(later_s + 0.5 + 0.9)
    assert channel.heard_at_s == later_s - 10.0, "a sweep may be a little late"
    assert not channel.is_closing


async def test_a_session_that_was_to_end_with_its_connection_can_not_be_kept_by_disconnect(
    make: Make,
) -> None:
    bench = await make()
    peer = await bench.connect("a")
    peer.send(Disconnect(0, {PropertyId.SESSION_EXPIRY_INTERVAL: 100}))  # section 3.14.2.2.2
    assert (await peer.next()).reason == ReasonCode.PROTOCOL_ERROR
    assert await peer.next() is None
    assert bench.core.sessions.get("a") is None


async def test_a_client_that_goes_on_sending_still_reads_why_it_was_disconnected(
    make: Make,
) -> None:
    bench = await make(limits=dataclasses.replace(Limits(), receive_maximum=2))
    peer = await bench.connect("a")
    peer.send(*(Publish("t", b"", 2, False, False, i, {}) for i in (1, 2, 3)))
    for i in (1, 2):
        assert (await peer.next()).packet_id == i
        peer.send(PubRel(i))  # to a closed socket this would bring a reset
        await peer.writer.drain()
    assert (await peer.next()).reason == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
    assert await peer.next() is None


async def test_a_message_over_the_receive_maximum_is_none_that_came_when_it_is_sent_again(
    make: Make,
) -> None:
    bench = await make(limits=dataclasses.replace(Limits(), receive_maximum=2))
    keep = {PropertyId.SESSION_EXPIRY_INTERVAL: 100}
    reader = await bench.connect("reader")
    await reader.subscribe("t", 2)
    peer = await bench.connect("a", properties=keep)
    peer.send(*(Publish("t", b"%d" % i, 2, False, False, i, {}) for i in (1, 2, 3)))
    while await peer.next() is not None:
        pass

    peer = await bench.connect("a", clean_start=False, properties=keep)
    peer.send(Publish("t", b"3", 2, False, True, 3, {}))

    assert (await peer.next()).packet_id == 3
    assert [(await reader.next()).payload for _ in range(3)] == [b"1", b"2", b"3"]


async def test_a_client_whose_connect_is_refused_can_send_more_and_still_reads_why(
    make: Make,
) -> None:
    bench = await make(authenticate=lambda client, password: False)
    peer = await bench.open()
    peer.send(connect("a"))
    peer.writer.write(bytes(100_000))
    assert (await peer.next()).reason == ReasonCode.NOT_AUTHORIZED
    assert await peer.next() is None


async def test_the_session_of_a_client_that_broke_the_protocol_is_left_at_once(make: Make) -> None:
    bench = await make()
    watcher = await bench.connect("w")
    await watcher.subscribe("will")
    will = Will("will", b"gone", 1, False, {})
    peer = await bench.connect("a", will=will)
    peer.writer.write(b"\0\0")
    assert (await watcher.next()).payload == b"gone"  # though the client has not closed yet
    assert bench.core.sessions.get("a") is None
    assert len(bench.core.connections) == 2
    assert isinstance(await peer.next(), Disconnect)
    peer.writer.close()
    while len(bench.core.connections) > 1:
        await asyncio.sleep(0)


async def test_a_client_that_does_not_close_after_its_disconnect_is_aborted(make: Make) -> None:
    bench = await make(limits=dataclasses.replace(Limits(), close_s=0.1))
    peer = await bench.connect("a")
    peer.writer.write(b"\0\0")
    assert isinstance(await peer.next(), Disconnect)
    assert await peer.next() is None
    async with asyncio.timeout(30):
        while len(bench.core.connections):
            await asyncio.sleep(0.01)


# -- wills, take-over, shutdown --------------------------------------------------------------------


async def test_a_will_with_a_delay_is_not_published_if_the_client_comes_back(make: Make) -> None:
    bench = await make()
    watcher = await bench.connect("w")
    await watcher.subscribe("will")
    will = Will("will", b"gone", 1, False, {PropertyId.WILL_DELAY_INTERVAL: 1000})
    keep = {PropertyId.SESSION_EXPIRY_INTERVAL: 2000}
    peer = await bench.connect("a", will=will, properties=keep)
    peer.writer.transport.abort()
    while bench.core.sessions.get("a").channel is not None:
        await asyncio.sleep(0)
    await bench.connect("a", clean_start=False, properties=keep)
    await watcher.nothing_came()
    assert bench.core.sessions.get("a").will is None


async def test_a_will_is_logged_and_published_when_the_session_ends_before_its_delay(
    make: Make,
) -> None:
    bench = await make()
    watcher = await bench.connect("w")
    await watcher.subscribe("will")
    will = Will("will", b"gone", 1, False, {PropertyId.WILL_DELAY_INTERVAL: 1000})
    peer = await bench.connect("a", will=will)
    peer.writer.transport.abort()
    assert (await watcher.next()).payload == b"gone"
    assert [entry.topic for entry in bench.entries] == ["will"]


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
async def test_the_second_connection_of_a_client_takes_over_and_gets_what_was_unacknowledged(
    make: Make, version: int
) -> None:
    bench = await make()
    keep = {PropertyId.SESSION_EXPIRY_INTERVAL: 100} if version == Version.V5 else {}
    first = await bench.connect("a", version, clean_start=False, properties=keep)
    await first.subscribe("t", 1)
    bench.core.remote_delivery.publish([Entry("t", b"x", 1)])
    assert not (await first.next()).dup
    second = await bench.connect("a", version, clean_start=False, properties=keep)
    again = await second.next()
    assert (again.payload, again.dup) == (b"x", True)
    farewell = await first.next()
    if version == Version.V5:
        assert farewell.reason == ReasonCode.SESSION_TAKEN_OVER
    else:
        assert farewell is None


async def test_clients_are_told_that_the_broker_shuts_down(make: Make) -> None:
    bench = await make()
    peer = await bench.connect("a")
    bench.core.stop()
    assert (await peer.next()).reason == ReasonCode.SERVER_SHUTTING_DOWN
    assert await peer.next() is None


# -- limits ----------------------------------------------------------------------------------------


async def test_connections_over_the_limit_are_closed_and_counted(make: Make) -> None:
    bench = await make(limits=Limits(connections=1))
    await bench.connect("a")
    assert await (await bench.open()).next() is None
    assert bench.core.refusals.counts["connection over the limit"] == 1


@pytest.mark.parametrize("whose", ["gateway", "user"])
async def test_who_publishes_what_there_are_too_few_bytes_to_retain_is_told(
    make: Make, whose: str
) -> None:
    """The limit counts the cost of a message beside its packet as well."""
    limits = Limits(**{f"retained_bytes_per_{whose}": 1_000})
    bench = await make(limits=limits)
    peer = await bench.connect("a")
    reasons = []
    for number in (1, 2):
        peer.send(Publish(f"r/{number}", bytes(300), 1, True, False, number, {}))
        reasons.append((await peer.next()).reason)
    assert reasons == [0, ReasonCode.QUOTA_EXCEEDED]
    assert len(bench.core.retention) == 1


async def test_a_session_may_have_only_so_many_subscriptions(make: Make) -> None:
    bench = await make(limits=Limits(subscriptions_per_session=1))
    peer = await bench.connect("a")
    assert await peer.subscribe("x") == [2]
    assert await peer.subscribe("y") == [ReasonCode.QUOTA_EXCEEDED]
    assert await peer.subscribe("x", 1) == [1]
    peer.send(Unsubscribe(2, ["x"], {}))
    await peer.next()
    assert await peer.subscribe("y") == [2]
    assert len(bench.core.subscriptions) == 1


@pytest.mark.parametrize(
    ("limits", "topic", "reason"),
    [
        (Limits(topic_bytes=3), "long", ReasonCode.TOPIC_NAME_INVALID),
        (Limits(topic_levels=2), "a/b/c", ReasonCode.TOPIC_NAME_INVALID),
        (Limits(payload_bytes=3), "t", ReasonCode.PACKET_TOO_LARGE),
        (Limits(packet_bytes=150), "t", ReasonCode.PACKET_TOO_LARGE),
    ],
)
@pytest.mark.parametrize("qos", [0, 1])
async def test_a_publish_over_a_limit_ends_the_connection_with_the_reason(
    make: Make, limits: Limits, topic: str, reason: ReasonCode, qos: int
) -> None:
    bench = await make(limits=limits)
    peer = await bench.connect("a")
    peer.send(Publish(topic, b"four" * 50, qos, False, False, qos or None, {}))
    assert (await peer.next()).reason == reason
    assert await peer.next() is None
    assert bench.entries == []


@pytest.mark.parametrize(
    ("limits", "within", "beyond"),
    [
        (Limits(topic_bytes=4), ("öö", b"x"), ("ööa", b"x")),
        (Limits(topic_levels=2), ("a/b", b"x"), ("a/b/", b"x")),
        (Limits(payload_bytes=4), ("t", b"four"), ("t", b"five5")),
        (Limits(packet_bytes=150), ("t", bytes(141)), ("t", bytes(142))),
    ],
    ids=["bytes of a topic", "its levels", "bytes of a payload", "bytes of a packet"],
)
async def test_a_publish_at_a_limit_is_taken_and_one_more_is_not(
    make: Make, limits: Limits, within: tuple[str, bytes], beyond: tuple[str, bytes]
) -> None:
    bench = await make(limits=limits)
    peer = await bench.connect("a")
    peer.send(Publish(*within, 1, False, False, 1, {}))
    assert (await peer.next()).reason == 0
    assert [(entry.topic, entry.payload) for entry in bench.entries] == [within]
    peer.send(Publish(*beyond, 1, False, False, 2, {}))
    assert isinstance(await peer.next(), Disconnect)
    assert len(bench.entries) == 1


async def test_qos_0_is_dropped_and_qos_1_waits_while_a_client_does_not_read(make: Make) -> None:
    limits = Limits(write_buffer_bytes=1 << 16, held_bytes=1 << 16, payload_bytes=1 << 16)
    bench = await make(limits=limits)
    peer = await bench.connect("a", Version.V311)
    await peer.subscribe("t", 1)
    [seen] = bench.core.connections
    channel = seen.channel
    flood = [Entry("t", bytes(1 << 16), 0)] * 4
    while not channel.is_paused:
        bench.core.remote_delivery.publish(flood)
        await asyncio.sleep(0)
    bench.core.remote_delivery.publish(flood)
    assert bench.core.refusals.counts["QoS 0 message for a client that does not read"] >= 3
    bench.core.remote_delivery.publish([Entry("t", b"last", 1)])
    assert bench.core.sessions.get("a").outgoing.backlog.count == 1
    received = await peer.next()
    while received.qos == 0:
        received = await peer.next()
    assert received.payload == b"last"


@pytest.mark.slow
async def test_a_client_that_does_not_read_its_acknowledgements_is_not_read_from(
    make: Make,
) -> None:
    limits = Limits(write_buffer_bytes=1 << 14, held_bytes=1 << 10)
    bench = await make(limits=limits, send_buffer_bytes=4096)
    peer = await bench.connect("a", Version.V311)
    [seen] = bench.core.connections
    channel = seen.channel
    # Few bytes are on their way, so that all is soon over.
    own = peer.writer.get_extra_info("socket")
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        own.setsockopt(socket.SOL_SOCKET, buffer, 4096)
    pings = b"\xc0\0" * 5_000
    peer.writer.transport.set_write_buffer_limits(high=1 << 30)
    while not (channel.is_unread and channel.is_stalled):
        if not peer.writer.transport.get_write_buffer_size():
            peer.writer.write(pings)
        await asyncio.sleep(0)
    reading = asyncio.create_task(peer.reader.read())
    async with asyncio.timeout(60):
        while channel.is_stalled or channel.is_unread:
            await asyncio.sleep(0)
    reading.cancel()


async def test_an_ended_session_leaves_nothing_behind(make: Make) -> None:
    bench = await make()
    core = bench.core
    for version in (Version.V311, Version.V5):
        peer = await bench.connect("a", version)
        await peer.subscribe("t/+")
        await peer.subscribe("$share/g/t")
        peer.send(Publish("t/x", b"x", 2, False, False, 1, {}))
        assert await peer.next()
        peer.writer.transport.abort()
        while len(core.connections):
            await asyncio.sleep(0)
    assert (len(core.sessions), len(core.subscriptions), core.subscriptions.bytes_held) == (0, 0, 0)
    assert core.budget.used_bytes == 0


# -- bytes in any pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
async def test_a_stream_cut_anywhere_means_the_same(make: Make, version: int) -> None:
    bench = await make()
    peer = await bench.connect("a", version)
    await peer.subscribe("t", 2)
    packets: list[Packet] = [
        Publish("t", b"0" * 200, 0, False, False, None, {}),
        Publish("t", b"1", 1, False, False, 1, {}),
        Publish("t", b"2", 2, True, False, 2, {}),
        PubRel(2),
        PingReq(),
    ]
    for byte in b"".join(encode(packet, version) for packet in packets):
        peer.writer.write(bytes((byte,)))
        await peer.writer.drain()
        await asyncio.sleep(0)
    received: list[Any] = []
    while len(received) < 7:
        received.append(await peer.next())
    publishes = [p.payload[:1] for p in received if isinstance(p, Publish)]
    assert publishes == [b"0", b"1", b"2"]
    assert sum(isinstance(p, PingResp) for p in received) == 1


async def test_shared_subscriptions_take_turns_among_the_members_online(make: Make) -> None:
    bench = await make()
    members = [await bench.connect(name) for name in "abc"]
    for member in members:
        await member.subscribe("$share/g/t", 1)
    for i in range(6):
        bench.core.remote_delivery.publish([Entry("t", b"%d" % i, 1)])
    for member in members:
        assert [type(await member.next()) for _ in range(2)] == [Publish, Publish]
    members[0].send(Disconnect(0, {}))
    assert await members[0].next() is None
    for i in range(2):
        bench.core.remote_delivery.publish([Entry("t", b"%d" % i, 1)])
    for member in members[1:]:
        assert isinstance(await member.next(), Publish)


def test_a_client_is_named_in_logs_without_line_breaks() -> None:
    client = dataclasses.replace(Client("x", None, "::1", 5), client_id="a\nb")
    assert "\n" not in str(client)


@pytest.mark.parametrize("body", [b"\x00\x01t", b"", b"\x00\x04MQTT\x05\x00\x00\x00\x00\x00\x00"])
async def test_a_second_connect_is_a_protocol_error_even_if_it_is_malformed(
    make: Make, body: bytes
) -> None:
    bench = await make()
    peer = await bench.connect("a")
    peer.writer.write(b"\x10" + bytes((len(body),)) + body)
    assert (await peer.next()).reason == ReasonCode.PROTOCOL_ERROR
    assert await peer.next() is None


def filters(count: int) -> list[SubscriptionRequest]:
    return [SubscriptionRequest(f"{'no' if n % 7 == 3 else 't'}/{n}", n % 3) for n in range(count)]


async def test_many_filters_are_dealt_with_in_turns_and_answered_in_their_order(make: Make) -> None:
    """Others are served between two turns, and what stands behind waits for the answer."""
    bench = await make(may_subscribe=lambda client, topic_filter: topic_filter[0] == "t")
    peer, other = await bench.connect("a"), await bench.connect("b")
    asked = filters(15 * FILTERS_AT_ONCE)
    bench.core.remote_delivery.publish([Entry(f"t/{n}", b"r", 0, True) for n in range(len(asked))])
    seen = {0}
    peer.send(Subscribe(1, asked), PingReq())
    while max(seen) < sum(one.filter[0] == "t" for one in asked):
        await other.nothing_came()
        seen.add(len(bench.core.subscriptions))
    assert len(seen) > 2
    suback = await peer.next()
    refused = ReasonCode.NOT_AUTHORIZED
    reasons = [refused if one.filter[0] == "n" else one.qos for one in asked]
    assert suback.reasons == reasons
    got = {(await peer.next()).topic for _ in range(len(reasons) - reasons.count(refused))}
    assert got == {one.filter for one in asked if one.filter[0] == "t"}
    assert isinstance(await peer.next(), PingResp)
    peer.send(Unsubscribe(2, [one.filter for one in asked]), PingReq())
    gone = [0x11 if reason == refused else 0 for reason in reasons]
    assert (await peer.next()).reasons == gone
    assert isinstance(await peer.next(), PingResp)
    assert not len(bench.core.subscriptions)


async def test_who_leaves_between_two_turns_leaves_no_filter_behind(make: Make) -> None:
    bench = await make()
    peer, other = await bench.connect("a"), await bench.connect("b")
    peer.send(Subscribe(1, filters(5 * FILTERS_AT_ONCE)))
    while not len(bench.core.subscriptions):
        await other.nothing_came()
    peer.writer.transport.abort()
    while len(bench.core.subscriptions):
        await other.nothing_came()
    await asyncio.sleep(4 * PAUSE_S)
    assert not len(bench.core.subscriptions)
