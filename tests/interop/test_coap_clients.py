"""Goal: clients that others wrote read and write our CoAP server as the access rules say.

Method: libcoap's command line clients against a server in this process, on loopback, with a
resource of the test's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiocoap
import pytest
from aiocoap import resource

from dtls.keystore import Keystore
from gateway.coap.server import CoapListener, CoapServer
from tests.policies import keys_may_all

IDENTITY = "meter-1"
KEY = "0123456789abcdef"
SECRET = b"a reading for those who have the key"
"""Words that no line of a client's log holds; a number could stand in the log's times."""

plain_client = pytest.mark.peer("coap-client-notls", "libcoap3-bin")
openssl_client = pytest.mark.peer("coap-client-openssl", "libcoap3-bin")
gnutls_client = pytest.mark.peer("coap-client-gnutls", "libcoap3-bin")


class Value(resource.ObservableResource):
    """One value that can be read, written and observed."""

    def __init__(self) -> None:
        super().__init__()
        self.payload = b"21.5"
        self.writers: list[str] = []
        self.observed = asyncio.Event()

    async def render_get(self, _request: aiocoap.Message) -> aiocoap.Message:
        return aiocoap.Message(payload=self.payload, content_format=0)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        self.payload = request.payload
        self.writers.append(str(request.remote.identity))
        self.updated_state()
        return aiocoap.Message(code=aiocoap.CHANGED)

    def update_observation_count(self, newcount: int) -> None:
        if newcount:
            self.observed.set()


@dataclass
class Served:
    """The server and its one resource."""

    server: CoapServer
    value: Value

    @property
    def plain(self) -> str:
        return f"coap://127.0.0.1:{self.server.coap_port}/value"

    @property
    def secure(self) -> str:
        return f"coaps://127.0.0.1:{self.server.coaps_port}/value"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    site, value = resource.Site(), Value()
    site.add_resource(["value"], value)
    server = CoapServer(
        site,
        coap=CoapListener(("127.0.0.1",), 0),
        coaps=CoapListener(("127.0.0.1",), 0),
        keystore=Keystore({IDENTITY: KEY.encode()}),
        access=keys_may_all(),
    )
    async with server:
        yield Served(server, value)


async def run(*command: str) -> tuple[str, str]:
    """Run a client to its end; what it printed and what it complained of."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return out.decode(), err.decode()


def psk(
    program: str, *arguments: str, identity: str = IDENTITY, key: str = KEY, limit_s: int = 30
) -> list[str]:
    return [program, "-B", str(limit_s), "-u", identity, "-k", key, *arguments]


@plain_client
async def test_libcoap_reads_over_plain_udp(served: Served) -> None:
    out, _ = await run("coap-client-notls", "-B", "30", served.plain)
    assert out.strip() == "21.5"


@plain_client
async def test_libcoap_writing_over_plain_udp_is_unauthorized(served: Served) -> None:
    out, err = await run("coap-client-notls", "-B", "30", "-m", "put", "-e", "99", served.plain)
    assert "4.01" in out + err
    assert served.value.payload == b"21.5"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("coap-client-openssl", marks=openssl_client),
        pytest.param("coap-client-gnutls", marks=gnutls_client),
    ],
)
class TestOverDtls:
    async def test_libcoap_reads(self, served: Served, program: str) -> None:
        out, _ = await run(*psk(program, served.secure))
        assert out.strip() == "21.5"

    async def test_libcoap_writes_and_the_resource_learns_who(
        self, served: Served, program: str
    ) -> None:
        await run(*psk(program, "-m", "put", "-e", "99", served.secure))
        assert served.value.payload == b"99"
        assert served.value.writers == [f"psk:{IDENTITY}"]

    async def test_libcoap_reads_what_fills_many_blocks(self, served: Served, program: str) -> None:
        served.value.payload = b"0123456789" * 500
        out, _ = await run(*psk(program, served.secure))
        assert out.strip() == "0123456789" * 500

    async def test_libcoap_with_a_wrong_key_reads_nothing(
        self, served: Served, program: str
    ) -> None:
        served.value.payload = SECRET
        out, _ = await run(
            program, "-B", "2", "-u", IDENTITY, "-k", "fedcba9876543210", served.secure
        )
        assert SECRET.decode() not in out
        assert served.server.counters is not None
        assert served.server.counters.handshakes == 0

    async def test_libcoap_with_an_unknown_identity_is_refused(
        self, served: Served, program: str
    ) -> None:
        served.value.payload = SECRET
        out, _ = await run(*psk(program, served.secure, identity="stranger"))
        assert SECRET.decode() not in out
        assert served.server.counters is not None
        assert served.server.counters.handshakes == 0
        assert served.server.counters.handshakes_failed >= 1

    async def test_libcoap_observes_until_the_value_changes(
        self, served: Served, program: str
    ) -> None:
        client = await asyncio.create_subprocess_exec(
            *psk(program, "-w", "-s", "60", served.secure, limit_s=60),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert client.stdout is not None
        await served.value.observed.wait()
        assert await client.stdout.readline() == b"21.5\n"
        served.value.payload = b"22.0"
        served.value.updated_state()
        assert await client.stdout.readline() == b"22.0\n"
        client.terminate()
        await client.wait()
