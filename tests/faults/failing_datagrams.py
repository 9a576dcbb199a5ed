"""UDP sockets of a gateway of which each call may fail, and those of its peers, which do not.

They are datagram sockets of the kernel's own, which lose nothing and need no network; each has the
name of a port.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from failing_sockets import HOST, Network

FIRST_OF_PEERS = 50_000
"""Ports from here on are peers'."""


class DatagramNames:
    """Names of the ports of one life.

    Args:
        network: its connections.

    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._begin = f"\0failing-{os.getpid()}-{id(self)}-"
        self._peers = FIRST_OF_PEERS

    def name_of(self, port: int) -> str:
        """Return the name of a port's socket."""
        return f"{self._begin}{port}"

    def port_of(self, name: bytes) -> int:
        """Return the port of a socket."""
        return int(name.decode().removeprefix(self._begin))

    def peer(self) -> socket.socket:
        """Return a peer's socket, at a port that nobody had before."""
        self._peers += 1
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.bind(self.name_of(self._peers))
        made.setblocking(False)
        return made

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have those sockets made inside that a gateway's calls may fail at."""
        names = self

        def made(*_: Any) -> GatewayDatagrams:
            names.reach("socket")
            one = GatewayDatagrams(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.names = names
            names.network.take_in(one)
            return one

        with patch.object(socket, "socket", made):
            yield

    def reach(self, what: str) -> None:
        """Count a call, and fail with it."""
        fault = self.network.reached(what)
        if fault is not None and fault.number:
            raise fault.error()

    @contextmanager
    def asked_how_many(self) -> Iterator[None]:
        """Have the question how long the next datagram is be one of the calls that may fail."""
        ioctl = fcntl.ioctl

        def asked(*arguments: Any) -> Any:
            self.reach("ioctl")
            return ioctl(*arguments)

        with patch.object(fcntl, "ioctl", asked):
            yield


class GatewayDatagrams(socket.socket):
    """A gateway's UDP socket.

    Attributes:
        names: of all ports.
        network: all connections.
        process: whose it is.
        port: where it is bound.

    """

    names: DatagramNames
    network: Network
    process: object
    port = 0

    def setsockopt(self, *_: Any) -> None:
        """Have no options: this is no UDP."""

    def bind(self, address: Any) -> None:
        """Be reached at a port, or not."""
        self.names.reach("bind")
        self.port = address[1]
        super().bind(self.names.name_of(self.port))

    def getsockname(self) -> Any:
        """Return where it seems to be."""
        return HOST, self.port

    def sendto(self, data: Any, *to: Any) -> int:
        """Send a datagram, or fail; one that goes nowhere is lost."""
        self.names.reach("sendto")
        try:
            return super().sendto(data, self.names.name_of(to[-1][1]))
        except (FileNotFoundError, ConnectionRefusedError):
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)) from None

    def recvfrom_into(self, buffer: Any, *_: Any) -> Any:
        """Receive a datagram, or fail and leave it there."""
        self.names.reach("recvfrom")
        size, name = super().recvfrom_into(buffer)
        return size, (HOST, self.names.port_of(name))

    def close(self) -> None:
        """Close it."""
        self.network.closing(self)
        super().close()
