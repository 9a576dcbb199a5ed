"""Goal: what is revoked is out at once on every face of a gateway, and nobody else notices."""

from __future__ import annotations

import asyncio
import base64
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import fleet_keys
import pytest
from keyed_fleet import KeyedGateway, until
from load import Load
from mqtt_peer import Peer

from dtls import keystore
from gateway.broker.access import password_lines
from gateway.coap_client import ClientError, CoapClient
from gateway.mqtt import Disconnect, ReasonCode
from tree_handler import batch
from tree_handler.batch import Epoch

AT_ONCE_S = 15.0
"""From the end of a reload, on a busy machine."""
RECONNECT_S = 30.0
"""A gateway dials again after 0.1 to 5 s."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Fleet = tuple[Path, KeyedGateway, KeyedGateway, KeyedGateway]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    """An authority's folder and three gateways: b and c dial a."""
    authority = tmp_path / "authority"
    fleet_keys.issue(authority, "a", "b", "c")
    fleet_keys.issue(authority, "source", "sink", "thief", role="operator")
    a = KeyedGateway(tmp_path / "a", "a")
    b = KeyedGateway(tmp_path / "b", "b", (a.port,))
    c = KeyedGateway(tmp_path / "c", "c", (a.port,))
    for each in (a, b, c):
        each.take_all(authority)
    for device in ("device-1", "device-2"):
        fleet_keys.keys("issue", "--psk", device, "--file", a.psk)
    for user in ("alice", "bob"):
        password_lines.change(a.passwords, user, password_lines.line(user, b"open sesame"))
    await asyncio.gather(*(each.start() for each in (a, b, c)))
    await a.told("is up", 3)
    yield authority, a, b, c
    await asyncio.gather(*(each.stop() for each in (a, b, c) if each.is_running))


def device(gateway: KeyedGateway, identity: str) -> CoapClient:
    key = keystore.load(gateway.psk).key_of(identity.encode())
    return CoapClient(psk_identity=identity, psk_key=key)


async def read(client: CoapClient, gateway: KeyedGateway, timeout_s: float = 10.0) -> str:
    uri = f"coaps://127.0.0.1:{gateway.dtls_port}/status"
    return (await client.request("GET", uri, timeout_s=timeout_s)).code


def metrics(gateway: KeyedGateway, user: str) -> int:
    """Ask the console for its metrics as a user; return the status of the answer."""
    proof = base64.b64encode(f"{user}:open sesame".encode()).decode()
    uri = f"http://127.0.0.1:{gateway.console_port}/metrics"
    request = urllib.request.Request(uri, headers={"Authorization": f"Basic {proof}"})
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def ended(client: Peer) -> None:
    """Wait until a client is told that it may not stay."""
    told = await client.next()
    assert isinstance(told, Disconnect) and told.reason == ReasonCode.NOT_AUTHORIZED, told
    assert await client.next() is None


async def test_the_revoked_are_out_at_once_and_nobody_else_notices(fleet: Fleet) -> None:
    authority, a, b, c = fleet
    async with (
        b.client(authority, "source", "source") as source,
        a.client(authority, "sink", "sink") as sink,
        a.client(authority, "thief", "thief") as thief,
    ):
        lost, kept = device(a, "device-1"), device(a, "device-2")
        assert await read(lost, a) == await read(kept, a) == "2.05"
        assert await asyncio.to_thread(metrics, a, "alice") == 200
        load = Load(source, sink)
        await load.begin()
        await load.passed()

        password_lines.change(a.passwords, "alice", None)
        fleet_keys.keys("revoke", "--ca", authority, "c", "thief")
        fleet_keys.keys("revoke", "--psk", "device-1", "--file", a.psk)
        for each in (a, b):
            each.take(authority, "revoked.pem")
        await asyncio.gather(a.reload(), b.reload())
        begun_s = time.monotonic()
        await asyncio.gather(
            ended(thief),
            a.told("to c is down: its certificate is no longer accepted"),
            a.told("its key is no longer accepted"),
        )
        assert time.monotonic() - begun_s < AT_ONCE_S

        # They do not come back.
        again = await a.connection(authority, "thief")
        assert await again.connect("thief") == -1
        await c.told("revoked")
        with pytest.raises(ClientError):
            await read(lost, a, 3.0)
        assert await asyncio.to_thread(metrics, a, "alice") == 401
        assert await asyncio.to_thread(metrics, a, "bob") == 200

        await load.passed()
        await load.end()
        assert load.got == Counter({b"%d" % n: 1 for n in range(load.acknowledged)})
        assert await read(kept, a) == "2.05"
        sessions = [line for line in a.lines if "session with" in line and "device-2" in line]
        assert len(sessions) == 1  # it is the one that it had
        assert a.without_link_s("b") == b.without_link_s("a") == [], "\n".join(a.lines)


