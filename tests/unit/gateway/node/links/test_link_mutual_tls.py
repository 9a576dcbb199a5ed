"""Only a gateway that the fleet's authority vouches for opens a link, and only as itself."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority, Issued
from fleet_gateway import LIMIT_S, Fleet, until

from gateway.node.links import handshake, wire
from gateway.node.links.greeting import dial
from gateway.node.links.handshake import Acceptor, Credentials, HandshakeError
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.tcp import TcpAddress
from gateway.process.configuration.config import ConfigError
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, TlsFiles

CREDENTIALS = Credentials("gw-b", "hedgerow", bytes.fromhex("ab" * 32))
NOT_AUTHORIZED = b"\x20\x02\x00\x05"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    yield fleet
    await fleet.stop()


def link_tls(fleet: Fleet, issued: Issued, name: str, crl: Path | None = None) -> LinkTls:
    files = TlsFiles(
        issued.certificate,
        issued.key,
        ClientCertificate.OPTIONAL,
        client_ca=fleet.authority.file,
        client_crl=crl,
    )
    return LinkTls(files, name)


async def answer(port: int, connect: wire.LinkConnect, context: ssl.SSLContext | None) -> bytes:
    """Send a CONNECT to a gateway, and return its answer, or nothing if the link breaks."""
    async with asyncio.timeout(LIMIT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(connect.encode())
        try:
            return await reader.read(4)
        except OSError:
            return b""
        finally:
            writer.close()


async def test_gateways_of_one_fleet_link_over_tls(fleet: Fleet) -> None:
    a, b = fleet.gateway("gw-a"), fleet.gateway("gw-b")
    await a.start()
    await b.start(neighbours=[f"127.0.0.1:{a.port}"])
    for gateway in (a, b):
        await until(lambda g=gateway: set(g.process.status()["members"]) == {"gw-a", "gw-b"})


async def test_a_link_that_is_no_gateways_is_refused(fleet: Fleet) -> None:
    a = fleet.gateway("gw-a")
    await a.start()
    authority, connect = fleet.authority, wire.LinkConnect("gw-b", "hedgerow", bytes(16))
    sensor = authority.client_context(authority.issue("gw-b", roles=["sensor"]))
    another = authority.client_context(authority.issue("gw-c", is_gateway=True))
    for context in (sensor, another, authority.client_context()):
        assert await answer(a.port, connect, context) == NOT_AUTHORIZED
    plain = a.process.mqtt_ports["mqtt"]
    assert await answer(plain, connect, None) == NOT_AUTHORIZED
    assert a.refusals("connection refused (not_authorized)") == 4
    own = authority.client_context(authority.issue("gw-b", is_gateway=True))
    assert await answer(a.port, connect, own) == b"\x20\x02\x00\x00"


async def test_the_certificate_of_another_authority_opens_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    a = fleet.gateway("gw-a")
    await a.start()
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign").issue("gw-b", is_gateway=True)
    context = fleet.authority.client_context(foreign)
    connect = wire.LinkConnect("gw-b", "hedgerow", bytes(16))
    assert await answer(a.port, connect, context) == b""
    await until(lambda: a.refusals("TLS handshake failed"))


async def test_a_certificate_does_not_stand_in_for_the_trees_key(fleet: Fleet) -> None:
    a = fleet.gateway("gw-a")
    await a.start()
    tls = link_tls(fleet, fleet.authority.issue("gw-b", is_gateway=True), "gw-b")
    thief = Credentials("gw-b", "hedgerow", bytes(32))
    with pytest.raises(HandshakeError, match="does not hold the tree's key"):
        await dial(TcpAddress("127.0.0.1", a.port), thief, iter([1]), tls)
    link = await dial(TcpAddress("127.0.0.1", a.port), CREDENTIALS, iter([1]), tls)
    assert link.peer_id == "gw-a"
    link.close()


class Impostor:
    """Speaks TLS with a certificate of the fleet, and answers as a gateway that holds the key."""

    def __init__(self, fleet: Fleet, issued: Issued, answers_as: str) -> None:
        self.heard = bytearray()
        self._as = answers_as
        self._context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=fleet.authority.file
        )
        self._context.load_cert_chain(issued.certificate, issued.key)

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._met, "127.0.0.1", 0, ssl=self._context)
        return int(self._server.sockets[0].getsockname()[1])

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        packets = wire.LinkReader()
        try:
            while (packet := packets.next()) is None:
                data = await reader.read(1000)
                if not data:
                    return
                self.heard += data
                packets.feed(data)
            own = Credentials(self._as, CREDENTIALS.tree, CREDENTIALS.key)
            core = Acceptor(own, secrets.token_bytes(16), wire.LinkConnect.decode(packet.body))
            writer.write(wire.connack(wire.ReturnCode.ACCEPTED))
            writer.write(wire.publish(handshake.TOPIC, core.answer))
            await reader.read()
        finally:
            writer.close()

    async def stop(self) -> None:
        self._server.close()


@pytest.mark.parametrize(
    ("name", "roles", "why"),
    [
        ("gw-a", ["sensor"], "without the role gateway"),
        ("gw-c", ["gateway"], "gw-a with the certificate of another gateway"),
    ],
)
async def test_who_answers_must_be_a_gateway_and_the_one_it_says(
    fleet: Fleet, name: str, roles: list[str], why: str
) -> None:
    impostor = Impostor(fleet, fleet.authority.issue(name, roles=roles, is_server=True), "gw-a")
    port = await impostor.start()
    tls = link_tls(fleet, fleet.authority.issue("gw-b", is_gateway=True), "gw-b")
    try:
        with pytest.raises(HandshakeError, match=why):
            await dial(TcpAddress("127.0.0.1", port), CREDENTIALS, iter([1]), tls)
        assert bool(impostor.heard) == (roles == ["gateway"])  # else not even the CONNECT was sent
    finally:
        await impostor.stop()


async def test_who_answers_with_a_revoked_certificate_is_not_linked_to(
    fleet: Fleet, tmp_path: Path
) -> None:
    revoked = fleet.authority.issue("gw-a", is_gateway=True)
    crl = tmp_path / "crl.pem"
    crl.write_bytes(fleet.authority.revoke(revoked))
    impostor = Impostor(fleet, revoked, "gw-a")
    port = await impostor.start()
    tls = link_tls(fleet, fleet.authority.issue("gw-b", is_gateway=True), "gw-b", crl)
    try:
        with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
            await dial(TcpAddress("127.0.0.1", port), CREDENTIALS, iter([1]), tls)
    finally:
        await impostor.stop()


@pytest.mark.parametrize("dialler", ["gw-a", "gw-b"])
async def test_a_link_ends_when_a_certificate_is_revoked_and_the_files_are_read_again(
    fleet: Fleet, tmp_path: Path, dialler: str
) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_bytes(fleet.authority.revoke())
    issued = fleet.authority.issue("gw-b", is_gateway=True)
    a, b, c = fleet.gateway("gw-a"), fleet.gateway("gw-b", issued=issued), fleet.gateway("gw-c")
    a.mqtt = f'client_crl_file = "{crl}"'
    ports: dict[str, list[str]] = {"gw-a": [], "gw-b": []}
    first, second = (b, a) if dialler == "gw-a" else (a, b)
    await first.start()
    ports[second.name] = [f"127.0.0.1:{first.port}"]
    await second.start(neighbours=ports[second.name])
    await c.start(neighbours=[f"127.0.0.1:{a.port}"])
    await until(lambda: a.links == {"gw-b", "gw-c"})
    kept = [n for n, link in a.process.parts.node.links.items() if link.peer_id == "gw-c"]
    crl.write_bytes(fleet.authority.revoke(issued))
    await a.process.reload()
    await until(lambda: a.links == {"gw-c"})
    failed = a.process.parts.attachment.neighbours.counters.failed
    await until(
        lambda: (
            a.refusals("TLS handshake failed")
            or a.process.parts.attachment.neighbours.counters.failed > failed
        )
    )
    assert list(a.process.parts.node.links) == kept


def test_a_certificate_that_no_neighbour_would_accept_is_named_at_the_start(fleet: Fleet) -> None:
    wrong = {
        "urn:hedgerow:role:gateway is missing": fleet.authority.issue("gw-a", is_server=True),
        "this gateway is 'gw-a'": fleet.authority.issue("gw-b", is_gateway=True),
        "both for servers and for clients": fleet.authority.issue("gw-a", roles=["gateway"]),
        "0 common names": fleet.authority.issue(is_gateway=True),
    }
    for why, issued in wrong.items():
        with pytest.raises(TlsFileError, match=why) as caught:
            link_tls(fleet, issued, "gw-a")
        assert caught.value.field == "certificate_file"


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"tls": "on"}, "tree.tls: 'on' is neither 'required' nor 'off'"),
        ({"tls": "required", "discovery": True}, "tree.tls: 'required', and mqtt.tls_port is miss"),
        ({"tls": "required", "neighbours": ["a:1"]}, "tree.tls: 'required', and mqtt.tls_port is"),
    ],
)
def test_links_without_tls_have_to_be_asked_for(
    fleet: Fleet, tree: dict[str, object], where: str
) -> None:
    gateway = fleet.gateway("gw-a", tls=False)
    gateway.write(**tree)
    with pytest.raises(ConfigError, match=where):
        gateway.read()


async def test_a_gateway_without_certificates_and_neighbours_runs_and_takes_no_links(
    fleet: Fleet,
) -> None:
    gateway = fleet.gateway("gw-a", tls=False)
    await gateway.start(tls="required")
    connect = wire.LinkConnect("gw-b", "hedgerow", bytes(16))
    assert await answer(gateway.port, connect, None) == NOT_AUTHORIZED
