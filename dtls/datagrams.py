"""A UDP socket on the event loop, drained in batches.

asyncio's own datagram transport reads one datagram for each wake-up of the loop. This one reads
up to `BATCH` of them, which is three times as fast for small messages. They are read while they
are taken: who stops taking leaves the others in the kernel, where their number is bounded.

A socket that is bound to the wildcard address learns for each datagram which of the host's
addresses it came to, and answers from that one (RFC 3542, section 4): else a peer of a host with
several addresses would get its answer from a stranger.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import socket
import struct
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from dtls.errors import SocketError

BATCH: Final = 64
"""Datagrams read for one wake-up; others have their turn then."""
TURN_S: Final = 0.001
"""So long datagrams are taken at one wake-up; then others on the event loop have their turn."""
Batch = Iterator[tuple[bytes, "PeerAddress"]]
"""Datagrams, each with where it came from; not to be kept beyond the call."""
KNOWN_MAX: Final = 4_096
"""Peers whose addresses are not made anew for each datagram; nothing else is remembered of them."""
_DATAGRAM_BYTES_MAX: Final = 2**16
_NOTHING: Final = bytes(4)
"""An int of C that says how long the next datagram is; where it is empty, it comes next time."""
_ANCILLARY_BYTES: Final = 128
_IP_PKTINFO: Final = 8
_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
"""ip(7) and ipv6(7); Python's socket module does not name them."""
_IN_PKTINFO: Final = struct.Struct("=I4s4s")  # interface, local address, destination of the header
_RECEIVE_BUFFER_BYTES: Final = 4 << 20
"""The buffer for a flood: what it drops comes again after a second; the kernel may give less."""
_SEND_BUFFER_BYTES: Final = 1024 * 1024
FREE_PORT_TRIES: Final = 20
"""For one that is free at all of several addresses."""


_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
"""Before an IPv4 address that is written as an IPv6 one (RFC 4291, section 2.5.5.2)."""


class PeerAddress(NamedTuple):
    """A peer, and the address of ours that it talks to.

    Attributes:
        sockaddr: as the socket module has it.
        local: the ``pktinfo`` to answer with; empty if the socket is bound to one address.
        socket_number: of the socket that it talks to, among several.

    """

    sockaddr: tuple[Any, ...]
    local: bytes = b""
    socket_number: int = 0

    def __repr__(self) -> str:
        # Each handshake makes two cookies of it; a named tuple's own takes four times as long.
        return f"{self.sockaddr} {self.local!r} {self.socket_number}"


def host_of(address: PeerAddress) -> bytes:
    """Return whose share an address takes: an IPv4 address, or the /64 of an IPv6 one."""
    host = address.sockaddr[0]
    if ":" not in host:
        return socket.inet_pton(socket.AF_INET, host)
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return packed[12:] if packed.startswith(_MAPPED) else packed[:8]


