"""Alerts of a real gateway: caused, listed, acknowledged, silenced, sent to servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from dtls_clients import DtlsPeer
from mqtt_peer import Peer

from dtls.context import ClientContext
from gateway.mqtt import Version
from gateway.process.configuration import config
from gateway.process.running.gateway_process import GatewayProcess
from gateway.process.running.kept_alerts import STATE_FILE
from tests import policies

PATIENCE_S = 60.0


class Hook:
    """A webhook on loopback that keeps what it gets, or refuses it."""

    def __init__(self) -> None:
        self.status = 200
        self.records: list[dict[str, Any]] = []

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            body = json.loads(await reader.readexactly(length))
            if self.status == 200:
                self.records += body["alerts"]
            writer.write(f"HTTP/1.1 {self.status} x\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()

    def changes(self, rule: str) -> list[str]:
        met = {one["delivery_id"]: one for one in self.records if one["rule"] == rule}
        return [one["change"] for one in met.values()]


class Place:
    """One gateway that lets in alice, looks ten times a second, and sends to a webhook."""

    def __init__(self, folder: Path, hook: Hook) -> None:
        self.folder = folder
        self.config = folder / "gateway.toml"
        hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        (folder / "passwords").write_text(f"alice:{hasher.hash('secret')}\n")
        (folder / "tree.key").write_text("ab" * 32)
        psk = folder / "psk"
        psk.touch(mode=0o600)
        psk.write_text(f"operator:{'cd' * 32}\nreader:{'ef' * 32}\n")
        policies.write(
            folder / "policy.toml", operator="operator", reader="reader", alice="operator"
        )
        self.config.write_text(
            f"""
