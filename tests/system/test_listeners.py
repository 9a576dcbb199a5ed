"""Goal: a gateway's clients come by any of its addresses and names, and are answered from there."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.coap_client import request
from gateway.tools.commands.mqtt_client import Login, MqttClient

PSK = bytes.fromhex("ab" * 16)
CONFIG = """
[gateway]
id = "gw"
state_dir = "state"
[mqtt]
host = ["127.0.0.1", "127.0.0.2", "::1"]
port = 0
websocket_host = "localhost"
websocket_port = 0
[coap]
host = ["127.0.0.1", "127.0.0.2", "::1"]
port = 0
dtls_port = 0
psk_file = "psk"
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[access]
anonymous = true
[console]
enabled = false
[[sensors]]
type = "switch"
name = "valve"
"""


@dataclass(frozen=True)
class Running:
    config: Path
    told: dict[str, Any]
    line: str

    def port(self, scheme: str) -> int:
        return int(self.told[scheme].rpartition(":")[2])


def begin(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    for name, text in (("tree.key", "ab" * 32), ("psk", f"operator:{PSK.hex()}\n")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    config = folder / "gateway.toml"
    config.write_text(CONFIG)
    process = begin(config)
    assert process.stderr is not None
    up = next((line for line in process.stderr if " is up" in line), "")
    assert up
    yield Running(config, json.loads((folder / "state" / "listeners.json").read_text()), up)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


@asynccontextmanager
async def client(host: str, port: int) -> AsyncIterator[MqttClient]:
    async with asyncio.timeout(60):
        made = MqttClient(*await asyncio.open_connection(host, port))
        await made.connect(Login(), 0)
        yield made
        await made.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
async def test_a_message_goes_from_each_listener_to_each(gateway: Running, host: str) -> None:
    port = gateway.port("mqtt")
    async with client(host, port) as one, client("127.0.0.2", port) as other:
        await other.subscribe([f"by/{host}"], 1)
        await one.publish(f"by/{host}", b"x", 1)
        assert (await anext(other.messages())).payload == b"x"


async def test_a_listener_with_a_host_of_its_own_is_there_alone(gateway: Running) -> None:
    port = gateway.port("ws")
    _, writer = await asyncio.open_connection("localhost", port)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.2", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_coap_answers_from_the_address_that_was_asked(gateway: Running, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asker:  # not connected: it hears anybody
        asker.settimeout(60)
        asker.sendto(bytes.fromhex("40010001") + b"\xb6status", (host, gateway.port("coap")))
        while (heard := asker.recvfrom(65_536))[0][1] == 0:
            assert heard[0].hex() == "60000001"  # the answer is late, and comes by itself
        answer, sender = heard
    assert answer[1] == 0x45  # 2.05
    assert sender[:2] == (host, gateway.port("coap"))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]"])
async def test_dtls_sessions_open_at_each_address(gateway: Running, host: str) -> None:
    uri = f"coaps://{host}:{gateway.port('coaps')}/sensors/valve"
    answer = await request(
        "PUT", uri, payload=b"1", psk_identity="operator", psk_key=PSK, timeout_s=60
    )
    assert answer.ok


def test_all_of_them_are_told_each_with_one_port(gateway: Running) -> None:
    told = gateway.told["listeners"]
    for scheme in ("mqtt", "coap", "coaps"):
        port = gateway.port(scheme)
        assert told[scheme] == [f"127.0.0.1:{port}", f"127.0.0.2:{port}", f"[::1]:{port}"]
        assert gateway.told[scheme] == told[scheme][0]
        assert f"{scheme} {' '.join(told[scheme])}" in gateway.line
    assert f"127.0.0.1:{gateway.port('ws')}" in told["ws"]


def test_commands_find_it(gateway: Running) -> None:
    for command in (("status",), ("pub", "-t", "a", "-m", "1")):
        done = subprocess.run(
            [sys.executable, "-m", "gateway.tools.cli", *command, "--config", str(gateway.config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"localhost"', '"x.invalid"', "mqtt.websocket_host: 'x.invalid': "),
    ],
)
def test_a_name_that_nobody_knows_is_one_line_that_names_the_field(
    gateway: Running, tmp_path: Path, old: str, new: str, why: str
) -> None:
    assert old in CONFIG
    config = gateway.config.with_name(f"{tmp_path.name}.toml")
    config.write_text(CONFIG.replace(old, new).replace('"state"', f'"{tmp_path}"'))
    process = begin(config)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1  # it may pass: systemd tries again
    (line,) = err.splitlines()
    assert line.startswith(f"hedgerow: {why}")


def test_a_port_that_is_taken_at_one_address_is_named_with_it(
    gateway: Running, tmp_path: Path
) -> None:
    config = gateway.config.with_name(f"{tmp_path.name}.toml")
    port = gateway.port("mqtt")
    hosts = '["127.0.0.3", "127.0.0.2"]'
    text = CONFIG.replace(
        '["127.0.0.1", "127.0.0.2", "::1"]\nport = 0', f"{hosts}\nport = {port}", 1
    )
    config.write_text(text.replace('"state"', f'"{tmp_path}"'))
    process = begin(config)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1  # it may pass: systemd tries again
    (line,) = err.splitlines()
    assert line.startswith(f"hedgerow: mqtt.port: 127.0.0.2:{port}: Address already in use; ")
