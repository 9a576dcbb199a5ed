"""Goal: devices of others prove themselves with certificates; one that is not good opens nothing.

Method: libcoap's command line clients, with OpenSSL and with GnuTLS, against a server in this
process. What is said in a handshake, and by whom it ends, is theirs alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import aiocoap
import pytest
from aiocoap import resource
from authority import Authority, Issued
from policies import keys_may_all

from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

openssl_client = pytest.mark.peer("coap-client-openssl", "libcoap3-bin")
gnutls_client = pytest.mark.peer("coap-client-gnutls", "libcoap3-bin")
BOTH = pytest.mark.parametrize(
    "program",
    [
        pytest.param("coap-client-openssl", marks=openssl_client),
        pytest.param("coap-client-gnutls", marks=gnutls_client),
    ],
)


class Value(resource.Resource):
    """A resource that notes who wrote it."""

    def __init__(self) -> None:
        super().__init__()
        self.payload = b"lukewarm"  # no part of a time in a log
        self.writers: list[str] = []

    async def render_get(self, _: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=self.payload, content_format=0)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        self.payload = request.payload
        self.writers.append(str(request.remote.identity))
        return aiocoap.Message(code=aiocoap.CHANGED)


class Site:
    """The server, and what its authority issues."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.revoked = self.authority.issue("revoked-1")
        own = self.authority.issue("gw", is_server=True)
        crl = folder / "crl.pem"
        crl.write_bytes(self.authority.revoke(self.revoked))
        self.value = Value()
        site = resource.Site()
        site.add_resource(["value"], self.value)
        files = TlsFiles(
            own.certificate, own.key, ClientCertificate.REQUIRED, self.authority.file, crl
        )
        self.server = CoapServer(
            site,
            coap=None,
            coaps=CoapListener(("127.0.0.1",), 0),
            keystore=Keystore({"meter-1": b"0123456789abcdef"}),
            access=keys_may_all(),
            rules=CoapRules(tls=Tls(files)),
        )

    async def run(self, program: str, *arguments: str, limit_s: int = 30) -> str:
        """Run a client to its end; what it printed."""
        uri = f"coaps://127.0.0.1:{self.server.coaps_port}/value"
        process = await asyncio.create_subprocess_exec(
            *(program, "-B", str(limit_s), *arguments, uri),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        out, _ = await process.communicate()
        return out.decode()

    def shows(self, issued: Issued, authority: Authority | None = None) -> tuple[str, ...]:
        """Return the options by which a client shows a certificate and trusts an authority."""
        trusted = (authority or self.authority).file
        return "-c", str(issued.certificate), "-j", str(issued.key), "-C", str(trusted)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    async with made.server:
        yield made


@pytest.mark.parametrize(
    ("program", "ed25519"),
    [
        pytest.param("coap-client-openssl", False, marks=openssl_client, id="OpenSSL, P-256"),
        pytest.param("coap-client-openssl", True, marks=openssl_client, id="OpenSSL, Ed25519"),
        # GnuTLS shows no Ed25519 where TLS 1.2 asks for ECDSA.
        pytest.param("coap-client-gnutls", False, marks=gnutls_client, id="GnuTLS, P-256"),
    ],
)
async def test_libcoap_reads_and_writes_by_its_certificate(
    site: Site, program: str, ed25519: bool
) -> None:
    shown = site.shows(site.authority.issue("pump-7", ed25519=ed25519))
    assert (await site.run(program, *shown)).strip() == "lukewarm"
    await site.run(program, *shown, "-m", "put", "-e", "99")
    assert (site.value.payload, site.value.writers) == (b"99", ["cert:pump-7"])


@BOTH
async def test_libcoap_reads_what_fills_many_blocks(site: Site, program: str) -> None:
    site.value.payload = b"0123456789" * 500
    out = await site.run(program, *site.shows(site.authority.issue("pump-7")))
    assert out.strip() == "0123456789" * 500


@BOTH
async def test_libcoap_comes_with_a_key_where_there_are_certificates(
    site: Site, program: str
) -> None:
    out = await site.run(program, "-u", "meter-1", "-k", "0123456789abcdef")
    assert out.strip() == "lukewarm"


REFUSED = {
    "unknown identity": "unknown psk identity 'stranger'",
    "rogue authority": "unable to get local issuer certificate",
    "expired": "certificate has expired",
    "not yet valid": "not yet valid",
    "revoked": "certificate revoked",
    "wrong usage": "unsuitable certificate purpose",
    "no name": "certificate with 0 common names",
    "server of another authority": "alert of the peer: unknown ca",
}


@BOTH
@pytest.mark.parametrize("which", REFUSED)
async def test_libcoap_is_refused_and_the_log_says_why(
    site: Site, program: str, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    issue = site.authority.issue
    match which:
        case "unknown identity":
            shown: tuple[str, ...] = ("-u", "stranger", "-k", "0123456789abcdef")
        case "rogue authority":
            shown = site.shows(Authority(site.folder, "rogue").issue("pump-7"))
        case "server of another authority":
            shown = site.shows(issue("pump-7"), Authority(site.folder, "rogue"))
        case "revoked":
            shown = site.shows(site.revoked)
        case "no name":
            shown = site.shows(issue())
        case _:
            of = {"expired": "expired", "not yet valid": "is_early", "wrong usage": "is_server"}
            shown = site.shows(issue("pump-7", **{of[which]: True}))
    assert "lukewarm" not in await site.run(program, *shown, limit_s=6)
    counters = site.server.counters
    assert counters is not None
    async with asyncio.timeout(10):
        while not counters.handshakes_failed:
            await asyncio.sleep(0.05)
    assert counters.handshakes == 0
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    why = REFUSED[which]
    if program == "coap-client-gnutls" and which == "rogue authority":
        why = "peer did not return a certificate"  # it shows none but of those it was asked for
    assert any(line.startswith("no session with 127.0.0.1:") and why in line for line in lines)
