"""An alert reaches people once, though both ends are killed, and so does its end.

Each condition is really caused: a full disk, a certificate of seconds, guessed passwords. It is
delivered to a mail server, an ntfy-like server, an Alertmanager and an MQTT client.
"""

from __future__ import annotations

import asyncio
import contextlib
import email
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from argon2 import PasswordHasher
from authority import Authority
from mqtt_peer import Peer
from ports import free_port

from gateway.mqtt import Version
from tests import policies

PATIENCE_S = 120.0
NOT_AUTHORIZED = 0x87
FLEET = ("gw-a", "gw-b", "gw-c")


class Mailbox:
    """Mails by their names: one that comes again after a kill is known by its own."""

    def __init__(self) -> None:
        self.mails: dict[str, str] = {}
        self.controller: Controller | None = None
        self.port = free_port()

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = email.message_from_bytes(envelope.content)
        payload = mail.get_payload(decode=True)
        assert isinstance(payload, bytes)
        self.mails.setdefault(str(mail["Message-ID"]), f"{mail['Subject']}\n{payload.decode()}")
        return "250 OK"

    def start(self) -> None:
        self.controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self.controller.start()

    def stop(self) -> None:
        if self.controller is not None:
            self.controller.stop()
        self.controller = None

    def changes(self, rule: str) -> Counter[str]:
        found = re.findall(rf"(?m)^(RAISED|CLEARED)  {rule} ", "\n".join(self.mails.values()))
        return Counter(found)


