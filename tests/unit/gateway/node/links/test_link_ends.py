"""A link's connection ends once, over real sockets and the standard library's event loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from gateway.node.links import wire
from gateway.node.links.link import Link

KERNEL_BYTES = 4_096
BYTES = 65_536
"""More than the kernel takes at once."""


def connected() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, of which the kernel holds little."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
    theirs.setblocking(False)
    return ours, theirs


async def left_and_read() -> list[dict[str, Any]]:
    """Have a neighbour read all after the link has left; return the errors of the event loop."""
    loop = asyncio.get_running_loop()
    unforeseen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unforeseen.append(context))
    ours, theirs = connected()
    link = Link()
    transport, _ = await loop.create_connection(lambda: link, sock=ours)
    link.send(wire.publish(b"t", bytes(BYTES)))
    link.leave()
    assert transport.get_write_buffer_size() > 0
    while await loop.sock_recv(theirs, BYTES):
        pass
    await asyncio.sleep(0)  # the turn in which a second end would come
    theirs.close()
    return unforeseen


def test_a_connection_that_goes_once_all_is_read_ends_once() -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(left_and_read()) == []
