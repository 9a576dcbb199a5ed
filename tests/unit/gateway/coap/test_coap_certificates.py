"""Goal: certificates open the CoAP port as keys do, and the log says why one does not.

Method: the server over loopback, in one process, with certificates of a test's authority.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import aiocoap
import pytest
from aiocoap import resource
from authority import Authority, Issued
from dtls_clients import CertificateClientContext, DtlsPeer
from fleet_gateway import FleetGateway, until
from policies import admins, keys_may_all

from dtls.context import ClientContext, Context
from dtls.endpoint_limits import EndpointLimits
from dtls.identity import PeerIdentity, Proof
from dtls.keystore import Keystore
from gateway.coap.credentials import DtlsCredentials
from gateway.coap.handshake_log import HOST
from gateway.coap.server import DTLS_LIMITS, CoapListener, CoapRules, CoapServer
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

KEY = b"0123456789abcdef"
PUT = b"\x40\x03\x00\x01\xb5value\xff99"
GET = b"\x40\x01\x00\x02\xb5value"


class Value(resource.Resource):
    """A resource that notes the identity and roles of each writer."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: list[tuple[str, frozenset[str]]] = []

    async def render_get(self, _: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=b"21.5")

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        identity = request.remote.identity
        self.writers.append((str(identity), identity.roles))
        return aiocoap.Message(code=aiocoap.CHANGED)


class Port:
    """A server, its files and its log."""

    def __init__(
        self,
        folder: Path,
        caplog: pytest.LogCaptureFixture,
        limits: EndpointLimits = DTLS_LIMITS,
    ) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.value = Value()
        self._own = self.authority.issue("gw", is_server=True)
        self._caplog = caplog
        self.crl = folder / "crl.pem"
        self.crl.write_bytes(self.authority.revoke())
        site = resource.Site()
        site.add_resource(["value"], self.value)
        self.server = CoapServer(
            site,
            coap=None,
            coaps=CoapListener(("127.0.0.1",), 0),
            keystore=Keystore({"meter-1": KEY}),
            access=keys_may_all(),
            rules=CoapRules(tls=self.tls(), dtls=limits),
        )

    def tls(self, authority: Authority | None = None) -> Tls:
        return Tls(
            TlsFiles(
                self._own.certificate,
                self._own.key,
                ClientCertificate.REQUIRED,
                (authority or self.authority).file,
                None if authority else self.crl,
            )
        )

    def shows(self, issued: Issued | None) -> CertificateClientContext:
        return CertificateClientContext(issued, self.authority)

    def peer(self, context: Context, limit_s: float = 20.0) -> DtlsPeer:
        assert self.server.coaps_port is not None
        return DtlsPeer(context, self.server.coaps_port, limit_s=limit_s)

    def warnings(self) -> list[str]:
        found = [r.getMessage() for r in self._caplog.records if r.levelno >= logging.WARNING]
        self._caplog.clear()
        return found


@pytest.fixture
async def port(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Port]:
    made = Port(tmp_path, caplog)
    async with made.server:
        yield made


async def test_who_shows_a_certificate_writes_as_the_one_it_names(port: Port) -> None:
    shown = port.authority.issue("pump-7", roles=["operator"])
    async with port.peer(port.shows(shown)) as peer:
        assert (await peer.ask(PUT))[1] == 0x44
    shown = port.authority.issue("pump-8", roles=["device"])
    async with port.peer(port.shows(shown)) as peer:
        assert (await peer.ask(PUT))[1] == 0x83
    assert port.value.writers == [("cert:pump-7", frozenset({"operator"}))]
    (line,) = port.warnings()
    assert line.startswith("cert:pump-8 at 127.0.0.1: /value: cert:pump-8 (device) may not PUT ")