class Ntfy:
    """A server that takes what ntfy's does: JSON with a topic, by POST to its root."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.port = free_port()
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            told = json.loads(await reader.readexactly(length))
            is_right = head.startswith("post / ") and told.get("topic") == "ops"
            if is_right:
                self.messages.append(told)
            status = b"200 OK" if is_right else b"400 Bad Request"
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()

    def changes(self, rule: str) -> set[str]:
        texts = "\n".join(one["message"] for one in self.messages)
        return set(re.findall(rf"(?m)^(RAISED|CLEARED)  {rule} ", texts))


class Alertmanager:
    """Debian's, on a port of this machine alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "alertmanager.yml").write_text(
            "route: {receiver: none, group_wait: 1s}\nreceivers: [{name: none}]\n"
        )

    def start(self) -> None:
        command = [
            "prometheus-alertmanager",
            f"--config.file={self.folder}/alertmanager.yml",
            f"--storage.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        with (self.folder / "alertmanager.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def alerts(self, rule: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v2/alerts?active=true"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
            return [one for one in json.load(answer) if one["labels"]["alertname"] == rule]
        return []


class Gateway:
    """One gateway in a process of its own, which may be killed.

    Args:
        folder: of all its files.
        own: more of its configuration.

    """

    def __init__(self, folder: Path, **ports: int) -> None:
        self.folder = folder
        self.port, self.console = free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.state = folder / "state"
        hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
        secret = hasher.hash("secret")
        (folder / "passwords").write_text(f"alice:{secret}\nbob:{secret}\n")
        (folder / "tree.key").write_text("ab" * 32)
        policies.write(folder / "policy.toml", alice="operator", bob="reader")
        self.mqtt = ""
        self.id, self.capability, self.neighbours = "gw", 1, list[str]()
        self.alerts = f"""
[alerts.mail]
host = "127.0.0.1"
port = {ports["mail"]}
tls = "off"
sender = "gw@example.org"
to = ["ops@example.org"]
[alerts.ntfy]
url = "http://127.0.0.1:{ports["ntfy"]}"
topic = "ops"
[alerts.mqtt]
"""
        if "alertmanager" in ports:
            self.alerts += (
                f'[alerts.alertmanager]\nurl = "http://127.0.0.1:{ports["alertmanager"]}"\n'
            )

    def write(self, more: str = "") -> None:
        (self.folder / "gateway.toml").write_text(
            f"""
[gateway]
id = "{self.id}"
domain = "campus"
state_dir = "{self.state}"
status_interval_s = 0
[mqtt]
port = {self.port}
{self.mqtt}
[coap]
port = 0
[console]
port = {self.console}
[tree]
key_file = "{self.folder}/tree.key"
tls = "off"
discovery = false
neighbours = {self.neighbours}
capability = {self.capability}
hello_s = 0.3
[access]
password_file = "{self.folder}/passwords"
policy_file = "{self.folder}/policy.toml"
[alerts]
look_s = 0.2
gather_s = 0
failed_logins = 3
off = ["clock-not-kept", "hot"]
after_s = {{disk-full = 0.5, gateway-away = 2}}
ack_url = "http://127.0.0.1:{self.console}"
{more}
{self.alerts}
"""
        )

    def start(self) -> None:
        command = [sys.executable, "-m", "gateway.tools.cli", "run"]
        command += ["--config", str(self.folder / "gateway.toml")]
        with (self.folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def reload(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    async def peer(self, name: str, password: bytes = b"secret", user: str = "alice") -> Peer:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(OSError):
                    peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port), Version.V5)
                    self.code = await peer.connect(name, username=user, password=password)
                    return peer
                await asyncio.sleep(0.1)

    async def guess(self, times: int = 5) -> None:
        for number in range(times):
            peer = await self.peer(f"guesser-{number}", b"guess")
            assert self.code != 0
            peer.close()

    def kept(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, json.JSONDecodeError):
            kept: dict[str, Any] = json.loads((self.state / "alerts.json").read_bytes())
            return kept
        return {"alerts": [], "ways": {}}

    def is_delivered(self) -> bool:
        ways = self.kept()["ways"].values()
        return bool(ways) and not any(one["waiting"] for one in ways)

    def standing(self) -> set[str]:
        return {one["raised"]["rule"] for one in self.kept()["alerts"] if one["is_told"]}


@pytest.fixture
async def ways() -> AsyncIterator[tuple[Mailbox, Ntfy]]:
    box, ntfy = Mailbox(), Ntfy()
    box.start()
    await ntfy.start()
    yield box, ntfy
    box.stop()
    if ntfy.server is not None:
        ntfy.server.close()


@pytest.fixture
async def gateway(tmp_path: Path, ways: tuple[Mailbox, Ntfy]) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path, mail=ways[0].port, ntfy=ways[1].port)
    yield made
    made.kill()


async def until(holds: Any, what: str = "") -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None


def ask(url: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.peer("prometheus-alertmanager", "prometheus-alertmanager")
async def test_guessed_passwords_reach_all_ways_once_though_both_ends_are_killed(
    tmp_path: Path, ways: tuple[Mailbox, Ntfy]
) -> None:
    box, ntfy = ways
    manager = Alertmanager(tmp_path)
    gateway = Gateway(tmp_path, mail=box.port, ntfy=ntfy.port, alertmanager=manager.port)
    try:
        gateway.write()
        gateway.start()
        box.stop()  # the mail server is down, and Alertmanager is not up yet
        await gateway.guess()
        await until(lambda: gateway.kept()["ways"].get("mail", {}).get("trouble"), "mail fails")
        gateway.kill()
        box.start()
        manager.start()
        gateway.start()
        await until(lambda: box.changes("refused-logins")["RAISED"], "mail")
        await until(lambda: ntfy.changes("refused-logins") == {"RAISED"}, "ntfy")
        await until(lambda: manager.alerts("refused-logins"), "alertmanager")
        (one,) = manager.alerts("refused-logins")
        assert one["labels"]["gateway"] == "gw"
        await until(gateway.is_delivered, "all is noted")
        gateway.kill()
        manager.kill()
        manager.start()
        gateway.start()
        panel = await gateway.peer("panel")
        code, page, _ = await asyncio.to_thread(ask, _link(box))
        assert (code, "Take it on" in page) == (200, True)
        panel.close()
        await until(lambda: manager.alerts("refused-logins"), "alertmanager forgets, and is told")
        assert box.changes("refused-logins") == {"RAISED": 1}
        assert len([one for one in ntfy.messages if "refused-logins" in one["message"]]) == 1
    finally:
        gateway.kill()
        manager.kill()


def _link(box: Mailbox) -> str:
    found = re.search(r"take it on: (http\S+)", "\n".join(box.mails.values()))
    assert found is not None
    return found[1]


async def test_the_link_of_a_mail_takes_its_alert_on_once_and_only_by_its_button(
    gateway: Gateway, ways: tuple[Mailbox, Ntfy]
) -> None:
    box, ntfy = ways
    gateway.write()
    gateway.start()
    await gateway.guess()
    await until(lambda: box.changes("refused-logins")["RAISED"], "mail")
    await until(lambda: ntfy.messages, "ntfy")
    assert _link(box) in ntfy.messages[0]["message"]
    link = _link(box)
    for _ in range(3):  # a scanner of mails follows it
        code, page, fields = await asyncio.to_thread(ask, link)
        assert (code, '<form method="post">' in page) == (200, True)
    assert fields["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in fields["Content-Security-Policy"]
    assert [one["taken_on"] for one in gateway.kept()["alerts"]] == [None]
    assert (await asyncio.to_thread(ask, link[:-4] + "AAAA", "POST"))[0] == 404
    assert (await asyncio.to_thread(ask, f"http://127.0.0.1:{gateway.console}/metrics", "POST"))[
        0
    ] == 405
    code, page, _ = await asyncio.to_thread(ask, link, "POST")
    assert (code, "You have taken it on" in page) == (200, True)
    (alert,) = gateway.kept()["alerts"]
    assert alert["taken_on"]["who"] == "link in a mail"
    gateway.kill()
    gateway.start()
    (await gateway.peer("panel")).close()
    code, page, _ = await asyncio.to_thread(ask, link, "POST")
    assert (code, "taken on already, by link in a mail" in page) == (200, True)


async def test_an_alert_is_taken_on_by_a_message_on_the_gateways_topic(gateway: Gateway) -> None:
    gateway.write()
    gateway.start()
    await gateway.guess()
    await until(lambda: "refused-logins" in gateway.standing(), "told")
    name = gateway.kept()["alerts"][0]["raised"]["alert"]
    panel = await gateway.peer("panel")
    topic = "campus/-/gw/alerts/ack"
    for payload in (b"", b"\xff", b"{", b"nobody:knows:1", b'{"alert": "x", "colour": 1}'):
        await panel.publish(topic, payload)
    viewer = await gateway.peer("viewer", user="bob")
    assert await viewer.publish(topic, name.encode()) == NOT_AUTHORIZED
    assert await viewer.publish("campus/-/gw/alerts", b"{}", retain=True) == NOT_AUTHORIZED
    viewer.close()
    assert gateway.kept()["alerts"][0]["taken_on"] is None
    await panel.publish(topic, json.dumps({"alert": name, "note": "it is Bob"}).encode())
    await until(lambda: gateway.kept()["alerts"][0]["taken_on"], "taken on")
    taken = gateway.kept()["alerts"][0]["taken_on"]
    assert (taken["who"], taken["note"]) == ("mqtt", "it is Bob")
    panel.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MB with room for the state of a gateway."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a disk of its own needs root and the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def problem(panel: Peer) -> dict[str, Any]:
    """Return what the gateway says next on its topic."""
    packet = await panel.next()
    found: dict[str, Any] = json.loads(packet.payload)
    return found


async def test_a_disk_that_is_full_is_told_and_its_end_when_there_is_room(
    gateway: Gateway, ways: tuple[Mailbox, Ntfy], small_disk: Path
) -> None:
    box, _ = ways
    gateway.state = small_disk / "state"
    gateway.write()
    gateway.start()
    panel = await gateway.peer("panel")
    await panel.subscribe("campus/-/gw/alerts", qos=0)
    assert (await problem(panel))["problem"] == "OFF"
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filling").write_bytes(b"\0" * (free - (1 << 20)))
    told = await problem(panel)
    assert (told["problem"], told["alerts"][0]["rule"]) == ("ON", "disk-full")
    await until(lambda: box.changes("disk-full")["RAISED"], "raised")
    panel.close()
    gateway.kill()
    gateway.start()
    (small_disk / "filling").unlink()
    await until(lambda: box.changes("disk-full")["CLEARED"], "cleared")
    assert box.changes("disk-full") == {"RAISED": 1, "CLEARED": 1}
    panel = await gateway.peer("panel")
    await panel.subscribe("campus/-/gw/alerts", qos=0)
    assert (await problem(panel))["problem"] == "OFF"
    panel.close()


async def test_a_gateway_that_is_killed_is_told_of_by_one_other_and_so_is_its_return(
    tmp_path: Path, ways: tuple[Mailbox, Ntfy]
) -> None:
    box, ntfy = ways
    fleet: list[Gateway] = []
    for name, capability in zip(FLEET, (30, 20, 10), strict=True):
        folder = tmp_path / name
        folder.mkdir()
        made = Gateway(folder, mail=box.port, ntfy=ntfy.port)
        made.id, made.capability = name, capability
        made.neighbours = [f"127.0.0.1:{one.port}" for one in fleet]
        made.write()
        fleet.append(made)
    head, teller, _ = fleet
    try:
        for one in fleet:
            one.start()
        await asyncio.to_thread(_see_each_other, fleet)
        head.kill()
        await until(lambda: box.changes("gateway-away")["RAISED"], "raised")
        await until(teller.is_delivered, "noted")
        teller.kill()
        teller.start()
        await asyncio.to_thread(_see_each_other, fleet[1:])
        head.start()
        await until(lambda: box.changes("gateway-away")["CLEARED"], "cleared")
        assert box.changes("gateway-away") == {"RAISED": 1, "CLEARED": 1}
    finally:
        for one in fleet:
            one.kill()


def _see_each_other(fleet: list[Gateway]) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    for one in fleet:
        wanted = f"hedgerow_members_away {len(FLEET) - len(fleet)}.0"
        url = f"http://127.0.0.1:{one.console}/metrics"
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as answer:
                told = answer.read().decode()
                if "hedgerow_members 3.0" in told and wanted in told:
                    break
            assert time.monotonic() < ends_s, one.id
            time.sleep(0.2)


async def test_a_certificate_of_seconds_is_told_to_end_and_to_have_ended(
    gateway: Gateway, ways: tuple[Mailbox, Ntfy], tmp_path: Path
) -> None:
    box, _ = ways
    authority = Authority(tmp_path)
    issued = authority.issue("gw", is_server=True, ends_in_s=20.0)
    gateway.mqtt = (
        f'tls_port = 0\ncertificate_file = "{issued.certificate}"\nkey_file = "{issued.key}"\n'
    )
    gateway.write()
    gateway.start()
    await until(lambda: box.changes("certificate-ending")["RAISED"], "it is told to end")
    await until(lambda: box.changes("certificate-ended")["RAISED"], "it has ended")
    await until(lambda: box.changes("certificate-ending")["CLEARED"], "it ends no more")
    renewed = authority.issue("gw", is_server=True)
    renewed.key.replace(issued.key)
    renewed.certificate.replace(issued.certificate)
    gateway.reload()
    await until(lambda: box.changes("certificate-ended")["CLEARED"], "another one is read")
    assert box.changes("certificate-ended") == {"RAISED": 1, "CLEARED": 1}
