"""Our broker as real clients meet it: Mosquitto's programs and gmqtt, both versions."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import gmqtt
import pytest
from amqtt.plugins.authentication import Argon2Hasher
from mqtt_peer import Bench

from gateway.broker.access.passwords import Passwords
from gateway.broker.broker import GatewayBroker
from gateway.broker.listeners.listener import Listener, ListenError
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.policy import Policy
from tree_handler.batch import Entry

MOSQUITTO = [
    pytest.mark.peer("mosquitto_pub", "mosquitto-clients"),
    pytest.mark.peer("mosquitto_sub", "mosquitto-clients"),
]
LIMIT_S = 60


async def start(**options: Any) -> GatewayBroker:
    bench = Bench(**{"anonymous": True, **options})
    await bench.start()
    return bench.broker


@pytest.fixture
async def broker() -> AsyncIterator[GatewayBroker]:
    started = await start()
    yield started
    await started.shutdown()


async def run(program: str, port: int, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(program, "-h", "127.0.0.1", "-p", str(port), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def subscribed(port: int, *arguments: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *("stdbuf", "-oL", "mosquitto_sub", "-d", "-h", "127.0.0.1", "-p", str(port), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        async for line in process.stdout:
            if b"Subscribed" in line:
                break
    return process


async def rest(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    return output.decode()


@pytest.mark.parametrize("qos", ["0", "1", "2"])
@pytest.mark.parametrize("publisher", ["311", "5"])
@pytest.mark.parametrize("subscriber", ["311", "5"])
class TestMosquitto:
    pytestmark = MOSQUITTO

    async def test_a_message_arrives_whatever_the_versions(
        self, broker: GatewayBroker, subscriber: str, publisher: str, qos: str
    ) -> None:
        wanted = ("-V", subscriber, "-t", "a/+", "-q", qos, "-C", "1", "-F", "got %t %p %q %r")
        process = await subscribed(broker.port, *wanted)
        sent = ("-V", publisher, "-t", "a/b", "-m", "hello", "-q", qos)
        assert (await run("mosquitto_pub", broker.port, *sent))[0] == 0
        assert f"got a/b hello {qos} 0" in await rest(process)

    async def test_a_retained_message_waits(
        self, broker: GatewayBroker, subscriber: str, publisher: str, qos: str
    ) -> None:
        sent = ("-V", publisher, "-t", "a/b", "-m", "kept", "-q", qos, "-r")
        assert (await run("mosquitto_pub", broker.port, *sent))[0] == 0
        wanted = ("-V", subscriber, "-t", "#", "-q", qos, "-C", "1", "-F", "%t %p %q %r")
        assert await run("mosquitto_sub", broker.port, *wanted) == (0, f"a/b kept {qos} 1\n")


@pytest.mark.peer("mosquitto_sub", "mosquitto-clients")
@pytest.mark.parametrize("version", ["311", "5"])
async def test_messages_wait_for_a_mosquitto_client_that_comes_back(
    broker: GatewayBroker, version: str
) -> None:
    keep = ("-V", version, "-i", "sleeper", "-c", "-t", "q/#", "-q", "1")
    expiry = ("-x", "100") if version == "5" else ()
    assert (await run("mosquitto_sub", broker.port, *keep, *expiry, "-E"))[0] == 0
    for i in range(3):
        broker.accept(Entry("q/x", b"%d" % i, 1))
    assert await run("mosquitto_sub", broker.port, *keep, *expiry, "-C", "3") == (0, "0\n1\n2\n")


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
async def test_a_5_0_messages_properties_arrive(broker: GatewayBroker) -> None:
    wanted = ("-V", "5", "-t", "p", "-C", "1", "-F", "got %P %C %R %D %E")
    process = await subscribed(broker.port, *wanted)
    properties = {
        "user-property": ("k", "v"),
        "content-type": ("text/plain",),
        "response-topic": ("r/t",),
        "correlation-data": ("42",),
        "message-expiry-interval": ("100",),
    }
    options = [o for name, value in properties.items() for o in ("-D", "publish", name, *value)]
    sent = ("-V", "5", "-t", "p", "-m", "x", *options)
    assert (await run("mosquitto_pub", broker.port, *sent))[0] == 0
    assert "got k:v text/plain r/t 42 100" in await rest(process)


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
@pytest.mark.parametrize("version", ["311", "5"])
async def test_only_a_client_with_the_right_password_comes_in(version: str) -> None:
    passwords = Passwords({"alice": Argon2Hasher().hash("secret")})
    broker = await start(anonymous=False, passwords=passwords)
    publish = ("-V", version, "-t", "t", "-m", "x", "-q", "1")
    try:
        port = broker.port
        assert (await run("mosquitto_pub", port, *publish))[0] != 0
        assert (await run("mosquitto_pub", port, "-u", "alice", "-P", "wrong", *publish))[0] != 0
        assert (await run("mosquitto_pub", port, "-u", "alice", "-P", "secret", *publish))[0] == 0
    finally:
        await broker.shutdown()


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
async def test_a_policy_decides_what_a_client_may_publish() -> None:
    policy = AccessPolicy(Rules(publish=("open/%c",), subscribe=("open/#",)))
    broker = await start(policy=Policy(policy.told()))
    publish = ("-V", "5", "-i", "me", "-m", "x", "-q", "1", "-t")
    try:
        await run("mosquitto_pub", broker.port, *publish, "closed")
        assert broker.core.refusals.counts["publication to a forbidden topic"] == 1
        await run("mosquitto_pub", broker.port, *publish, "open/me")
        assert broker.core.refusals.counts["publication to a forbidden topic"] == 1
    finally:
        await broker.shutdown()


@pytest.mark.parametrize("version", [gmqtt.constants.MQTTv311, gmqtt.constants.MQTTv50])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_gmqtt_client_receives_what_it_publishes(
    broker: GatewayBroker, version: int, qos: int
) -> None:
    got: asyncio.Queue[tuple[str, bytes, int]] = asyncio.Queue()
    ready = asyncio.Event()

    async def on_message(client: Any, topic: str, payload: bytes, at: int, _: Any) -> int:
        got.put_nowait((topic, payload, at))
        return 0

    client = gmqtt.Client("gm")
    client.on_message = on_message
    client.on_subscribe = lambda *_: ready.set()
    await client.connect("127.0.0.1", broker.port, version=version)
    try:
        client.subscribe("g/#", qos)
        async with asyncio.timeout(LIMIT_S):
            await ready.wait()
            for i in range(20):
                client.publish("g/x", f"{i}", qos)
            received = [await got.get() for _ in range(20)]
        assert received == [("g/x", b"%d" % i, qos) for i in range(20)]
        assert broker.client_count == 1
    finally:
        await client.disconnect()


async def test_a_port_in_use_is_an_os_error(broker: GatewayBroker) -> None:
    second = Bench()
    second.listeners = (Listener("mqtt", ("127.0.0.1",), broker.port),)
    with pytest.raises(ListenError, match="Address already in use"):
        await second.start()
