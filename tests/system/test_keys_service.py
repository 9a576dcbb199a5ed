"""Goal: a gateway that has a token needs no more, and a fleet that follows its authority needs no
hand: what is revoked is out, and a roll-over goes by, while messages flow."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import fleet_keys
import pytest
from cryptography import x509
from keyed_fleet import KeyedGateway, until
from load import Load

from gateway.tools import cli
from gateway.trust.certificates.authority_folder import trusted

RECONNECT_S = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def enrolment(authority: Path) -> AsyncIterator[str]:
    """The service as a process; where it is."""
    process = await asyncio.create_subprocess_exec(
        *(*fleet_keys.HEDGEROW, "keys", "serve", "--ca", str(authority)),
        *("--listen", "127.0.0.1:0"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = await process.stdout.readline()
    try:
        yield line.decode().split()[-1]
    finally:
        process.terminate()
        assert await process.wait() == 0


async def enrol(
    authority: Path, gateway: KeyedGateway, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    fleet_keys.keys("token", "--ca", authority, gateway.name, "--service", at, "--json")
    token = json.loads(capsys.readouterr().out)["token"]
    done = await asyncio.to_thread(cli.main, ["keys", "enrol", token, "--to", str(gateway.folder)])
    assert done == 0


def issuer(gateway: KeyedGateway) -> x509.Name:
    return x509.load_pem_x509_certificate((gateway.folder / "gateway.pem").read_bytes()).issuer


async def test_gateways_are_enrolled_and_then_follow_revocations_and_a_roll_over_by_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = tmp_path / "authority"
    fleet_keys.issue(authority, "source", "sink", "thief", role="operator")
    async with enrolment(authority) as at:
        a = KeyedGateway(tmp_path / "a", "a", service=at)
        b = KeyedGateway(tmp_path / "b", "b", (a.port,), service=at)
        for each in (a, b):
            await enrol(authority, each, at, capsys)
        await asyncio.gather(a.start(), b.start())
        try:
            await a.told("link 1 to b")
            await revoked_without_a_signal(authority, a)
            await rolled_over(authority, a, b)
        finally:
            await asyncio.gather(a.stop(), b.stop())


async def revoked_without_a_signal(authority: Path, a: KeyedGateway) -> None:
    async with a.client(authority, "thief", "thief") as thief:
        fleet_keys.keys("revoke", "--ca", authority, "thief")
        async with asyncio.timeout(60):
            assert await thief.next() is not None  # a DISCONNECT
            assert await thief.next() is None


async def rolled_over(authority: Path, a: KeyedGateway, b: KeyedGateway) -> None:
    async with (
        b.client(authority, "source", "source") as source,
        a.client(authority, "sink", "sink") as sink,
    ):
        load = Load(source, sink)
        await load.begin()
        fleet_keys.keys("roll-over", "--ca", authority)
        new = trusted(authority)[0].subject
        await until(lambda: issuer(a) == issuer(b) == new, a, b)
        await load.passed()
        assert a.without_link_s("b") == b.without_link_s("a") == []
        await load.end()
    assert load.got == Counter({b"%d" % n: 1 for n in range(load.acknowledged)})
    fleet_keys.keys("renew", "--ca", authority, "source", "sink")
    fleet_keys.keys("roll-over", "--ca", authority, "--finish")
    await a.told("link 1 to b is down")  # by whoever reads its files first
    await until(lambda: a.count("to b (") >= 2, a)
    gaps = a.without_link_s("b")
    assert gaps and max(gaps) < RECONNECT_S
    async with b.client(authority, "source", "source") as source:
        assert await source.publish("after") in (0, 16)
