"""Nodes of a tree with listeners of their own on loopback, without a broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.node import TreeNode
from gateway.node.links.scope import Scope
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.tcp import TcpAddress, TcpLinks
from tree_handler.batch import Header, Row
from tree_handler.spanning.spanning_tree import Identity, Parameters

KEY = bytes(range(32))
LIMIT_S = 40


class Listener(asyncio.Protocol):
    """Hands a connection over to a node, as the broker does with a neighbour's."""

    def __init__(self, node: TreeNode) -> None:
        self._links = TcpLinks(node)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        carrying = cast(asyncio.Transport, transport)
        carrying.pause_reading()
        self._task = asyncio.create_task(self._links.accept(carrying, b""))


@dataclass
class Host:
    """A node with a listener of its own."""

    name: str
    node: TreeNode
    log: MessageLog
    neighbours: Neighbours
    server: asyncio.Server
    got: list[str] = field(default_factory=list)
    control: list[str] = field(default_factory=list)

    @property
    def address(self) -> TcpAddress:
        return TcpAddress("127.0.0.1", self.server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self.server.close()
        await self.neighbours.stop()
        await self.node.stop()
        self.log.close()


Start = Callable[..., Coroutine[Any, Any, Host]]


@asynccontextmanager
async def started(
    folder: Path, *, hello_s: float = 0.5, repair_interval_s: float = 0.3
) -> AsyncIterator[Start]:
    """Gives a function that starts a node by its name and capability; all stop in the end."""
    hosts: list[Host] = []

    async def make(
        name: str,
        capability: float,
        *,
        key: bytes = KEY,
        epoch: int = 1,
        scope: Scope | None = None,
        deliver: Callable[[list[Row], Header], None] | None = None,
    ) -> Host:
        log = MessageLog(folder / name)
        log.open()
        got: list[str] = []
        control: list[str] = []

        def note(rows: list[Row], header: Header) -> None:
            got.extend(f"{header.origin}:{row[2].decode()}" for row in rows)

        settings = NodeSettings(
            Credentials(name, "test", key),
            Identity(name, epoch, capability, "127.0.0.1"),
            Parameters(hello_s=hello_s),
            repair_interval_s=repair_interval_s,
        )
        receiver = NodeReceiver(lambda entry, _: control.append(entry.topic), deliver or note)
        node = TreeNode(settings, log, receiver, scope=scope)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Listener(node), "127.0.0.1", 0)
        neighbours = Neighbours(name, node.dial, node.is_linked, node.link_ends)
        host = Host(name, node, log, neighbours, server, got, control)
        hosts.append(host)
        return host

    try:
        yield make
    finally:
        for host in hosts:
            with contextlib.suppress(Exception):
                await host.stop()


async def never_linked(peer_id: str) -> None:
    """Stands for a node without links: to none of them one has to wait for its end."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)
