"""A gateway as Mosquitto's command-line clients meet it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from amqtt.plugins.authentication import Argon2Hasher

from gateway.broker.limits import Limits
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

pytestmark = [
    pytest.mark.peer("mosquitto_pub", "mosquitto-clients"),
    pytest.mark.peer("mosquitto_sub", "mosquitto-clients"),
]


def settings(folder: Path, access: str) -> config.GatewaySettings:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / "gateway.toml"
    path.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
[access]
{access}
"""
    )
    return config.load(path, config.GatewaySettings)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    process = GatewayProcess(settings(tmp_path, "anonymous = true"))
    await process.start()
    yield process
    await process.stop()


async def run(program: str, port: int, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(program, "-h", "127.0.0.1", "-p", str(port), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def subscribed(port: int, *arguments: str) -> asyncio.subprocess.Process:
    """Start mosquitto_sub and wait until its subscription is acknowledged."""
    process = await asyncio.create_subprocess_exec(
        *("stdbuf", "-oL", "mosquitto_sub", "-d", "-h", "127.0.0.1", "-p", str(port), *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        async for line in process.stdout:
            if b"Subscribed" in line:
                break
    return process


@pytest.mark.parametrize("qos", ["0", "1", "2"])
async def test_what_is_published_is_received(gateway: GatewayProcess, qos: str) -> None:
    port = gateway.mqtt_port
    subscriber = await subscribed(port, "-t", "campus/#", "-q", qos, "-C", "1", "-F", "got %t %p")
    code, _ = await run("mosquitto_pub", port, "-t", "campus/door", "-m", "open", "-q", qos)
    assert code == 0
    async with asyncio.timeout(60):
        output, _ = await subscriber.communicate()
    assert b"got campus/door open" in output


async def test_a_retained_message_waits_for_the_subscriber(gateway: GatewayProcess) -> None:
    port = gateway.mqtt_port
    assert (await run("mosquitto_pub", port, "-t", "a/b", "-m", "kept", "-r", "-q", "1"))[0] == 0
    code, output = await run("mosquitto_sub", port, "-t", "a/b", "-C", "1", "-W", "60")
    assert (code, output) == (0, "kept\n")


@pytest.mark.parametrize("topic", ["$hedgerow/member/gw", "$SYS/x"])
async def test_no_client_may_publish_to_topics_between_gateways(
    gateway: GatewayProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await run("mosquitto_pub", gateway.mqtt_port, "-t", topic, "-m", "x", "-q", "1")
    assert "publication to a forbidden topic" in caplog.text


async def test_a_publisher_of_a_payload_over_the_limit_is_disconnected_unacknowledged(
    gateway: GatewayProcess,
) -> None:
    before = gateway.status()["log_bytes"]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.mqtt_port)
    writer.write(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01x")
    payload = bytes(Limits().payload_bytes + 1)
    length = len(payload) + 5
    field = bytes((length & 127 | 128, length >> 7 & 127 | 128, length >> 14))
    writer.write(b"\x32" + field + b"\x00\x01t\x00\x01" + payload)
    answers = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    assert answers == b"\x20\x02\x00\x00"
    assert gateway.status()["log_bytes"] - before < 1000


async def test_a_client_without_a_password_is_refused_unless_anonymous_is_on(
    tmp_path: Path,
) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"alice:{Argon2Hasher().hash('secret')}\n")
    process = GatewayProcess(settings(tmp_path, f'password_file = "{passwords}"'))
    await process.start()
    publish = ("-t", "t", "-m", "x", "-q", "1")
    try:
        port = process.mqtt_port
        assert (await run("mosquitto_pub", port, *publish))[0] != 0
        assert (await run("mosquitto_pub", port, "-u", "alice", "-P", "wrong", *publish))[0] != 0
        assert (await run("mosquitto_pub", port, "-u", "alice", "-P", "secret", *publish))[0] == 0
    finally:
        await process.stop()


async def test_a_client_may_publish_only_where_the_policy_lets_it(tmp_path: Path) -> None:
    passwords, policy = tmp_path / "passwords", tmp_path / "access.toml"
    passwords.write_text(f"alice:{Argon2Hasher().hash('secret')}\n")
    policy.write_text('[users.alice]\npublish = ["yard/#"]\nsubscribe = ["#"]\n')
    access = f'password_file = "{passwords}"\npolicy_file = "{policy}"'
    process = GatewayProcess(settings(tmp_path, access))
    await process.start()
    user = ("-u", "alice", "-P", "secret", "-q", "1", "-V", "5")
    try:
        port = process.mqtt_port
        subscriber = await subscribed(port, *user, "-t", "+/door", "-C", "2", "-F", "got %t %p")
        for number, place in enumerate(("yard", "house", "yard")):
            await run("mosquitto_pub", port, *user, "-m", str(number), "-t", f"{place}/door")
        async with asyncio.timeout(60):
            output, _ = await subscriber.communicate()
        assert [line for line in output.splitlines() if line.startswith(b"got")] == [
            b"got yard/door 0",
            b"got yard/door 2",
        ]
    finally:
        await process.stop()