Bad = Callable[[Port], Context]
BAD: dict[str, tuple[Bad, str]] = {
    "no certificate": (lambda p: p.shows(None), "peer did not return a certificate"),
    "unknown identity": (
        lambda _: ClientContext("stranger", KEY),
        "unknown psk identity 'stranger'",
    ),
    "rogue authority": (
        lambda p: p.shows(Authority(p.folder, "rogue").issue("pump-7")),
        "unable to get local issuer certificate",
    ),
    "expired": (lambda p: p.shows(p.authority.issue("pump-7", expired=True)), "has expired"),
    "not yet valid": (
        lambda p: p.shows(p.authority.issue("pump-7", is_early=True)),
        "not yet valid",
    ),
    "wrong usage": (
        lambda p: p.shows(p.authority.issue("pump-7", is_server=True)),
        "unsuitable certificate purpose",
    ),
    "no name": (lambda p: p.shows(p.authority.issue()), "0 common names"),
    "two names": (lambda p: p.shows(p.authority.issue("pump-7", "gw")), "2 common names"),
}


@pytest.mark.parametrize("which", BAD)
async def test_who_is_refused_is_in_the_log_with_the_reason_and_nobody_else_notices(
    port: Port, which: str
) -> None:
    made, why = BAD[which]
    async with port.peer(port.shows(port.authority.issue("pump-8"))) as other:
        bad = port.peer(made(port))
        with pytest.raises(ConnectionRefusedError):
            await bad.handshake()
        (line,) = port.warnings()
        assert line.startswith(f"no session with 127.0.0.1:{bad.port}: ")
        assert why in line
        bad.close()
        assert (await other.ask(GET)).endswith(b"21.5")
        assert port.server.peers()["dtls_sessions"] == 1


async def test_a_wrong_key_is_in_the_log_when_its_time_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "another key than that of psk identity 'meter-1'"
    lines: list[str] = []
    for limit_s in (0.3, 3.0, 30.0):  # on a slow machine it takes longer to show the key
        (folder := tmp_path / f"within-{limit_s}").mkdir()
        port = Port(folder, caplog, replace(DTLS_LIMITS, handshake_s=limit_s))
        async with port.server:
            wrong = port.peer(ClientContext("meter-1", KEY[::-1]), limit_s=60.0)
            tries = asyncio.create_task(wrong.handshake())
            await until(lambda: "no session with" in caplog.text)
            tries.cancel()
            await asyncio.wait([tries])
            wrong.close()
        lines = port.warnings()
        if any(said in line for line in lines):
            break
    (line,) = lines
    assert said in line


async def test_lines_of_one_host_are_bounded_and_the_rest_is_a_number(port: Port) -> None:
    context = ClientContext("stranger", KEY)
    for _ in range(HOST.at_once + 5):
        peer = port.peer(context)
        with pytest.raises(ConnectionRefusedError):
            await peer.handshake()
        peer.close()
    assert len(port.warnings()) == HOST.at_once
    await port.server.stop()
    assert port.warnings() == ["more sessions over DTLS than lines: another 5 failed"]


async def test_at_a_renewal_who_was_revoked_is_disconnected_at_once_and_others_go_on(
    port: Port,
) -> None:
    gone, good = port.authority.issue("pump-7"), port.authority.issue("pump-8")
    async with (
        port.peer(port.shows(gone)) as one,
        port.peer(port.shows(good)) as two,
        port.peer(ClientContext("meter-1", KEY)) as three,
    ):
        port.crl.write_bytes(port.authority.revoke(gone))
        port.server.renew(Keystore({"meter-1": KEY}), port.tls(), admins())
        assert port.server.peers()["dtls_sessions"] == 2
        assert await one.closed() == "closed by the peer"
        for peer in (two, three):
            assert (await peer.ask(GET)).endswith(b"21.5")
        again = port.peer(port.shows(gone))
        with pytest.raises(ConnectionRefusedError, match="revoked"):
            await again.handshake()
        again.close()


async def test_while_a_list_or_the_authority_has_ended_no_certificate_opens_a_session_and_keys_do(
    port: Port,
) -> None:
    ended = Authority(port.folder, "ended", expired=True)
    port.crl.write_bytes(port.authority.revoke(outdated=True))
    cases = [
        (port.tls(), port.authority.issue("pump-7"), "CRL has expired"),
        (port.tls(ended), ended.issue("pump-7"), "certificate has expired"),
    ]
    for tls, shown, why in cases:
        port.server.renew(Keystore({"meter-1": KEY}), tls, admins())
        bad = port.peer(port.shows(shown))
        with pytest.raises(ConnectionRefusedError):
            await bad.handshake()
        bad.close()
        assert why in port.warnings()[-1]
        async with port.peer(ClientContext("meter-1", KEY)) as other:
            assert (await other.ask(GET)).endswith(b"21.5")


