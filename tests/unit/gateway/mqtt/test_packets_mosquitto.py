"""Mosquitto understands what the codec writes, and the codec what Mosquitto writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Properties,
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
    UnsubAck,
    Unsubscribe,
    Version,
    Will,
    decode,
    encode,
    packet_end,
)

pytestmark = pytest.mark.peer("mosquitto", "mosquitto")
P = PropertyId


@pytest.fixture
async def mosquitto(tmp_path: Path) -> AsyncIterator[Path]:
    """The path of the socket that a Mosquitto of our own listens on."""
    path, config = tmp_path / "socket", tmp_path / "mosquitto.conf"
    config.write_text(
        f"listener 0 {path}\nallow_anonymous true\nlog_dest stderr\nlog_type all\n"
        "user root\n"  # started by root, it would else become a user who can't write here
    )
    process = await asyncio.create_subprocess_exec(
        "mosquitto", "-c", str(config), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while line := await process.stderr.readline():
                if b" running" in line:
                    break
        assert line, "mosquitto did not start"
        yield path
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


class Client:
    """One connection in one version; whatever is not the packet expected fails the test."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self._buffer = b""

    async def open(self, path: Path, **connect: object) -> ConnAck:
        self._reader, self._writer = await asyncio.open_unix_connection(path)
        self.send(Connect(self.version, **connect))  # type: ignore[arg-type]  # fields by name
        answer = await self.receive()
        assert isinstance(answer, ConnAck)
        return answer

    def send(self, packet: Packet) -> None:
        self._writer.write(encode(packet, self.version))

    async def receive(self) -> Packet:
        async with asyncio.timeout(60):
            while (ends := packet_end(self._buffer, 0, 1 << 20)) is None:
                more = await self._reader.read(1 << 16)
                assert more, "closed"
                self._buffer += more
        body = self._buffer[ends[0] : ends[1]]
        packet = decode(self._buffer[0], body, self.version)
        self._buffer = self._buffer[ends[1] :]
        return packet

    def close(self) -> None:
        self._writer.transport.abort()


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
async def test_every_packet_of_a_clients_life_is_understood(
    mosquitto: Path, version: Version
) -> None:
    client = Client(version)
    answer = await client.open(mosquitto, client_id="c", keep_alive_s=60)
    assert (answer.session_present, answer.reason) == (False, ReasonCode.SUCCESS)

    client.send(PingReq())
    assert await client.receive() == PingResp()

    client.send(Subscribe(1, [SubscriptionRequest("a/#", 2), SubscriptionRequest("b", 0)]))
    assert await client.receive() == SubAck(1, [2, 0])

    client.send(Publish("b", b"zero"))
    assert await client.receive() == Publish("b", b"zero")

    client.send(Publish("a/1", b"one", 1, packet_id=7))
    received = [await client.receive(), await client.receive()]
    assert PubAck(7) in received
    assert Publish("a/1", b"one", 1, packet_id=1) in received
    client.send(PubAck(1))

    client.send(Publish("a/2", b"two" * 100, 2, packet_id=8))
    assert await client.receive() == PubRec(8)
    client.send(PubRel(8))
    received = [await client.receive(), await client.receive()]
    assert PubComp(8) in received
    assert Publish("a/2", b"two" * 100, 2, packet_id=2) in received
    client.send(PubRec(2))
    assert await client.receive() == PubRel(2)
    client.send(PubComp(2))

    client.send(Unsubscribe(3, ["a/#", "b"]))
    assert await client.receive() == UnsubAck(3, [0, 0] if version is Version.V5 else [])
    client.send(Disconnect())
    with pytest.raises(AssertionError, match="closed"):
        await client.receive()
    client.close()


async def test_properties_survive_the_journey_through_mosquitto(mosquitto: Path) -> None:
    client = Client(Version.V5)
    answer = await client.open(
        mosquitto, client_id="", properties={P.TOPIC_ALIAS_MAXIMUM: 0, P.RECEIVE_MAXIMUM: 5}
    )
    assert answer.properties[P.ASSIGNED_CLIENT_IDENTIFIER]
    client.send(
        Subscribe(
            1,
            [SubscriptionRequest("a", 1, retain_as_published=True)],
            {P.SUBSCRIPTION_IDENTIFIER: [200]},
        )
    )
    assert await client.receive() == SubAck(1, [1])
    properties: Properties = {
        P.PAYLOAD_FORMAT_INDICATOR: 1,
        P.CONTENT_TYPE: "t/p",
        P.RESPONSE_TOPIC: "r/s",
        P.CORRELATION_DATA: b"\x00\xff",
        P.USER_PROPERTY: [("k", "1"), ("k", "ä"), ("", "")],
    }
    client.send(Publish("a", "ü".encode(), 0, True, False, None, {**properties, P.TOPIC_ALIAS: 1}))
    client.send(Publish("", b"2", properties={P.TOPIC_ALIAS: 1}))
    expected: Properties = {**properties, P.SUBSCRIPTION_IDENTIFIER: [200]}
    assert await client.receive() == Publish("a", "ü".encode(), retain=True, properties=expected)
    assert await client.receive() == Publish(
        "a", b"2", properties={P.SUBSCRIPTION_IDENTIFIER: [200]}
    )
    client.close()


async def test_a_will_is_understood(mosquitto: Path) -> None:
    watcher, leaver = Client(Version.V311), Client(Version.V5)
    await watcher.open(mosquitto, client_id="watcher")
    watcher.send(Subscribe(1, [SubscriptionRequest("gone/+", 1)]))
    assert await watcher.receive() == SubAck(1, [1])
    will = Will("gone/leaver", b"bye", 1, False, {P.CONTENT_TYPE: "t"})
    await leaver.open(mosquitto, client_id="leaver", will=will)
    leaver.close()
    assert await watcher.receive() == Publish("gone/leaver", b"bye", 1, packet_id=1)
    watcher.close()


async def test_a_reason_to_disconnect_is_understood(mosquitto: Path) -> None:
    client = Client(Version.V5)
    await client.open(mosquitto, client_id="c")
    client.send(Publish("$share/g/a", b"", 1, packet_id=1))
    client.send(Publish("a", b"", 0, properties={P.TOPIC_ALIAS: 65_535}))
    assert await client.receive() == PubAck(1, ReasonCode.NOT_AUTHORIZED)
    assert await client.receive() == Disconnect(ReasonCode.TOPIC_ALIAS_INVALID)
    client.close()
