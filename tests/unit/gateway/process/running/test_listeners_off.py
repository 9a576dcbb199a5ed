"""Goal: a gateway listens only where it is told to, and any listener can be off."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.coap_client import request
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess

PSK = bytes.fromhex("ab" * 16)


@asynccontextmanager
async def gateway(folder: Path, mqtt: str, coap: str) -> AsyncIterator[dict[str, Any]]:
    """Run a gateway with these listeners, and give its `listeners.json`."""
    (folder / "tree.key").write_text("ab" * 32)
    (folder / "psk").touch(mode=0o600)
    (folder / "psk").write_text(f"operator:{PSK.hex()}\n")
    file = folder / "gateway.toml"
    file.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "state"
[mqtt]
{mqtt}
[coap]
{coap}
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[console]
enabled = false
[[sensors]]
type = "switch"
name = "valve"
"""
    )
    process = GatewayProcess(config.load(file, config.GatewaySettings))
    before = sockets()
    await process.start()
    try:
        told = json.loads((folder / "state" / "listeners.json").read_text())
        assert sorted(sockets() - before) == sorted(
            int(told[scheme].rpartition(":")[2])
            for scheme in ("mqtt", "ws", "coap", "coaps")
            if told.get(scheme)
        )
        yield told
    finally:
        await process.stop()


def sockets() -> set[int]:
    """The ports that this process listens at."""
    return {
        one.laddr.port
        for one in psutil.Process().net_connections("inet")
        if one.laddr and not one.raddr
    }


async def test_plain_mqtt_can_be_off_beside_another_listener(tmp_path: Path) -> None:
    async with gateway(tmp_path, 'port = "off"\nwebsocket_port = 0', "port = 0") as told:
        assert "mqtt" not in told
        assert told["ws"]
        answer = await request("GET", f"coap://{told['coap']}/status")
        assert json.loads(answer.payload)["id"] == "gw"


async def test_plain_coap_can_be_off_beside_dtls(tmp_path: Path) -> None:
    coap = 'port = "off"\ndtls_port = 0\npsk_file = "psk"'
    async with gateway(tmp_path, "port = 0", coap) as told:
        assert told["coap"] is None
        given = {"psk_identity": "operator", "psk_key": PSK}
        answer = await request("GET", f"coaps://{told['coaps']}/sensors/valve", **given)
        assert answer.ok
        found = await request("GET", f"coaps://{told['coaps']}/rd-lookup/res", **given)
        assert f"coaps://{told['coaps']}/sensors/valve".encode() in found.payload


async def test_dtls_can_be_off_though_there_are_keys(tmp_path: Path) -> None:
    coap = 'port = 0\ndtls_port = "off"\npsk_file = "psk"'
    async with gateway(tmp_path, "port = 0", coap) as told:
        assert told["coaps"] is None
        assert told["coap"]


async def test_all_can_be_off_at_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, 'port = "off"', 'port = "off"') as told:
        assert {key: told.get(key) for key in ("mqtt", "coap", "coaps", "console")} == {
            "mqtt": None,
            "coap": None,
            "coaps": None,
            "console": None,
        }


@pytest.mark.parametrize("word", ["on", "OFF", ""])
async def test_no_other_word_is_a_port(tmp_path: Path, word: str) -> None:
    why = f"mqtt.port: {word!r} is neither a whole number nor 'off'"
    with pytest.raises(config.ConfigError, match=why):
        async with gateway(tmp_path, f'port = "{word}"', "port = 0"):
            pass