def logged(gateway: KeyedGateway, topic: str) -> set[tuple[Epoch, int]]:
    """Return the messages of a topic that stand in a gateway's log, by stream and number."""
    found: set[tuple[Epoch, int]] = set()
    for path in (gateway.folder / "state" / "log").glob("*.log"):
        data = path.read_bytes()
        for at, header in batch.frames(data):
            if header.clients and not header.passed:
                entries = batch.decode(data[at : at + header.end], header)
                numbers = range(header.first, header.last + 1)
                found |= {
                    (header.stream, number)
                    for number, entry in zip(numbers, entries, strict=True)
                    if entry.topic == topic
                }
    return found


async def test_a_fleet_goes_over_to_another_authority_one_by_one_without_losing_a_message(
    fleet: Fleet, tmp_path: Path
) -> None:
    authority, a, b, c = fleet
    everybody = (a, b, c)
    async with (
        b.client(authority, "source", "source") as source,
        c.client(authority, "sink", "sink") as sink,
    ):
        load = Load(source, sink)
        await load.begin()
        await load.passed()

        fleet_keys.keys("roll-over", "--ca", authority)
        for each in everybody:
            each.take(authority, "ca.pem", "revoked.pem")
            await each.reload()
        await load.passed()
        for each in everybody:
            fleet_keys.keys("renew", "--ca", authority, each.name)
            each.take_all(authority)
            await each.reload()
            await load.passed()
        for each in everybody:  # nobody has lost a link yet
            for other in everybody:
                assert each.without_link_s(other.name) == [], "\n".join(each.lines)

        fleet_keys.keys("renew", "--ca", authority, "--all")
        await load.end()
    assert load.got == Counter({b"%d" % n: 1 for n in range(load.acknowledged)})

    # Clients of the old authority have to come again; links do by themselves.
    fleet_keys.keys("roll-over", "--ca", authority, "--finish")
    async with (
        b.client(authority, "source", "source") as source,
        c.client(authority, "sink", "sink") as sink,
    ):
        load = Load(source, sink)
        await load.begin()
        await load.passed()
        for each in everybody:
            each.take(authority, "ca.pem", "revoked.pem")
            await each.reload()
        await until(lambda: a.count(" is up") >= 5, a)
        await load.passed()
        await load.end()
    assert load.got == Counter({b"%d" % n: 1 for n in range(load.acknowledged)})
    for each in (b, c):
        gaps = each.without_link_s("a")
        assert gaps and max(gaps) < RECONNECT_S, gaps

    # New hardware, which knows the new authority alone, proves what was signed under the old one.
    fleet_keys.keys("issue", "--ca", authority, "d")
    d = KeyedGateway(tmp_path / "d", "d", (a.port,))
    d.take_all(authority)
    await d.start()
    try:
        before = logged(b, "load")
        assert len(before) > load.acknowledged  # both loads
        await until(lambda: logged(d, "load") == before, d, a)
    finally:
        await d.stop()

    # Who starts again has nothing of the old authority, and joins a root that began under it.
    root = re.findall(r"root (\w)/", "\n".join(a.lines))[-1]
    for each in (one for one in everybody if one.name != root):
        joined = len(each.said(rf"ACCEPT from \w: root {root}/"))
        await each.stop()
        await each.start()
        await until(lambda: len(each.said(rf"ACCEPT from \w: root {root}/")) > joined, each)  # noqa: B023