[gateway]
id = "gw"
domain = "campus"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "{psk}"
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
[access]
password_file = "{folder}/passwords"
policy_file = "{folder}/policy.toml"
[home_assistant]
discovery = true
[alerts]
look_s = 0.1
gather_s = 0
failed_logins = 3
off = ["clock-not-kept", "disk-full", "hot"]
webhook = {{url = "http://127.0.0.1:{hook.port}/"}}
mqtt = {{}}
"""
        )
        self.process = self.made()

    def made(self) -> GatewayProcess:
        return GatewayProcess(config.load(self.config, config.GatewaySettings))

    async def hedgerow(self, *arguments: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "gateway.tools.cli", *arguments]
        command += ["--config", str(self.config)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(PATIENCE_S):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def guess(self, times: int = 4) -> None:
        for _ in range(times):
            port = self.process.mqtt_port
            peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
            assert await peer.connect("guesser", username="alice", password=b"guess") != 0


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    await made.start()
    yield made
    made.server.close()


@pytest.fixture
async def place(tmp_path: Path, hook: Hook) -> AsyncIterator[Place]:
    made = Place(tmp_path, hook)
    await made.process.start()
    yield made
    await made.process.watched.stop()
    await made.process.stop()


async def until(what: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not what():
            await asyncio.sleep(0.05)


async def test_guessed_passwords_are_told_once_also_over_a_restart(
    place: Place, hook: Hook
) -> None:
    await place.guess()
    await until(lambda: hook.changes("refused-logins") == ["raised"])
    await until(lambda: b'"delivered":1' in (place.folder / "state" / STATE_FILE).read_bytes())
    await place.process.watched.stop()
    await place.process.stop()
    place.process = place.made()
    await place.process.start()
    code, out, _ = await place.hedgerow("alerts", "list", "--json")
    assert code == 0, "it is a warning"
    (alert,) = json.loads(out)["alerts"]
    assert (alert["rule"], alert["is_told"]) == ("refused-logins", True)
    assert hook.changes("refused-logins") == ["raised"]
    status = place.process.status()["alerts"]
    assert (status["standing"], status["ways"]["webhook"]["waiting"]) == (1, 0)


async def test_who_is_refused_over_dtls_counts_with_wrong_passwords(
    place: Place, hook: Hook
) -> None:
    await place.guess(2)  # three are told of
    for _ in range(2):
        stranger = ClientContext("stranger", bytes(32))
        with pytest.raises(ConnectionRefusedError):
            async with DtlsPeer(stranger, place.process.parts.coap.coaps_port):
                pass
    await until(lambda: hook.changes("refused-logins") == ["raised"])


async def test_an_alert_is_shown_acknowledged_and_silenced_by_the_command(
    place: Place, hook: Hook
) -> None:
    await place.guess()
    await until(lambda: hook.changes("refused-logins") == ["raised"])
    code, out, err = await place.hedgerow("alerts")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:3] == ["warning", "refused-logins", "gw"]
    code, out, _ = await place.hedgerow("alerts", "show", "refused-logins")
    seen = next(line for line in out.splitlines() if line.startswith("seen"))
    # While it stands it says how much came in all, from the next look on.
    assert seen in {
        "seen         4 log-ins were refused in 5 minutes",
        "seen         4 log-ins were refused in all",
    }
    code, out, err = await place.hedgerow("alerts", "ack", "refused", "--note", "it is Bob")
    assert (code, err) == (0, "")
    _, out, _ = await place.hedgerow("alerts")
    assert "taken on by " in out
    code, out, _ = await place.hedgerow("alerts", "silence", "rule=part-*", "--for", "2h")
    assert out.startswith("silence 1: rule=part-*, until ")
    code, out, _ = await place.hedgerow("alerts", "unsilence", "1")
    assert (code, out) == (0, "silence 1 has ended\n")
    code, _, err = await place.hedgerow("alerts", "unsilence", "1")
    assert code == 1
    assert "there is no silence 1" in err
    code, out, _ = await place.hedgerow("alerts", "rules")
    assert "messages-lost" in out
    assert "clock-not-kept" not in out


async def test_a_trial_alert_arrives_and_what_is_wrong_is_named(place: Place, hook: Hook) -> None:
    code, out, _ = await place.hedgerow("alerts", "test")
    assert (code, out.split(";")[0]) == (0, "a trial alert waits for webhook")
    await until(lambda: hook.changes("test") == ["raised", "cleared"])
    code, _, err = await place.hedgerow("alerts", "test", "pigeon")
    assert code == 1
    assert "'pigeon': the configuration has webhook" in err
    code, _, err = await place.hedgerow("alerts", "silence", "colour=red")
    assert code == 1
    assert "'colour' is none of rule" in err
    assert (await place.hedgerow("alerts", "silence"))[0] == 2
    assert (await place.hedgerow("alerts", "silence", "rule=x", "--for", "soon"))[0] == 2


async def test_who_may_only_read_orders_nothing(place: Place) -> None:
    reader = ("--psk-file", str(place.folder / "psk"), "--psk-identity", "reader")
    assert (await place.hedgerow("alerts", "list", *reader))[0] == 0
    code, _, err = await place.hedgerow("alerts", "test", *reader)
    assert code != 0
    assert "4.03" in err


async def test_a_way_that_fails_is_told_in_the_status_and_gets_all_when_it_is_well(
    place: Place, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.status = 500
    await place.guess()
    await until(
        lambda: place.process.status()["alerts"]["ways"]["webhook"]["trouble"].endswith(
            "answers 500"
        )
    )
    assert "alerts by webhook" in place.process.status()["failing"]
    _, out, _ = await place.hedgerow("status")
    assert "alerts by webhook: 1 wait, 0 dropped" in out
    hook.status = 200
    await until(lambda: hook.changes("refused-logins") == ["raised"])
    await until(lambda: "alerts by webhook" not in place.process.status()["failing"])


async def test_what_is_wrong_stands_on_the_gateways_topic_and_in_home_assistant(
    place: Place,
) -> None:
    port = place.process.mqtt_port
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
    assert await peer.connect("panel", username="alice", password=b"secret") == 0
    await place.guess()
    await until(lambda: place.process.status()["alerts"]["standing"] == 1)
    retained = place.process.parts.broker.core.retention.match
    topic = "campus/-/gw/alerts"
    await until(lambda: any(b'"ON"' in one.payload for _, one in retained(topic)))
    found = [
        json.loads(one.payload)
        for _, one in retained("homeassistant/binary_sensor/gw-alerts/problem/config")
    ]
    assert [one["state_topic"] for one in found] == [topic]
