"""Discovery over UDP multicast: the socket and timer around `tree_handler.discovery` (C1)."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from tree_handler.discovery import Announcement, Discovery

_log = logging.getLogger(__name__)


class DiscoveryError(OSError):
    """The multicast group can't be joined; the message names group, port and interface."""


@dataclass(frozen=True, slots=True)
class Group:
    """A multicast group on one interface.

    Attributes:
        interface: IPv4 address of the interface.
        address: IPv4 address of the group; the default is of the organisation-local scope
            (RFC 2365, 6.2).
        port: UDP port.

    Raises:
        DiscoveryError: an address is no IPv4 address or not of its kind, or the port is none.

    """

    interface: str
    address: str = "239.255.72.71"
    port: int = 17883

    def __post_init__(self) -> None:
        try:
            interface = ipaddress.IPv4Address(self.interface)
            address = ipaddress.IPv4Address(self.address)
        except ValueError as error:
            raise DiscoveryError(f"{self}: {error}") from error
        if interface.is_multicast or interface.is_unspecified:
            raise DiscoveryError(f"{self}: {interface} is not the address of an interface")
        if not address.is_multicast:
            raise DiscoveryError(f"{self}: {address} is not a multicast group")
        if not 0 < self.port < 65_536:
            raise DiscoveryError(f"{self}: {self.port} is not a port")

    @property
    def ttl(self) -> int:
        """0 keeps datagrams on this machine, 1 on the local network (RFC 1112, 6.1)."""
        return 0 if ipaddress.IPv4Address(self.interface).is_loopback else 1

    def __str__(self) -> str:
        return f"discovery group {self.address}:{self.port} on {self.interface}"


class MulticastDiscovery(asyncio.DatagramProtocol):
    """Announces this gateway to a group and reports the others of its tree.

    Args:
        core: decides what to believe and when to announce.
        group: where.
        found: called with each announcement of another gateway, again and again while it runs.
        jitter: returns a random number, 0 to 1.

    """

    def __init__(
        self,
        core: Discovery,
        group: Group,
        found: Callable[[Announcement], None],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._core = core
        self._group = group
        self._found = found
        self._jitter = jitter
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._troubled = False
        self._closed: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Join the group and send the first announcement.

        Raises:
            DiscoveryError: the interface or the port can't be used.

        """
        loop = asyncio.get_running_loop()
        joined = _join(self._group)
        self._closed = loop.create_future()
        await loop.create_datagram_endpoint(lambda: self, sock=joined)
        self._tick()

    async def stop(self) -> None:
        """Leave the group; nothing is left running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None and self._closed is not None:
            self._transport.close()
            await self._closed
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.DatagramProtocol`."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """See `asyncio.DatagramProtocol`."""
        self._troubled = False
        now = asyncio.get_running_loop().time()
        announcement = self._core.receive(data, addr[0], now, self._jitter())
        self._schedule()
        if announcement is not None:
            self._found(announcement)

    def error_received(self, exc: Exception) -> None:
        """A datagram could not be sent; said once, until one is heard again."""
        if not self._troubled:
            self._troubled = True
            _log.warning("%s: %s", self._group, exc)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.DatagramProtocol`."""
        if exc is not None:
            _log.error("%s: %s", self._group, exc)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        datagram = self._core.handle_timer(now, self._jitter())
        if datagram is not None and self._transport is not None:
            self._transport.sendto(datagram, (self._group.address, self._group.port))
        self._schedule()

    def _schedule(self) -> None:
        """A datagram may have moved the timer forward."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._core.next_timer(), self._tick)


def _join(group: Group) -> socket.socket:
    joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        joined.setblocking(False)
        # Several gateways on one machine listen to the same group and port.
        joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        interface = socket.inet_aton(group.interface)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, group.ttl)
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        # Bound to the group and not to every address, so unicast can't reach this socket.
        joined.bind((group.address, group.port))
        member = socket.inet_aton(group.address) + interface
        joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    except OSError as error:
        joined.close()
        raise DiscoveryError(error.errno, f"{group}: {error.strerror}") from error
    return joined
