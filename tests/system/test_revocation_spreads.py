"""Goal: what is revoked at one gateway is out everywhere, at once, and stays out over a restart.

Three gateways in a line, and a stolen one at its end. The list is given to the first alone; a
device's sessions and the stolen one's link are at the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Issued
from dtls_clients import CertificateClientContext, DtlsPeer
from fleet_gateway import Fleet, FleetGateway, until
from mqtt_peer import Peer

from gateway.mqtt import Disconnect, ReasonCode
from gateway.tools import cli

GET = b"\x40\x01\x00\x02\xbb.well-known\x04core"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def member(fleet: Fleet, name: str) -> FleetGateway:
    """A gateway with a list of its own, on all its faces."""
    issued = fleet.authority.issue(name, is_gateway=True)
    gateway = fleet.gateway(name, issued=issued)
    crl = gateway.folder / "crl.pem"
    crl.write_bytes(fleet.authority.revoke(number=1))
    gateway.mqtt = f'client_crl_file = "{crl}"'
    gateway.coap = (
        f'certificate_file = "{issued.certificate}"\nkey_file = "{issued.key}"\n'
        f'client_ca_file = "{fleet.authority.file}"\nclient_crl_file = "{crl}"\ndtls_port = 0'
    )
    return gateway


async def mqtt(gateway: FleetGateway, fleet: Fleet, shown: Issued) -> Peer:
    context = fleet.authority.client_context(shown)
    return Peer(*await asyncio.open_connection("127.0.0.1", gateway.port, ssl=context), 5)


def coap(gateway: FleetGateway, fleet: Fleet, shown: Issued, limit_s: float = 20.0) -> DtlsPeer:
    port = gateway.process.parts.coap.coaps_port
    assert port is not None
    return DtlsPeer(CertificateClientContext(shown, fleet.authority), port, limit_s=limit_s)


async def test_one_gateway_reads_the_list_and_the_revoked_are_out_at_all(fleet: Fleet) -> None:
    thief, honest = fleet.authority.issue("thief"), fleet.authority.issue("honest")
    a, b, c, stolen = (member(fleet, f"gw-{name}") for name in ("a", "b", "c", "stolen"))
    await a.start()
    for gateway, before in ((b, a), (c, b), (stolen, c)):
        await gateway.start(neighbours=[f"127.0.0.1:{before.port}"])
    await until(lambda: b.links == {"gw-a", "gw-c"} and c.links == {"gw-b", "gw-stolen"})
    lost, kept = await mqtt(c, fleet, thief), await mqtt(c, fleet, honest)
    assert await lost.connect("thief") == await kept.connect("honest") == 0
    async with coap(c, fleet, thief) as one, coap(c, fleet, honest) as other:
        await one.ask(GET)
        await other.ask(GET)
        assert c.process.parts.coap.peers()["dtls_sessions"] == 2

        assert stolen.issued is not None
        revoked = fleet.authority.revoke(thief, stolen.issued, number=2)
        (a.folder / "crl.pem").write_bytes(revoked)
        await a.process.reload()  # as by SIGHUP, and nowhere else

        told = await lost.next()
        assert isinstance(told, Disconnect) and told.reason == ReasonCode.NOT_AUTHORIZED, told
        assert await one.closed() == "closed by the peer"
        assert c.process.parts.coap.peers()["dtls_sessions"] == 1
        await until(lambda: c.links == {"gw-b"})
        await other.ask(GET)
    await kept.nothing_came()
    assert c.links == {"gw-b"} and b.links == {"gw-a", "gw-c"}
    trail, what = c.folder / "state" / "audit.jsonl", "revocations of neighbours changed"
    await until(lambda: what in trail.read_text())
    (noted,) = [row for row in trail.read_text().splitlines() if what in row]
    assert "gw-b" in noted and f"{thief.x509.serial_number:x}" in noted

    await c.stop()
    await b.stop()
    await c.start()  # alone, with the file that it had
    again = await mqtt(c, fleet, thief)
    assert await again.connect("thief") == -1
    welcome = await mqtt(c, fleet, honest)
    assert await welcome.connect("honest") == 0


async def test_a_check_goes_by_what_the_gateway_has(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that has ended stops no gateway that was handed a newer list."""
    a, b = member(fleet, "gw-a"), member(fleet, "gw-b")
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: b.links == {"gw-a"})
    (a.folder / "crl.pem").write_bytes(fleet.authority.revoke(number=2))
    await a.process.reload()
    await until(
        lambda: b.process.parts.proof.revocations.lists == a.process.parts.proof.revocations.lists
    )
    await b.stop()
    (b.folder / "crl.pem").write_bytes(fleet.authority.revoke(number=1, outdated=True))
    command = ["check", "--config", str(b.path)]
    assert await asyncio.to_thread(cli.main, command) == 0, capsys.readouterr().out
    await b.start()
    (b.folder / "state" / "revoked.pem").unlink()
    assert await asyncio.to_thread(cli.main, command) == 2
    assert "mqtt.client_crl_file" in capsys.readouterr().out


async def test_a_file_that_is_wrong_keeps_nobody_from_being_revoked(fleet: Fleet) -> None:
    thief = fleet.authority.issue("thief")
    a, b = member(fleet, "gw-a"), member(fleet, "gw-b")
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: b.links == {"gw-a"})
    lost = await mqtt(b, fleet, thief)
    assert await lost.connect("thief") == 0
    b.path.write_text("half a confi")
    (a.folder / "crl.pem").write_bytes(fleet.authority.revoke(thief, number=2))
    await a.process.reload()
    assert isinstance(await lost.next(), Disconnect)
