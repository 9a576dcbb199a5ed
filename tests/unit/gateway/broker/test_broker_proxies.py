"""A listener behind a proxy knows clients by the address that the proxy tells (PROXY protocol)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from authority import Authority
from loop_clock import Clock
from memory_transport import MemoryTransport
from mqtt_peer import LIMIT_S, Bench

from gateway.broker.limits import Limits, counted_refusals
from gateway.broker.listeners.listener import Listener
from gateway.broker.proxy_protocol.layer import (
    HEADER_S,
    REFUSED,
    SILENT,
    TOO_MANY,
    WAITING_MAX,
    ProxiedConnection,
    Proxies,
)
from gateway.mqtt import Connect, PingReq, Version, encode
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

HERE = (ipaddress.ip_network("127.0.0.1"),)
ELSEWHERE = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32"))
FIRST = b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n"
SECOND = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x27"
    + ipaddress.ip_address("2001:db8::7").packed * 2
    + struct.pack("!HH", 50_000, 1883)
    + b"\x04\0\0"
)
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"
HEADERS = {FIRST: "192.0.2.7", SECOND: "2001:db8::7", LOCAL: "127.0.0.1"}
SCHEMES = ("mqtt", "mqtts", "ws", "wss")


class Client:
    """A client whose connection a proxy passes on, over any scheme."""

    def __init__(self, bench: Bench, authority: Authority, scheme: str) -> None:
        self._port = bench.broker.ports[scheme]
        self._is_secure = scheme in ("mqtts", "wss")
        self._is_websocket = scheme in ("ws", "wss")
        self._context = authority.client_context(None)

    async def connect(self, begin: bytes, client_id: str = "c") -> bytes:
        """Send this, and then CONNECT as the scheme has it; what is answered, up to a CONNACK."""
        loop = asyncio.get_running_loop()
        raw = socket.socket()
        raw.setblocking(False)
        await loop.sock_connect(raw, ("127.0.0.1", self._port))
        if begin:
            await loop.sock_sendall(raw, begin)
        async with asyncio.timeout(LIMIT_S):
            try:
                reader, self.writer = await asyncio.open_connection(
                    sock=raw, **self._tls() if self._is_secure else {}
                )
                return await self._greet(reader, client_id)
            except (OSError, asyncio.IncompleteReadError):
                return b""

    def _tls(self) -> dict[str, Any]:
        return {"ssl": self._context, "server_hostname": "localhost"}

    async def _greet(self, reader: asyncio.StreamReader, client_id: str) -> bytes:
        packet = encode(Connect(Version.V311, client_id), Version.V311)
        if self._is_websocket:
            self.writer.write(
                b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
                b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            packet = b"\x82%c\0\0\0\0%b" % (0x80 | len(packet), packet)
        self.writer.write(packet)
        return (await reader.readexactly(6))[2:] if self._is_websocket else await reader.read(4)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("proxies"))


async def started(authority: Authority, proxies: tuple[Any, ...], **options: Any) -> Bench:
    server = authority.issue("gw", is_server=True)
    tls = Tls(TlsFiles(server.certificate, server.key, ClientCertificate.NONE, None))
    bench = Bench(anonymous=True, tls=tls, **options)
    bench.listeners = tuple(Listener(name, ("127.0.0.1",), 0, proxies) for name in SCHEMES)
    await bench.start()
    return bench


@pytest.fixture
async def bench(authority: Authority) -> AsyncIterator[Bench]:
    made = await started(authority, HERE)
    yield made
    await made.stop()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_client_is_known_by_the_address_that_its_proxy_tells(
    bench: Bench, authority: Authority, scheme: str
) -> None:
    for number, (header, address) in enumerate(HEADERS.items()):
        client = Client(bench, authority, scheme)
        assert await client.connect(header, f"c{number}") == b"\x20\2\0\0"
        session = bench.broker.core.sessions.get(f"c{number}")
        assert session is not None
        assert session.channel is not None
        assert (session.client.address, session.channel.address) == (address, address)
        client.writer.close()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_proxy_that_says_nothing_of_its_client_is_refused(
    bench: Bench, authority: Authority, scheme: str
) -> None:
    assert await Client(bench, authority, scheme).connect(b"") == b""
    assert bench.counts[REFUSED] == 1
    assert len(bench.broker.core.connections) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_who_is_no_proxy_is_served_without_a_header_and_refused_with_one(
    authority: Authority, scheme: str
) -> None:
    bench = await started(authority, ELSEWHERE)
    try:
        for header in HEADERS:
            assert await Client(bench, authority, scheme).connect(header) == b""
        assert await Client(bench, authority, scheme).connect(b"") == b"\x20\2\0\0"
        assert bench.counts[REFUSED] == 0
        assert len(bench.broker.core.sessions) == 1
    finally:
        await bench.stop()


async def test_limits_of_an_address_hold_for_clients_and_not_for_their_proxy(
    authority: Authority,
) -> None:
    bench = await started(authority, HERE, limits=Limits(connections_per_address=1))
    try:
        first, second, third = (Client(bench, authority, "mqtt") for _ in range(3))
        assert await first.connect(FIRST, "first")
        assert await second.connect(FIRST, "second") == b""
        assert await third.connect(SECOND, "third")
        assert set(dict(bench.broker.core.sessions.items())) == {"first", "third"}
    finally:
        await bench.stop()


async def test_a_line_of_the_log_names_the_client_and_not_its_proxy(
    bench: Bench, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(bench, authority, "mqtt")
    assert await client.connect(FIRST + encode(PingReq(), Version.V311)) == b""
    assert "192.0.2.7: packet before CONNECT" in caplog.text


def waiting(clock: Clock, proxies: Proxies | None = None) -> tuple[Proxies, MemoryTransport]:
    """A proxy's connection that has said nothing."""

    class FromProxy(MemoryTransport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return ("127.0.0.1", 40_000) if name == "peername" else default

    proxies = proxies or Proxies(HERE, counted_refusals(clock.time), clock)
    transport = FromProxy()
    ProxiedConnection(proxies, asyncio.Protocol).connection_made(transport)
    return proxies, transport


def test_a_proxy_that_says_nothing_at_all_is_closed() -> None:
    clock = Clock()
    proxies, transport = waiting(clock)
    clock.pass_s(HEADER_S - 0.1)
    assert not transport.is_closed
    clock.pass_s(0.1)
    assert transport.is_closed
    assert proxies.refusals.counts[SILENT] == 1


def test_connections_without_a_header_are_limited_and_make_room_when_they_go() -> None:
    clock = Clock()
    proxies, _ = waiting(clock)
    for _ in range(WAITING_MAX - 1):
        waiting(clock, proxies)
    _, one_more = waiting(clock, proxies)
    assert one_more.is_closed
    assert proxies.refusals.counts[TOO_MANY] == 1
    clock.pass_s(HEADER_S)
    assert not waiting(clock, proxies)[1].is_closed


@pytest.mark.parametrize(
    ("address", "is_proxy"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("fe80::1%eth0", False),
        ("?", False),
    ],
)
def test_proxies_are_named_by_address_or_network(address: str, is_proxy: bool) -> None:
    clock = Clock()
    proxies = Proxies((*HERE, *ELSEWHERE), counted_refusals(clock.time), clock)
    assert proxies.has(address) is is_proxy