class DatagramSocket:
    """A UDP socket whose datagrams go to a callback in batches.

    Args:
        sock: bound or connected, not blocking; closed by `close`.
        on_datagrams: takes a batch of datagrams; those it leaves come again.
        on_error: takes an error that the network reported (a port unreachable, say).
        number: of this socket, among several.

    """

    def __init__(
        self,
        sock: socket.socket,
        on_datagrams: Callable[[Batch], None],
        on_error: Callable[[OSError], None] = lambda _error: None,
        number: int = 0,
    ) -> None:
        self.dropped = 0
        """Datagrams that the system did not take; to UDP they are lost on the way."""
        self._sock = sock
        self._number = number
        self._on_datagrams = on_datagrams
        self._on_error = on_error
        self._buffer = bytearray(_DATAGRAM_BYTES_MAX)
        self._next_bytes = bytearray(_NOTHING)
        self._known: dict[tuple[Any, ...], PeerAddress] = {}
        self._failure: OSError | None = None
        self.sockaddr: tuple[Any, ...] = sock.getsockname()
        """The local address."""
        self.port: int = self.sockaddr[1]
        self._wildcard = _ask_for_local_address(sock, self.sockaddr[0])
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, datagram: bytes, to: PeerAddress) -> None:
        """Send a datagram, or lose it if the system has no room for it."""
        try:
            if to.local:
                level, kind = (
                    (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
                    if self._sock.family == socket.AF_INET6
                    else (socket.IPPROTO_IP, _IP_PKTINFO)
                )
                self._sock.sendmsg([datagram], [(level, kind, to.local)], 0, to.sockaddr)
            else:
                self._sock.sendto(datagram, to.sockaddr)
        except (BlockingIOError, InterruptedError):
            self.dropped += 1
        except OSError as error:
            self.dropped += 1
            self._on_error(error)

    def share(self, is_shared: bool) -> None:
        """Set whether another socket, which has to want that too, may be bound to this port."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_shared)

    def local_host(self, peer: PeerAddress) -> str:
        """Return the address of ours that a peer talks to."""
        if not peer.local:
            return str(self.sockaddr[0])
        if self._sock.family == socket.AF_INET6:
            return socket.inet_ntop(socket.AF_INET6, peer.local[:16])
        return socket.inet_ntoa(_IN_PKTINFO.unpack(peer.local)[1])

    def close(self) -> None:
        """Stop reading and close the socket."""
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()

    def _readable(self) -> None:
        self._on_datagrams(self._batch())
        failure, self._failure = self._failure, None
        if failure is not None:
            self._on_error(failure)

    def _batch(self) -> Batch:
        read = self._read_with_local if self._wildcard else self._read
        try:
            yield read()
            # Most come alone. To ask whether one does takes a third of the exception that says so.
            fcntl.ioctl(self._sock.fileno(), termios.FIONREAD, self._next_bytes)
            if self._next_bytes != _NOTHING:
                for _ in range(BATCH - 1):
                    yield read()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._failure = error

    def _read(self) -> tuple[bytes, PeerAddress]:
        size, sockaddr = self._sock.recvfrom_into(self._buffer)
        address = self._known.get(sockaddr)
        if address is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            address = self._known[sockaddr] = PeerAddress(sockaddr, b"", self._number)
        return bytes(self._buffer[:size]), address

    def _read_with_local(self) -> tuple[bytes, PeerAddress]:
        size, ancillary, _, sockaddr = self._sock.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        local = b""
        for level, kind, data in ancillary:
            if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
                local = data
            elif level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
                # The interface is left to the routing table, the address is what must match.
                _, specific, _ = _IN_PKTINFO.unpack(data)
                local = _IN_PKTINFO.pack(0, specific, bytes(4))
        return bytes(self._buffer[:size]), PeerAddress(sockaddr, local, self._number)


def read_all(
    socks: Sequence[socket.socket],
    on_datagrams: Callable[[Batch], None],
    on_error: Callable[[OSError], None],
) -> tuple[DatagramSocket, ...]:
    """Read several sockets of one port from now on; the arguments are those of `DatagramSocket`.

    Returns:
        One for each, by the number that `PeerAddress.socket_number` names: what came by one of them
        is answered by it.

    """
    return tuple(
        DatagramSocket(sock, on_datagrams, on_error, number) for number, sock in enumerate(socks)
    )


def listen(hosts: Sequence[str], port: int, scheme: str) -> list[socket.socket]:
    """Bind a UDP socket for each of several numeric addresses, all to one port.

    ``0.0.0.0`` is for all of IPv4, and ``::`` for all of IPv6; without an IPv4 address beside it,
    it is for all of IPv4 too.

    Args:
        hosts: one address or more.
        port: 0 for one that is free at all of them.
        scheme: for the message.

    Raises:
        SocketError: an address is not this host's, or in use; nothing is bound then.

    """
    has_v4 = any("." in host for host in hosts)
    left = FREE_PORT_TRIES if port == 0 and len(hosts) > 1 else 1
    while True:
        bound: list[socket.socket] = []
        left -= 1
        try:
            for host in hosts:
                chosen = bound[0].getsockname()[1] if bound else port
                bound.append(_bind(host, chosen, scheme, v6_only=has_v4))
        except SocketError:
            for sock in bound:
                sock.close()
            if not (left and bound):
                raise
        else:
            return bound


def _bind(host: str, port: int, scheme: str, *, v6_only: bool) -> socket.socket:
    name = f"{scheme}://{join_host_port(host, port)}"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise SocketError(f"{name}: {host!r} is not an IP address") from None
    version = address.version
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as refused:  # no free descriptor, or a kernel without this family
        raise SocketError(f"{name}: {refused.strerror}") from refused
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if version == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6_only)
        if address.is_unspecified:
            _leave_groups_to_others(sock, v6_only=v6_only)
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        what = error.strerror if isinstance(error, OSError) else None
        raise SocketError(f"{name}: {what or error}") from error
    return sock


def _leave_groups_to_others(sock: socket.socket, *, v6_only: bool) -> None:
    """Have a socket that is bound to all addresses hear nothing of groups that it did not join.

    It would have what other programs of the machine joined. One that is bound to an address of its
    own hears no group, and some kernels (an emulated one, say) do not know the options.
    """
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MULTICAST_ALL, 0)
        if v6_only:
            return
    sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)


def join_host_port(host: str, port: int, default_port: int | None = None) -> str:
    """Return the authority of a URI: brackets around IPv6, no port if it is the default."""
    host = host.removeprefix("::ffff:") if "." in host else host
    shown = f"[{host}]" if ":" in host else host
    return shown if port == default_port else f"{shown}:{port}"


def _ask_for_local_address(sock: socket.socket, host: str) -> bool:
    if not ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        return False
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    return True
