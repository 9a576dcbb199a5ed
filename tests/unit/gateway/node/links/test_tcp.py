"""Links over TCP: what is known of who is at the other end, and how its connection is set."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from memory_transport import MemoryTransport

from gateway.node.links.tcp import USER_TIMEOUT_MS, TcpAddress


class Kept(asyncio.Protocol):
    """Keeps its connection."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)


@asynccontextmanager
async def listening() -> AsyncIterator[int]:
    """Gives the port of a listener on loopback."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_who_was_dialled_is_known_by_host_and_port_and_its_connection_is_set_for_links() -> (
    None
):
    link = Kept()
    async with listening() as port:
        found = await TcpAddress("127.0.0.1", port).connect(link, None)
        sock = link.transport.get_extra_info("socket")
        tcp = socket.IPPROTO_TCP
        assert sock.getsockopt(tcp, socket.TCP_NODELAY)
        assert sock.getsockopt(tcp, socket.TCP_USER_TIMEOUT) == USER_TIMEOUT_MS
        link.transport.abort()
    assert (found.address, found.source) == (f"127.0.0.1:{port}", "127.0.0.1")
    assert found.shown_id is None
    assert found.at_port is not None
    assert found.at_port(8883) == TcpAddress("127.0.0.1", 8883)


class Bare(MemoryTransport):
    """A connection of which no more is known than is given."""

    def __init__(self, **known: object) -> None:
        super().__init__()
        self._known = known

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._known.get(name, default)


@pytest.mark.parametrize(
    ("peername", "address", "source"),
    [
        (None, "?", "?"),
        (("10.0.0.9", 1883), "10.0.0.9:1883", "10.0.0.9"),
        (("fe80::9", 1, 0, 2), "fe80::9:1", "fe80::9"),
    ],
)
async def test_a_connection_says_of_its_other_end_what_is_known(
    monkeypatch: pytest.MonkeyPatch, peername: tuple[object, ...] | None, address: str, source: str
) -> None:
    bare = Bare(peername=peername)

    async def create(*_: object, **__: object) -> tuple[Bare, None]:
        return bare, None

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create)
    found = await TcpAddress("10.0.0.1", 1).connect(asyncio.Protocol(), None)
    assert (found.address, found.source) == (address, source)
    assert not bare.is_closed


async def test_a_dialled_connection_that_can_not_be_set_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = socket.socket()
    closed.close()
    bare = Bare(socket=closed, peername=("10.0.0.9", 1883))

    async def create(*_: object, **__: object) -> tuple[Bare, None]:
        return bare, None

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", create)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await TcpAddress("10.0.0.9", 1883).connect(asyncio.Protocol(), None)
    assert bare.is_closed


@pytest.mark.parametrize(
    ("text", "host", "said"),
    [
        ("gw.example:1883", "gw.example", "gw.example:1883"),
        ("[fe80::9]:1883", "fe80::9", "[fe80::9]:1883"),
        ("10.0.0.9:1883", "10.0.0.9", "10.0.0.9:1883"),
    ],
)
def test_an_address_is_read_and_said_as_host_and_port(text: str, host: str, said: str) -> None:
    address = TcpAddress.parse(text)
    assert address == TcpAddress(host, 1883)
    assert str(address) == said
