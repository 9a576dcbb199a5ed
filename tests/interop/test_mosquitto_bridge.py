"""A stock Mosquitto that bridges to a gateway: a leaf in both directions, without an echo."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from mqtt_peer import Peer
from ports import free_port

from gateway.mqtt import (
    PubAck,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    Version,
)

pytestmark = pytest.mark.peer("mosquitto", "mosquitto")
LIMIT_S = 40
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


class Process:
    """A broker as a process; what it says on standard error is kept."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command = command
        self.port = port
        self.lines: list[str] = []

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stderr=asyncio.subprocess.PIPE
        )
        self._reading = asyncio.create_task(self._read())
        async with asyncio.timeout(LIMIT_S):
            while not await self._answers():
                assert self._process.returncode is None, "".join(self.lines)
                await asyncio.sleep(0.02)

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.lines.append(line.decode())

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    async def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
        await self._process.wait()
        await self._reading


class Client:
    """Subscribes to everything and acknowledges it; publishes at any QoS."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._number = 0
        self._acknowledged: set[int] = set()
        self._subscribed = asyncio.Event()
        self.got: Counter[bytes] = Counter()
        self.retained: dict[str, bytes] = {}

    @classmethod
    async def connect(
        cls, port: int, client_id: str, topic_filter: str = "#", **fields: object
    ) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        peer = Peer(reader, writer, Version.V311)
        assert await peer.connect(client_id, **fields) == 0
        client = cls(peer)
        await client.subscribe(topic_filter)
        return client

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe, and take what comes from now on."""
        self._reading = asyncio.create_task(self._read())
        self._peer.send(Subscribe(1, [SubscriptionRequest(topic_filter, 2)], {}))
        async with asyncio.timeout(LIMIT_S):
            await self._subscribed.wait()

    async def _read(self) -> None:
        while True:
            try:
                packet = await self._peer.next()
            except TimeoutError:
                continue
            match packet:
                case None:
                    return
                case SubAck():
                    self._subscribed.set()
                case Publish():
                    if packet.qos == 1:
                        self._peer.send(PubAck(packet.packet_id))
                    elif packet.qos == 2:
                        self._peer.send(PubRec(packet.packet_id))
                    self.got[packet.payload] += 1
                    if packet.retain:
                        self.retained[packet.topic] = packet.payload
                case PubRel():
                    self._peer.writer.write(b"\x70\2" + packet.packet_id.to_bytes(2, "big"))
                case PubRec():
                    self._peer.send(PubRel(packet.packet_id))
                case PubAck():
                    self._acknowledged.add(packet.packet_id)

    def publish(self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False) -> int:
        self._number += 1
        packet_id = self._number if qos else None
        self._peer.send(Publish(topic, payload, qos, retain, False, packet_id, {}))
        return self._number

    async def published(self, topic: str, payload: bytes) -> None:
        """At QoS 1, until it is acknowledged."""
        number = self.publish(topic, payload, 1)
        async with asyncio.timeout(LIMIT_S):
            while number not in self._acknowledged:
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        self._peer.close()
        await self._reading


