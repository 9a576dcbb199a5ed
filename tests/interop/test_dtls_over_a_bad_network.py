"""Goal: handshakes come through a network that loses, doubles and reorders datagrams.

Method: clients of this process reach our server through a relay: with a key, with a certificate,
and with chains that take several fragments. All have a session and an answer in the end. With
``--soak`` they then reach libcoap's server (`coap-server-openssl`) through a relay with the same
faults; how long both took is printed (``-s``), and nothing is asked of libcoap's.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiocoap
import pytest
from aiocoap import resource
from authority import Authority
from bad_network import BadNetwork, Faults
from dtls_clients import CertificateClientContext, DtlsPeer
from policies import keys_may_all

from dtls.context import ClientContext, Context
from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapRules, CoapServer
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

KEY = b"0123456789abcdef"
GET = b"\x40\x01\x00\x02"
PEERS = 10
LIMIT_S = 60.0
LIBCOAP_LIMIT_S = 30.0
BAD = Faults(loss=0.15, duplication=0.05, delay_ms=30.0)


class Root(resource.Resource):
    async def render_get(self, _: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=b"21.5")


class Credentials:
    """The certificates that servers and clients show."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.own = self.authority.issue("localhost", is_server=True)
        self.between = Authority(folder, "site-north", above=self.authority)
        long = self.between.issue("localhost", is_server=True)
        chain = folder / "chain.pem"
        chain.write_bytes(long.certificate.read_bytes() + self.between.file.read_bytes())
        self.chain = (chain, long.key)

    def files(self, *, is_long: bool) -> TlsFiles:
        own = self.chain if is_long else (self.own.certificate, self.own.key)
        return TlsFiles(*own, ClientCertificate.REQUIRED, self.authority.file)

    def client(self, kind: str) -> Callable[[int], Context]:
        def made(number: int) -> Context:
            if kind == "a key":
                return ClientContext("meter-1", KEY)
            if kind == "a certificate":
                return CertificateClientContext(self.authority.issue(f"m{number}"), self.authority)
            shown = self.between.issue(f"m{number}")
            between = [self.between.x509]
            context = CertificateClientContext(shown, self.authority, between=between)
            # libcoap's server shows its own certificate alone.
            context.x509.load_verify_locations(str(self.between.file))
            return context

        return made


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path)


@asynccontextmanager
async def ours(credentials: Credentials, *, is_long: bool) -> AsyncIterator[int]:
    site = resource.Site()
    site.add_resource([], Root())
    server = CoapServer(
        site,
        coap=None,
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore({"meter-1": KEY}),
        access=keys_may_all(),
        rules=CoapRules(tls=Tls(credentials.files(is_long=is_long))),
    )
    async with server:
        assert server.coaps_port is not None
        yield server.coaps_port


@asynccontextmanager
async def libcoaps(credentials: Credentials, *, is_long: bool) -> AsyncIterator[int]:
    files = credentials.files(is_long=is_long)
    port = _two_free_ports()
    process = await asyncio.create_subprocess_exec(
        *("coap-server-openssl", "-A", "127.0.0.1", "-p", str(port), "-k", KEY.decode()),
        *("-c", str(files.certificate), "-j", str(files.key), "-C", str(files.client_ca)),
        *("-v", "0"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.sleep(0.5)
        yield port + 1
    finally:
        process.terminate()
        await process.wait()


def _two_free_ports() -> int:
    while True:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two,
        ):
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            try:
                two.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


async def shake_hands(
    network: BadNetwork, made: Callable[[int], Context], limit_s: float
) -> list[float]:
    """All at once; how long each handshake took, in seconds, if it came to one and an answer."""

    async def one(number: int) -> float | None:
        peer = DtlsPeer(made(number), network.port, limit_s=limit_s)
        try:
            took_s = await peer.handshake()
            answer = await peer.ask(GET)
        except (ConnectionError, TimeoutError):
            return None
        finally:
            peer.close()
        return took_s if answer[1] == 0x45 else None

    found = await asyncio.gather(*(one(number) for number in range(PEERS)))
    return [took_s for took_s in found if took_s is not None]


def summary(took_s: list[float]) -> str:
    if not took_s:
        return f"0 of {PEERS}"
    return (
        f"{len(took_s)} of {PEERS}, median {statistics.median(took_s):.1f} s, "
        f"longest {max(took_s):.1f} s"
    )


@pytest.mark.slow
@pytest.mark.peer("coap-server-openssl", "libcoap3-bin")
@pytest.mark.parametrize("kind", ["a key", "a certificate", "a chain"])
async def test_handshakes_complete_over_15_percent_loss_with_duplicates_out_of_order(
    credentials: Credentials, kind: str, request: pytest.FixtureRequest
) -> None:
    is_long, clients = kind == "a chain", credentials.client(kind)
    async with (
        ours(credentials, is_long=is_long) as port,
        BadNetwork(port, BAD, seed=7) as network,
    ):
        took_s = await shake_hands(network, clients, LIMIT_S)
    assert network.lost > PEERS / 2
    assert len(took_s) == PEERS
    print(f"\nhandshakes with {kind}: ours {summary(took_s)}")  # noqa: T201
    if not request.config.getoption("--soak"):
        return
    async with (
        libcoaps(credentials, is_long=is_long) as port,
        BadNetwork(port, BAD, seed=7) as network,
    ):
        took_s = await shake_hands(network, clients, LIBCOAP_LIMIT_S)
    print(f"handshakes with {kind}: libcoap's {summary(took_s)}")  # noqa: T201
