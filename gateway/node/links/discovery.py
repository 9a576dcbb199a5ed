"""Discovery over UDP multicast: the socket and timer around `tree_handler.discovery` (C1)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import random
import socket
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from light_dataclasses import dataclass
from tree_handler.discovery import Announcement, Discovery

_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
"""Options of ip(7) and ipv6(7) that the module `socket` does not name."""

_log = logging.getLogger(__name__)


@mypyc_attr(native_class=False)
class DiscoveryError(OSError):
    """The multicast group can't be joined; the message names group, port and interface."""


GROUP: Final = "239.255.72.71"
"""Of the organisation-local scope (RFC 2365, 6.2)."""
GROUP_V6: Final = "ff12::4847"
"""Transient and of the link-local scope (RFC 4291, 2.7)."""


@dataclass(frozen=True, slots=True)
class Group:
    """A multicast group on one interface.

    Attributes:
        interface: address of the interface, IPv4 or IPv6.
        address: address of the group, of the same version.
        port: UDP port.

    Raises:
        DiscoveryError: an address is none or not of its kind, or the port is none.

    """

    interface: str
    address: str = GROUP
    port: int = 17883

    def __post_init__(self) -> None:
        try:
            interface = ipaddress.ip_address(self.interface)
            address = ipaddress.ip_address(self.address)
        except ValueError as error:
            raise DiscoveryError(f"{self}: {error}") from error
        if interface.is_multicast or interface.is_unspecified:
            raise DiscoveryError(f"{self}: {interface} is not the address of an interface")
        if not address.is_multicast:
            raise DiscoveryError(f"{self}: {address} is not a multicast group")
        if address.version != interface.version:
            raise DiscoveryError(f"{self}: {address} is no group of IPv{interface.version}")
        if not 0 < self.port < 65_536:
            raise DiscoveryError(f"{self}: {self.port} is not a port")

    @classmethod
    def on(cls, interface: str, address: str, port: int) -> Group:
        """Return the group on an interface; of the other IP version its own group is taken.

        Raises:
            DiscoveryError: see the class.

        """
        if ":" in interface and ":" not in address:
            return cls(interface, GROUP_V6, port)
        if ":" in address and ":" not in interface:
            return cls(interface, GROUP, port)
        return cls(interface, address, port)

    @property
    def is_v6(self) -> bool:
        """Return whether the group is of IPv6."""
        return ":" in self.interface

    @property
    def ttl(self) -> int:
        """0 keeps datagrams on this machine, 1 on the local network (RFC 1112, 6.1)."""
        return 0 if ipaddress.ip_address(self.interface).is_loopback else 1

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
        self._destination: tuple[Any, ...] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._troubled = False
        self._has_begun = False
        self._closed: asyncio.Future[None] | None = None

    async def join(self) -> None:
        """Join the group, without a word and a deaf ear until `begin`.

        Raises:
            DiscoveryError: the interface or the port can't be used.

        """
        loop = asyncio.get_running_loop()
        joined = _join(self._group)
        self._destination = joined.getsockname()
        self._closed = loop.create_future()
        await loop.create_datagram_endpoint(lambda: self, sock=joined)

    def begin(self) -> None:
        """Send the first announcement, and hear those of others."""
        self._has_begun = True
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
        """Keep the transport of the socket."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Take an announcement."""
        if not self._has_begun:
            return
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
        """Log why the socket was closed, and let `close` go on."""
        if exc is not None:
            _log.error("%s: %s", self._group, exc)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            datagram = self._core.handle_timer(now, self._jitter())
            if datagram is not None and self._transport is not None:
                self._transport.sendto(datagram, self._destination)
        except OSError as error:
            self.error_received(error)
        finally:
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
    family = socket.AF_INET6 if group.is_v6 else socket.AF_INET
    with contextlib.ExitStack() as undo:
        try:
            joined = undo.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            joined.setblocking(False)
            # Several gateways on one machine listen to the same group and port.
            joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            (_join_v6 if group.is_v6 else _join_v4)(joined, group)
        except OSError as error:
            raise DiscoveryError(error.errno, f"{group}: {error.strerror}") from error
        undo.pop_all()
    return joined


def _join_v4(joined: socket.socket, group: Group) -> None:
    ip, interface = socket.IPPROTO_IP, socket.inet_aton(group.interface)
    joined.setsockopt(ip, socket.IP_MULTICAST_IF, interface)
    joined.setsockopt(ip, socket.IP_MULTICAST_TTL, group.ttl)
    joined.setsockopt(ip, socket.IP_MULTICAST_LOOP, 1)
    # What comes over other interfaces is for the sockets that joined there.
    joined.setsockopt(ip, _IP_MULTICAST_ALL, 0)
    # Bound to the group and not to every address, so unicast can't reach this socket.
    joined.bind((group.address, group.port))
    member = socket.inet_aton(group.address) + interface
    joined.setsockopt(ip, socket.IP_ADD_MEMBERSHIP, member)


def _join_v6(joined: socket.socket, group: Group) -> None:
    ip, index = socket.IPPROTO_IPV6, _interface_index(group.interface)
    joined.setsockopt(ip, socket.IPV6_MULTICAST_IF, index)
    joined.setsockopt(ip, socket.IPV6_MULTICAST_HOPS, group.ttl)
    joined.setsockopt(ip, socket.IPV6_MULTICAST_LOOP, 1)
    joined.setsockopt(ip, _IPV6_MULTICAST_ALL, 0)
    joined.bind((group.address, group.port, 0, index))
    member = socket.inet_pton(socket.AF_INET6, group.address) + struct.pack("@I", index)
    joined.setsockopt(ip, socket.IPV6_JOIN_GROUP, member)


def _interface_index(address: str) -> int:
    """Return the index of the interface that has an IPv6 address.

    Raises:
        OSError: none has it.

    """
    import psutil  # noqa: PLC0415  # it tells interfaces of IPv6 alone, when a group is joined

    wanted = ipaddress.IPv6Address(address.partition("%")[0])
    for name, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            bare = one.address.partition("%")[0]
            if one.family == socket.AF_INET6 and ipaddress.IPv6Address(bare) == wanted:
                scope = address.partition("%")[2]
                if scope in ("", name):
                    return socket.if_nametoindex(name)
    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