class World:
    """A gateway, a Mosquitto with a bridge to it, and a client at each."""

    def __init__(self, folder: Path, bridges: str) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self._fence = 0
        (folder / "tree.key").write_text("ab" * 32)
        (folder / "passwords").write_text(f"campus:{CHEAP.hash('secret')}\n")
        (folder / "policy.toml").write_text('[default]\npublish = ["#"]\nsubscribe = ["#"]\n')
        port = free_port()
        config = folder / "gateway.toml"
        config.write_text(
            f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
status_interval_s = 0
[mqtt]
port = {port}
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
[access]
password_file = "{folder}/passwords"
policy_file = "{folder}/policy.toml"
"""
        )
        command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)]
        self.gateway = Process(command, port)
        (folder / "mosquitto").mkdir()
        local = free_port()
        config = folder / "mosquitto.conf"
        config.write_text(
            f"""
listener {local} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/mosquitto/
log_dest stderr
log_type all
user root
"""
            + bridges.format(address=f"127.0.0.1:{port}")
        )
        self.mosquitto = Process(["mosquitto", "-c", str(config)], local)

    @property
    def connects(self) -> list[str]:
        """The names under which Mosquitto's bridges have connected."""
        sent = (re.search(r"Bridge (\S+) sending CONNECT", line) for line in self.mosquitto.lines)
        return [found[1] for found in sent if found]

    async def start(self) -> None:
        for process in (self.gateway, self.mosquitto):
            await process.start()
            self._stack.push_async_callback(process.stop)
        self.here = await self.at_gateway("here")
        self.there = await self.at_mosquitto("there")
        await self.bridged()

    async def at_gateway(self, name: str, topic_filter: str = "#", **fields: object) -> Client:
        login = {"username": "campus", "password": b"secret"}
        return await self._client(self.gateway.port, name, topic_filter, **login, **fields)

    async def at_mosquitto(self, name: str, topic_filter: str = "#", **fields: object) -> Client:
        return await self._client(self.mosquitto.port, name, topic_filter, **fields)

    async def _client(self, port: int, name: str, *args: str, **fields: object) -> Client:
        client = await Client.connect(port, name, *args, **fields)
        self._stack.push_async_callback(client.close)
        return client

    async def bridged(self, topic: str = "a/probe") -> None:
        """Wait until messages pass in both directions."""
        async with asyncio.timeout(LIMIT_S):
            for source, target in ((self.here, self.there), (self.there, self.here)):
                self._fence += 1
                payload = b"probe %d" % self._fence
                while not target.got[payload]:
                    source.publish(topic, payload)
                    await asyncio.sleep(0.05)

    async def settled(self, topic: str = "a/fence") -> None:
        """Wait until what has been published, and every echo of it, must have come."""
        async with asyncio.timeout(LIMIT_S):
            for _ in range(2):
                for source, target in ((self.here, self.there), (self.there, self.here)):
                    self._fence += 1
                    payload = b"fence %d" % self._fence
                    source.publish(topic, payload, 1)
                    while not target.got[payload]:
                        await asyncio.sleep(0.01)

    async def stop(self) -> None:
        await self._stack.aclose()


BRIDGE = """
connection {name}
address {{address}}
remote_username campus
remote_password secret
cleansession false
restart_timeout 1
{topics}
"""


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(tmp_path, request.param)
    try:
        await world.start()
        yield world
    finally:
        await world.stop()


TWO_PATTERNS = BRIDGE.format(name="campus", topics="topic a/# both 2\ntopic b/# both 1")
EVERYTHING = BRIDGE.format(name="campus", topics="topic # both 1")
OF_5_0 = BRIDGE.format(
    name="campus", topics="topic a/# both 2\ntopic b/# both 1\nbridge_protocol_version mqttv50"
)
"""Without the bridge bit, which 5.0 has no room for."""
TWO_BRIDGES = BRIDGE.format(name="one", topics="topic a/# both 1") + BRIDGE.format(
    name="two", topics="topic b/# both 2"
)


@pytest.mark.parametrize("world", [TWO_PATTERNS, EVERYTHING, TWO_BRIDGES, OF_5_0], indirect=True)
async def test_messages_pass_both_ways_once_and_do_not_come_back(world: World) -> None:
    await world.bridged("b/probe")
    sent = []
    for qos in (0, 1, 2):
        for topic in ("a/x", "b/x"):
            for name, client in ((b"here", world.here), (b"there", world.there)):
                payload = b"%b %b %d" % (name, topic.encode(), qos)
                client.publish(topic, payload, qos)
                sent.append(payload)
    await world.settled("a/fence")
    await world.settled("b/fence")
    for client in (world.here, world.there):
        assert {payload: client.got[payload] for payload in sent} == dict.fromkeys(sent, 1)
    # What a bridge says of itself under $SYS is no reason to throw it out.
    assert len(world.connects) == len(set(world.connects)), world.connects


@pytest.mark.parametrize("world", [TWO_PATTERNS], indirect=True)
async def test_retained_messages_and_their_end_pass_both_ways(world: World) -> None:
    world.here.publish("a/here", b"h", 1, retain=True)
    world.there.publish("a/there", b"t", 1, retain=True)
    world.there.publish("b/gone", b"g", 1, retain=True)
    await world.settled()
    world.here.publish("b/gone", b"", 1, retain=True)
    await world.settled()
    await world.settled("b/fence")
    for client in (await world.at_gateway("late"), await world.at_mosquitto("late")):
        async with asyncio.timeout(LIMIT_S):
            while len(client.retained) < 2:
                await asyncio.sleep(0.01)
    for client in (await world.at_gateway("later"), await world.at_mosquitto("later")):
        client.publish("c/fence", b"fence", 0)  # comes back behind what is retained
        async with asyncio.timeout(LIMIT_S):
            while not client.got[b"fence"]:
                await asyncio.sleep(0.01)
        assert client.retained == {"a/here": b"h", "a/there": b"t"}


@pytest.mark.parametrize("world", [TWO_PATTERNS], indirect=True)
async def test_a_bridge_that_comes_again_does_not_get_its_own_retained_messages_back(
    world: World,
) -> None:
    world.there.publish("a/there", b"t", 1, retain=True)
    await world.settled()
    assert world.there.got[b"t"] == 1
    # Another client with the bridge's identifier: the bridge is thrown out and comes again.
    (name,) = world.connects
    taken = await world.at_gateway(name, "nothing", clean_start=False)
    await taken.close()
    await world.bridged()
    await world.settled()
    assert world.there.got[b"t"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("world", [TWO_PATTERNS], indirect=True)
async def test_a_restart_of_the_gateway_loses_no_qos_1_message(
    world: World, number: signal.Signals
) -> None:
    sent = [b"%d" % n for n in range(120)]
    before = await world.at_gateway("waits", clean_start=False)
    for payload in sent[:40]:
        await world.there.published("a/x", payload)
    await world.gateway.stop(number)
    for payload in sent[40:80]:
        await world.there.published("a/x", payload)
    await world.gateway.start()
    world.here = await world.at_gateway("here")
    after = await world.at_gateway("waits", clean_start=False)
    for payload in sent[80:]:
        await world.there.published("a/x", payload)
    await world.bridged()
    await world.settled()
    assert set(sent) <= set(before.got) | set(after.got)


@pytest.mark.parametrize("world", [TWO_PATTERNS], indirect=True)
async def test_a_restart_of_mosquitto_loses_no_qos_1_message(world: World) -> None:
    sent = [b"%d" % n for n in range(120)]
    before = await world.at_mosquitto("waits", clean_start=False)
    for payload in sent[:40]:
        await world.here.published("a/x", payload)
    await world.mosquitto.stop()
    for payload in sent[40:80]:
        await world.here.published("a/x", payload)
    await world.mosquitto.start()
    world.there = await world.at_mosquitto("there")
    after = await world.at_mosquitto("waits", clean_start=False)
    for payload in sent[80:]:
        await world.here.published("a/x", payload)
    await world.bridged()
    await world.settled()
    assert set(sent) <= set(before.got) | set(after.got)
