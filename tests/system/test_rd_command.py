"""`hedgerow rd` as an operator runs it, against a real gateway with a key and without."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.coap_client import CoapClient
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess
from tests import policies

KEY = b"\xcd" * 32


class Place:
    """One gateway with a key, in a domain and a group."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "gateway.toml"
        self.psk = folder / "psk"
        (folder / "tree.key").write_text("ab" * 32)
        self.psk.touch(mode=0o600)
        self.psk.write_text(f"operator:{KEY.hex()}\n")
        policies.write(folder / "policy.toml", operator="operator")
        self.config.write_text(
            f"""
[gateway]
id = "gw"
domain = "campus"
group = "north"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "{self.psk}"
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
[access]
policy_file = "{folder}/policy.toml"
[[sensors]]
type = "switch"
name = "valve"
"""
        )
        self.process = GatewayProcess(config.load(self.config, config.GatewaySettings))

    async def register(self, count: int) -> None:
        listeners = json.loads((self.config.parent / "state" / "listeners.json").read_text())
        async with CoapClient(psk_identity="operator", psk_key=KEY) as client:
            for number in range(count):
                query = f"ep=meter-{number}&d=campus&et=meter&base=coap://m{number}.example"
                answer = await client.request(
                    "POST",
                    f"coaps://{listeners['coaps']}/rd?{query}",
                    payload=b'</temp>;rt="temperature";if="sensor";obs',
                    content_format=40,
                    timeout_s=60,
                )
                assert answer.code == "2.01", answer.payload

    @property
    def coap(self) -> str:
        """Its address of CoAP."""
        told = json.loads((self.config.parent / "state" / "listeners.json").read_text())
        return str(told["coap"])

    def command(self, *arguments: str, key: bool = False, at: str = "") -> list[str]:
        more = ("--psk-file", str(self.psk)) if key else ()
        command = [sys.executable, "-m", "gateway.tools.cli", "rd", *arguments]
        where = ("--host", at) if at else ("--config", str(self.config))
        return [*command, *where, *more]

    async def rd(self, *arguments: str, key: bool = False, at: str = "") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self.command(*arguments, key=key, at=at),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    made = Place(tmp_path)
    await made.process.start()
    yield made
    await made.process.stop()


async def test_devices_are_listed_searched_and_removed(place: Place) -> None:
    await place.register(2)
    code, out, err = await place.rd("list")
    assert (code, err) == (0, "")
    head, own, meter, _, total = out.splitlines()
    assert head.split() == ["endpoint", "domain", "group", "base", "registration", "other"]
    assert own.split()[:3] == ["gw", "campus", "north"]
    assert meter.split()[:4] == ["meter-0", "campus", "-", "coap://m0.example"]
    assert meter.endswith("et=meter")
    assert total == "3 registered"

    code, out, err = await place.rd("search", "rt=temp*", "ep=meter-1")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == [
        *("coap://m1.example/temp", "temperature", "sensor", "obs"),
    ]
    code, out, _ = await place.rd("search", "gp=north", "--json")
    assert [link["domain"] for link in json.loads(out)] == ["campus"]

    code, out, err = await place.rd("remove", "ep=meter-1", at=place.coap)
    assert (code, out) == (1, "")
    assert "4.01" in err
    code, _, err = await place.rd("remove", "et=meter", key=True)
    assert (code, err) == (1, "hedgerow: et=meter: 2 endpoints, not one\n")
    code, _, err = await place.rd("remove", "ep=gw", key=True)
    assert code == 1
    assert "4.03 registered by another" in err
    code, out, err = await place.rd("remove", "ep=meter-1", key=True)
    assert (code, out, err) == (0, "meter-1 is removed\n", "")
    code, out, _ = await place.rd("list", "et=meter", "--json")
    assert [link["ep"] for link in json.loads(out)] == ["meter-0"]
    assert (await place.rd("search", "temperature"))[0] == 2


async def test_a_watch_tells_who_comes_and_goes(place: Place) -> None:
    process = await asyncio.create_subprocess_exec(
        *place.command("watch", "et=meter", "--every", "0.1"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        await place.register(1)
        async with asyncio.timeout(60):
            came = (await process.stdout.readline()).decode()
            assert came.startswith("+ meter-0  coap://m0.example  /rd/")
            assert (await place.rd("remove", "ep=meter-0", key=True))[0] == 0
            assert (await process.stdout.readline()).decode() == "-" + came[1:]
    finally:
        process.kill()
        await process.wait()
