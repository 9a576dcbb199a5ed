"""Connections between clients and gateways of one process, of which a gateway's calls may fail.

They are sockets of the kernel, which need no network: what one end sends is at the other at once.
The gateway's ends are counted and may fail; those of clients are not.
"""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
from collections.abc import Callable
from typing import Any

from failing_calls import NETWORK, FailingCalls, Fault
from virtual_loop import VirtualLoop

from gateway.node.links.link import Link

HOST = "127.0.0.1"
PORTS_FROM = {"mqtt": 0, "mqtts": 10_000, "ws": 20_000, "wss": 30_000}
"""A gateway's port of each scheme is that of plain MQTT and so many more."""


class GatewaySocket(socket.socket):
    """A gateway's end of a connection, or what it listens at."""

    network: Network
    process: object
    port = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, or lose it."""
        fault = self.network.reached("accept")
        if fault is not None and fault.number != errno.ECONNABORTED:
            raise fault.error()
        descriptor, _ = self._accept()  # type: ignore[attr-defined]  # asked of _socket
        taken = self.network.made(descriptor)
        if fault is not None:
            taken.close()
            raise fault.error()
        return taken, (HOST, descriptor)

    def send(self, data: Any, *_: Any) -> int:
        """Send, or half of it, or nothing: for a while, or never again."""
        fault = self.network.reached("send")
        if fault is None:
            return super().send(data)
        if fault.slow_s:
            self.network.silence(self, selectors.EVENT_WRITE, fault.slow_s)
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        sent = super().send(bytes(data)[: max(1, len(data) // 2)]) if fault.is_partial else 0
        if fault.number:
            raise fault.error()
        return sent

    def recv(self, size: int, *_: Any) -> bytes:
        """Receive, or half of it and the rest later, or nothing and never again."""
        fault = self.network.reached("recv")
        if fault is None:
            return super().recv(size)
        if fault.number:
            raise fault.error()
        there = super().recv(size, socket.MSG_PEEK)
        self.network.silence(self, selectors.EVENT_READ, fault.slow_s)
        return super().recv(max(1, len(there) // 2))

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        """Send, as `send`."""
        return self.send(b"".join(buffers))

    def setsockopt(self, *_: Any) -> None:
        """Have no options: this is no TCP."""

    def getpeername(self) -> Any:
        """Return where the other end seems to be."""
        return HOST, self.fileno()

    def getsockname(self) -> Any:
        """Return where this end seems to be."""
        return HOST, self.port

    def close(self) -> None:
        """Close it."""
        self.network.closing(self)
        super().close()


class Network:
    """All connections of one life.

    Args:
        calls: says which call fails.
        loop: where gateways run.

    """

    def __init__(self, calls: FailingCalls, loop: VirtualLoop) -> None:
        self._calls = calls
        self._loop = loop
        self._sockets: set[Any] = set()
        loop.create_connection = self._dial  # type: ignore[method-assign,assignment]  # in its place
        loop.create_server = self.serve  # type: ignore[method-assign,assignment]  # likewise

    def connect(self, port: int) -> socket.socket:
        """Connect a client; raises ConnectionRefusedError if nobody listens."""
        found = socket.socket(socket.AF_UNIX)
        try:
            found.connect(self._name(port))
        except OSError:
            found.close()
            raise
        found.setblocking(False)
        return found

    def kill(self, process: object) -> None:
        """End the connections of a process, as its end does; it is dead already."""
        transports = self._loop._transports  # type: ignore[attr-defined]  # has no type
        for one in [one for one in self._sockets if one.process is process]:
            transport = transports.get(one.fileno())
            if transport is None:
                self._loop._remove_reader(one.fileno())  # type: ignore[attr-defined]  # has no type
            else:
                if isinstance(link := transport.get_protocol(), Link):
                    link.connection_lost(None)  # tasks wait for that, even when they are cancelled
                transport.set_protocol(asyncio.Protocol())
                transport.abort()
            one.close()

    async def serve(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: Any
    ) -> Any:
        """In place of the event loop's `create_server`, and of `event_loop.listen`."""
        listening = self._new()
        listening.port = port
        listening.bind(self._name(port))
        listening.listen(100)
        listening.setblocking(False)
        return await asyncio.SelectorEventLoop.create_server(self._loop, factory, sock=listening)

    async def _dial(self, factory: Any, host: str, port: int, **_: Any) -> Any:
        """In place of the event loop's `create_connection`."""
        for what in ("getaddrinfo", "connect"):
            fault = self.reached(what)
            if fault is not None:
                await asyncio.sleep(fault.slow_s)
                if fault.number:
                    raise fault.error()
        dialled = self._new()
        try:
            dialled.connect(self._name(port))
            dialled.setblocking(False)
            return await asyncio.SelectorEventLoop.create_connection(
                self._loop, factory, sock=dialled
            )
        except BaseException:
            dialled.close()
            raise

    # -- what sockets ask ------------------------------------------------------------------------

    def reached(self, what: str) -> Fault | None:
        """Count a call; return the fault with which it ends, if it does."""
        return self._calls.reached(what, NETWORK, is_write=what in ("send", "recv"))

    def silence(self, one: GatewaySocket, event: int, seconds: float) -> None:
        """Let nothing be heard of a connection for so long."""
        self._loop.silence(one.fileno(), event, seconds)

    def made(self, descriptor: int) -> GatewaySocket:
        """Return the gateway's end of a connection that it accepted."""
        return self._new(fileno=descriptor)

    def take_in(self, one: Any) -> None:
        """Count one that was made elsewhere among those of the process that runs."""
        one.network, one.process = self, self._loop.process()
        self._sockets.add(one)

    def closing(self, one: Any) -> None:
        """One is closed: what still watches its descriptor would watch the next one that has it.

        A selector that knows a descriptor does not ask the kernel for it again.
        """
        if one.fileno() >= 0:
            self._loop.hear(one.fileno())
            self._loop._remove_reader(one.fileno())  # type: ignore[attr-defined]  # has no type
            self._loop._remove_writer(one.fileno())  # type: ignore[attr-defined]  # likewise
        self._sockets.discard(one)

    def _new(self, **of: Any) -> GatewaySocket:
        made = GatewaySocket(socket.AF_UNIX, socket.SOCK_STREAM, **of)
        self.take_in(made)
        return made

    def _name(self, port: int) -> str:
        return f"\0failing-{os.getpid()}-{id(self)}-{port}"