async def test_at_a_renewal_with_another_authority_those_of_the_old_end(port: Port) -> None:
    new = Authority(port.folder, "new")
    async with port.peer(port.shows(port.authority.issue("pump-7"))) as one:
        port.server.renew(Keystore(), port.tls(new), admins())
        assert await one.closed() == "closed by the peer"
    async with port.peer(port.shows(new.issue("pump-7"))) as two:
        assert (await two.ask(GET)).endswith(b"21.5")
    old = port.peer(port.shows(port.authority.issue("pump-7")))
    with pytest.raises(ConnectionRefusedError, match="unknown ca"):
        await old.handshake()
    old.close()


async def test_a_handshake_under_way_at_a_renewal_that_changes_nothing_goes_on(port: Port) -> None:
    peer = port.peer(port.shows(port.authority.issue("pump-7")))
    await peer.begin()
    port.server.renew(Keystore({"meter-1": KEY}), port.tls(), admins())
    await peer.handshake()
    dtls = port.server.counts().dtls
    assert (dtls["handshakes"], dtls["handshakes_failed"]) == (1, 0)
    peer.close()


async def test_a_handshake_under_way_at_a_renewal_that_takes_a_key_away_comes_to_nothing(
    port: Port,
) -> None:
    peer = port.peer(port.shows(port.authority.issue("pump-7")))
    await peer.begin()
    port.server.renew(Keystore(), port.tls(), admins())
    assert port.server.counts().dtls["handshakes_failed"] == 1
    (line,) = port.warnings()
    assert "the keys have changed meanwhile" in line
    peer.close()


async def test_a_gateway_reads_certificates_and_lists_of_coap_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("gw-a", is_server=True)
    crl = tmp_path / "crl.pem"
    crl.write_bytes(authority.revoke())
    made = FleetGateway(tmp_path, "gw-a")
    made.coap = (
        f'dtls_port = 0\ncertificate_file = "{own.certificate}"\nkey_file = "{own.key}"\n'
        f'client_ca_file = "{authority.file}"\nclient_crl_file = "{crl}"'
    )
    await made.start()
    try:
        port = made.process.parts.coap.coaps_port
        assert port is not None
        assert "coap.certificate_file" in {
            e["field"] for e in made.process.status()["certificates"]
        }
        gone, good = authority.issue("pump-7"), authority.issue("pump-8")
        async with (
            DtlsPeer(CertificateClientContext(gone, authority), port) as one,
            DtlsPeer(CertificateClientContext(good, authority), port) as two,
        ):
            status = b"\x40\x01\x00\x02\xb6status"
            assert (await one.ask(status))[1] == 0x45
            crl.write_bytes(authority.revoke(gone))
            await made.process.reload()
            assert await one.closed() == "closed by the peer"
            assert (await two.ask(status))[1] == 0x45
            crl.write_bytes(b"nonsense")
            await made.process.reload()  # all stays as it was
            assert (await two.ask(status))[1] == 0x45
        assert "coap.client_crl_file" in caplog.text
    finally:
        await made.stop()


def test_where_no_certificates_are_taken_none_of_before_is_and_keys_stand_by_themselves() -> None:
    one, other = (Keystore({"meter-1": key}) for key in (KEY, KEY[::-1]))
    now, before = DtlsCredentials(one), DtlsCredentials(Keystore({"meter-1": KEY}))
    assert now.are(before)
    assert not now.are(DtlsCredentials(other))
    assert not now.still_accept(PeerIdentity(Proof.CERTIFICATE, "meter-1"), before)
    assert now.still_accept(PeerIdentity(Proof.PSK, "meter-1"), before)
    assert not now.still_accept(PeerIdentity(Proof.PSK, "meter-2"), before)
    assert not now.still_accept(PeerIdentity(Proof.PSK, "meter-1"), DtlsCredentials(other))
