"""Links over Unix sockets: what a transport has to bring, and that nothing of a node is touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from authority import Authority
from tree_host import KEY, Host, Start, started, until

from gateway.node.links.greeting import dial
from gateway.node.links.handshake import Credentials, HandshakeError
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.node import TreeNode
from gateway.node.links.transport import FarEnd
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from tree_handler.batch import Entry


@dataclass(frozen=True)
class UnixAddress:
    """The path of a socket at which a neighbour takes links; nothing there proves who it is."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    async def connect(self, link: asyncio.Protocol, tls: LinkTls | None) -> FarEnd:
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: link, self.path)
        return FarEnd(str(self), self.path)


class UnixLinks(asyncio.Protocol):
    """Hands a connection that came to a Unix socket over to a node."""

    def __init__(self, node: TreeNode) -> None:
        self._node = node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        carrying = cast(asyncio.Transport, transport)
        carrying.pause_reading()
        far_end = FarEnd("unix", "unix")
        self._task = asyncio.create_task(self._node.accept(carrying, b"", far_end))


@asynccontextmanager
async def listening(host: Host, folder: Path) -> AsyncIterator[UnixAddress]:
    path = str(folder / f"{host.name}.socket")
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: UnixLinks(host.node), path)
    try:
        yield UnixAddress(path)
    finally:
        server.close()


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with started(tmp_path) as make:
        yield make


def peers(host: Host) -> set[str]:
    return {link.peer_id for link in host.node.links.values()}


def forwards(host: Host) -> int:
    return len(host.node.tree.forwarding)


async def test_messages_go_through_a_tree_of_two_transports(start: Start, tmp_path: Path) -> None:
    a, b, c = await start("a", 3.0), await start("b", 2.0), await start("c", 1.0)
    async with listening(b, tmp_path) as address:
        a.neighbours.add_static(b.address)
        c.neighbours.add_static(address)
        await until(lambda: (forwards(a), forwards(b), forwards(c)) == (1, 2, 1))
        for host in (a, c):
            acknowledgement = host.node.publish(Entry("t", host.name.encode(), qos=1))
            assert acknowledgement is not None
            await acknowledgement
        await until(lambda: len(a.got) >= 1 and len(b.got) >= 2 and len(c.got) >= 1)
        assert (a.got, sorted(b.got), c.got) == (["c:c"], ["a:a", "c:c"], ["a:a"])
        (seen,) = c.node.status()["neighbours"]
        assert seen["address"] == str(address)


async def test_a_neighbour_whose_link_broke_is_dialled_again(start: Start, tmp_path: Path) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    async with listening(a, tmp_path) as address:
        b.neighbours.add_static(address)
        await until(lambda: peers(a) == {"b"} and peers(b) == {"a"})
        (broken,) = a.node.links
        a.node.drop("b", "for the test")
        await until(lambda: peers(a) == {"b"} and broken not in a.node.links)


async def test_who_came_by_a_transport_without_ports_is_not_dialled_back(
    start: Start, tmp_path: Path
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0)
    a.node.dials_back(a.neighbours)
    b.node.listens_at(b.address.port)
    async with listening(a, tmp_path) as address:
        b.neighbours.add_static(address)
        await until(lambda: peers(a) == {"b"} and peers(b) == {"a"})
        assert a.neighbours.status()["found"] == 0


async def test_an_address_where_nobody_listens_and_one_with_another_key_say_so(
    start: Start, tmp_path: Path
) -> None:
    a, b = await start("a", 2.0), await start("b", 1.0, key=bytes(32))
    nobody = UnixAddress(str(tmp_path / "nobody"))
    async with listening(a, tmp_path) as address:
        b.neighbours.add_static(address)
        b.neighbours.add_static(nobody)
        await until(lambda: b.neighbours.counters.failed >= 2)

        def whys() -> dict[str, str]:
            return {one["address"]: one["why"] for one in b.neighbours.status()["addresses"]}

        await until(lambda: all(whys().values()))
        assert "key" in whys()[str(address)]
        assert whys()[str(nobody)] == "No such file or directory"


async def test_a_transport_that_proves_nobody_carries_no_link_where_certificates_are_asked_for(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "authority").mkdir()
    authority = Authority(tmp_path / "authority")
    issued = authority.issue("b", is_gateway=True)
    optional = ClientCertificate.OPTIONAL
    files = TlsFiles(issued.certificate, issued.key, optional, client_ca=authority.file)
    a, own = await start("a", 2.0), Credentials("b", "test", KEY)
    async with listening(a, tmp_path) as address:
        with pytest.raises(HandshakeError, match="without a certificate of its own"):
            await dial(address, own, iter([1]), LinkTls(files, "b"))
        await until(lambda: not a.node.links)
        link = await dial(address, own, iter([1]))
        assert link.peer_id == "a"
        link.close()
