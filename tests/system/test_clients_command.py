"""`hedgerow clients` as an operator runs it, against a real gateway with a key and without."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from mqtt_peer import Peer

from gateway.mqtt import Disconnect, ReasonCode, Version
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess
from tests import policies


class Place:
    """One gateway that lets in alice, and writes over CoAP with a key alone."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "gateway.toml"
        self.psk = folder / "psk"
        hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        (folder / "passwords").write_text(f"alice:{hasher.hash('secret')}\n")
        (folder / "tree.key").write_text("ab" * 32)
        self.psk.touch(mode=0o600)
        self.psk.write_text(f"operator:{'cd' * 32}\n")
        policies.write(folder / "policy.toml", operator="admin", alice="operator")
        self.config.write_text(
            f"""
[gateway]
id = "gw"
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
password_file = "{folder}/passwords"
policy_file = "{folder}/policy.toml"
"""
        )
        self.process = GatewayProcess(config.load(self.config, config.GatewaySettings))

    async def client(self, name: str, version: int = Version.V5) -> Peer:
        port = self.process.mqtt_port
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port), version)
        assert await peer.connect(name, username="alice", password=b"secret") == 0
        return peer

    @property
    def coap(self) -> str:
        """Its address of CoAP."""
        told = json.loads((self.config.parent / "state" / "listeners.json").read_text())
        return str(told["coap"])

    async def hedgerow(
        self, *arguments: str, key: bool = False, at: str = ""
    ) -> tuple[int, str, str]:
        where = (at,) if at else ("--config", str(self.config))
        command = [sys.executable, "-m", "gateway.tools.cli", "clients", *where]
        command += [*arguments, *(("--psk-file", str(self.psk)) if key else ())]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
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


async def test_clients_are_listed_on_their_own_machine_without_a_key(place: Place) -> None:
    meter = await place.client("meter-1")
    await meter.subscribe("load/#")
    code, out, err = await place.hedgerow()
    assert (code, err) == (0, "")
    head, line, total = out.splitlines()
    assert head.split()[:4] == ["client", "user", "address", "protocol"]
    assert line.split()[:5] == ["meter-1", "alice", "127.0.0.1", "MQTT", "5.0"]
    assert line.split()[-4:] == ["1", "0", "0", "0"]
    assert total == "1 connected, 0 away"
    code, out, err = await place.hedgerow("--id", "meter-1")
    assert (code, err) == (0, "")
    assert "  QoS 1  load/#" in out.splitlines()
    _, out, _ = await place.hedgerow("--json")
    assert [one["id"] for one in json.loads(out)] == ["meter-1"]


async def test_of_ones_own_gateway_a_kick_takes_the_key_of_its_configuration(place: Place) -> None:
    meter = await place.client("meter-1")
    code, out, err = await place.hedgerow("--kick", "meter-1")
    assert (code, out, err) == (0, "'meter-1' is disconnected\n", "")
    assert isinstance(await meter.next(), Disconnect)


async def test_a_kick_needs_the_key_and_tells_a_5_0_client_why(place: Place) -> None:
    meter = await place.client("meter-1")
    elsewhere = place.coap
    code, out, err = await place.hedgerow("--kick", "meter-1", at=elsewhere)
    assert (code, out) == (1, "")
    assert err == "hedgerow: 4.01 this needs a key (coaps): --psk-file names a file with one\n"
    await meter.nothing_came()
    code, out, err = await place.hedgerow("--kick", "meter-1", key=True)
    assert (code, out, err) == (0, "'meter-1' is disconnected\n", "")
    answer = await meter.next()
    assert isinstance(answer, Disconnect)
    assert answer.reason == ReasonCode.ADMINISTRATIVE_ACTION
    assert await meter.next() is None


async def test_a_client_that_is_not_there_is_no_traceback(place: Place) -> None:
    for arguments in (("--id", "nobody"), ("--kick", "nobody"), ("--kick", "nobody", "--forget")):
        code, out, err = await place.hedgerow(*arguments, key=True)
        assert (code, out) == (1, "")
        assert err == "hedgerow: 4.04 no such client\n"
    code, _, err = await place.hedgerow("--forget")
    assert (code, err) == (2, "hedgerow: --forget: needs kick\n")


async def test_a_watch_shows_it_again_and_goes_on_when_the_gateway_does_not_answer(
    place: Place,
) -> None:
    one = await place.client("meter-1")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.tools.cli", "clients", "--config", str(place.config)),
        *("--json", "--watch", "0.2", "--timeout", "1"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None

    async def shown() -> list[str] | None:
        """Return who is there, or None if the gateway did not answer in time."""
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline())
        return None if "error" in told else [one["id"] for one in told]

    try:
        async with asyncio.timeout(60):
            while (first := await shown()) is None:
                pass
            assert first == ["meter-1"]
            other = await place.client("meter-2")
            while sorted(await shown() or ()) != ["meter-1", "meter-2"]:
                pass
            await place.process.stop()
            while await shown() is not None:
                pass
        one.close()
        other.close()
    finally:
        process.kill()
        await process.wait()
