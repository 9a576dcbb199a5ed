"""A gateway process as Mosquitto's clients meet it over TLS, with and without certificates."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from authority import Authority, Issued

pytestmark = [
    pytest.mark.peer("mosquitto_pub", "mosquitto-clients"),
    pytest.mark.peer("mosquitto_sub", "mosquitto-clients"),
]
LIMIT_S = 30
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


class Gateway:
    """A gateway process with a TLS listener, and its files."""

    def __init__(self, folder: Path, client_certificate: str) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key.pem"
        self.crl = folder / "crl.pem"
        self.passwords = folder / "passwords"
        self.policy = folder / "policy.toml"
        self.renew(self.authority.issue("gw", is_server=True))
        self.crl.write_bytes(self.authority.revoke())
        self.passwords.write_text(f"carol:{CHEAP.hash('secret')}\n")
        self.policy.write_text(
            '[roles.sensor]\npublish = ["sensors/%u/#"]\n'
            '[roles.reader]\nsubscribe = ["sensors/#"]\n'
            '[users.alice]\nsubscribe = ["sensors/#"]\n'
            '[users.carol]\npublish = ["sensors/#"]\n'
        )
        (folder / "tree.key").write_text("ab" * 32)
        asks = client_certificate != "none"
        (folder / "gateway.toml").write_text(
            f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
tls_port = 0
certificate_file = "{self.certificate}"
key_file = "{self.key}"
client_certificate = "{client_certificate}"
{f'client_ca_file = "{self.authority.file}"' if asks else ""}
{f'client_crl_file = "{self.crl}"' if asks else ""}
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
[access]
password_file = "{self.passwords}"
policy_file = "{self.policy}"
"""
        )
        self.lines: list[str] = []
        self.process: asyncio.subprocess.Process
        self.port = ""

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.tools.cli", "run"),
            *("--config", str(self.folder / "gateway.toml")),
            stderr=subprocess.PIPE,
        )
        await self.said(" is up: mqtt ")
        listeners = json.loads((self.folder / "state" / "listeners.json").read_text())
        self.port = listeners["mqtts"].rpartition(":")[2]
        assert f"mqtts 127.0.0.1:{self.port}" in self.lines[-1]

    async def said(self, text: str) -> None:
        """Wait for a line of the log."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT_S):
            async for line in self.process.stderr:
                self.lines.append(line.decode())
                if text in self.lines[-1]:
                    return
        raise AssertionError(f"{text!r} is not in\n{''.join(self.lines)}")

    async def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)
        await self.said("are read again")

    async def stop(self) -> None:
        self.process.terminate()
        await self.process.communicate()

    def renew(self, issued: Issued) -> None:
        self.certificate.write_bytes(issued.certificate.read_bytes())
        self.key.write_bytes(issued.key.read_bytes())

    def arguments(self, issued: Issued | None, authority: Authority | None = None) -> list[str]:
        trusted = (authority or self.authority).file
        given = ["-h", "127.0.0.1", "-p", self.port, "--cafile", str(trusted)]
        if issued is not None:
            given += ["--cert", str(issued.certificate), "--key", str(issued.key)]
        return given

    async def run(self, program: str, issued: Issued | None, *more: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *(program, *self.arguments(issued), "-V", "5", "-q", "1", *more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        async with asyncio.timeout(LIMIT_S):
            output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def publish(self, issued: Issued | None, topic: str, *more: str) -> tuple[int, str]:
        return await self.run("mosquitto_pub", issued, "-t", topic, "-m", "x", *more)

    async def subscribe(self, issued: Issued | None, topic: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *("stdbuf", "-oL", "mosquitto_sub", *self.arguments(issued), "-V", "5", "-d"),
            *("-t", topic, "-q", "1", "-F", "got %t"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        await seen(process, "Subscribed")
        return process


async def seen(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        async for line in process.stdout:
            lines.append(line.decode())
            if text in lines[-1]:
                return
    raise AssertionError(f"{text!r} is not in {lines}")


async def ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.communicate()


@pytest.fixture
async def gateway(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    started = Gateway(tmp_path, getattr(request, "param", "required"))
    await started.start()
    yield started
    await started.stop()


@pytest.mark.parametrize("gateway", ["none"], indirect=True)
async def test_a_client_with_a_password_comes_in_over_tls(gateway: Gateway) -> None:
    code, _ = await gateway.publish(None, "sensors/x", "-u", "carol", "-P", "secret")
    assert code == 0
    code, output = await gateway.publish(None, "sensors/x", "-u", "carol", "-P", "wrong")
    assert code != 0
    assert "Bad User Name or Password" in output


@pytest.mark.parametrize("gateway", ["none"], indirect=True)
async def test_a_client_does_not_trust_a_gateway_of_another_authority(gateway: Gateway) -> None:
    other = Authority(gateway.folder, "other")
    process = await asyncio.create_subprocess_exec(
        *("mosquitto_pub", *gateway.arguments(None, other), "-t", "t", "-m", "x"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert process.returncode != 0
    assert b"TLS error" in output


@pytest.mark.parametrize("version", ["tlsv1.2", "tlsv1.3"])
async def test_certificates_let_in_and_give_names_and_roles(gateway: Gateway, version: str) -> None:
    alice = gateway.authority.issue("alice")
    probe = gateway.authority.issue("probe", roles=["sensor"])
    subscriber = await gateway.subscribe(alice, "sensors/#")
    try:
        allowed = await gateway.publish(probe, "sensors/probe/t", "--tls-version", version)
        assert allowed[0] == 0
        await seen(subscriber, "got sensors/probe/t")
        _, output = await gateway.publish(probe, "sensors/other/t", "--tls-version", version)
        assert "Not authorized" in output
    finally:
        await ended(subscriber)


@pytest.mark.parametrize("gateway", ["optional"], indirect=True)
async def test_where_a_certificate_is_optional_a_password_does(gateway: Gateway) -> None:
    carol = ("-u", "carol", "-P", "secret")
    assert (await gateway.publish(None, "sensors/x", *carol))[0] == 0
    assert (await gateway.publish(None, "sensors/x"))[0] != 0
    probe = gateway.authority.issue("probe", roles=["sensor"])
    assert (await gateway.publish(probe, "sensors/probe/t"))[0] == 0


async def test_no_wrong_expired_or_revoked_certificate_lets_in(gateway: Gateway) -> None:
    revoked = gateway.authority.issue("eve", roles=["sensor"])
    gateway.crl.write_bytes(gateway.authority.revoke(revoked))
    await gateway.reload()
    wrong = Authority(gateway.folder, "other").issue("mallory", roles=["sensor"])
    expired = gateway.authority.issue("old", roles=["sensor"], expired=True)
    for issued, topic in ((None, "a"), (wrong, "mallory"), (expired, "old"), (revoked, "eve")):
        code, output = await gateway.publish(issued, f"sensors/{topic}/x")
        assert code != 0, output
    carol = ("-u", "carol", "-P", "secret")  # no password stands in for the certificate
    assert (await gateway.publish(None, "sensors/x", *carol))[0] != 0
    good = gateway.authority.issue("probe", roles=["sensor"])
    assert (await gateway.publish(good, "sensors/probe/x"))[0] == 0


async def test_at_sighup_a_revoked_certificates_connection_ends_and_another_stays(
    gateway: Gateway,
) -> None:
    alice, again = gateway.authority.issue("alice"), gateway.authority.issue("alice")
    first = await gateway.subscribe(alice, "sensors/#")
    second = await gateway.subscribe(again, "sensors/#")
    try:
        gateway.crl.write_bytes(gateway.authority.revoke(alice))
        await gateway.reload()
        await seen(first, "Received DISCONNECT (135)")
        await first.wait()
        probe = gateway.authority.issue("probe", roles=["sensor"])
        assert (await gateway.publish(probe, "sensors/probe/t"))[0] == 0
        await seen(second, "got sensors/probe/t")
    finally:
        await ended(first)
        await ended(second)


async def test_at_sighup_the_policy_and_the_certificate_are_new(gateway: Gateway) -> None:
    probe = gateway.authority.issue("probe", roles=["sensor"])
    assert "Not authorized" in (await gateway.publish(probe, "more/x"))[1]
    gateway.policy.write_text('[roles.sensor]\npublish = ["more/#"]\n')
    other = Authority(gateway.folder, "renewed")
    gateway.renew(other.issue("gw", is_server=True))
    await gateway.reload()
    assert (await gateway.publish(probe, "more/x"))[0] != 0  # it trusts the old authority
    process = await asyncio.create_subprocess_exec(
        *("mosquitto_pub", *gateway.arguments(probe, other), "-V", "5", "-q", "1"),
        *("-t", "more/x", "-m", "x"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    assert (process.returncode, output) == (0, b"")


@pytest.mark.parametrize("name", ["certificate", "key", "crl", "passwords", "policy"])
async def test_at_sighup_a_wrong_file_is_named_and_nothing_changes(
    gateway: Gateway, name: str
) -> None:
    probe = gateway.authority.issue("probe", roles=["sensor"])
    gateway.policy.write_text('[roles.sensor]\npublish = ["more/#"]\n')
    path: Path = getattr(gateway, name)
    path.write_text("nonsense = \n")
    gateway.process.send_signal(signal.SIGHUP)
    await gateway.said("nothing is read again: ")
    assert str(path) in gateway.lines[-1]
    assert (await gateway.publish(probe, "sensors/probe/x"))[0] == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_session_of_a_certificate_and_its_roles_outlive_the_gateway(
    gateway: Gateway, how: signal.Signals
) -> None:
    reader = gateway.authority.issue("carl", roles=["reader"])
    session = ("-i", "kept", "-c", "-x", "1000", "-t", "sensors/#")
    assert (await gateway.run("mosquitto_sub", reader, *session, "-E"))[0] == 0
    gateway.process.send_signal(how)
    await gateway.process.communicate()
    await gateway.start()
    probe = gateway.authority.issue("probe", roles=["sensor"])
    assert (await gateway.publish(probe, "sensors/probe/t"))[0] == 0
    renewed = gateway.authority.issue("carl", roles=["reader"])
    received = await gateway.run("mosquitto_sub", renewed, *session, "-C", "1", "-F", "%t")
    assert received == (0, "sensors/probe/t\n")
