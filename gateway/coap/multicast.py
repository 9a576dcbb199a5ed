"""Discovery by multicast: ``/.well-known/core`` of all CoAP nodes of a link (RFC 7252, section 8).

A Resource Directory is found by the same request with ``?rt=core.rd*`` (RFC 9176, section 4.1).
What comes from elsewhere than the link is not answered, whatever routers let through.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final

import psutil

from coap_engine import option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from coap_engine.multicast import DEFAULT_RULES, MulticastAnswer, MulticastRequests, MulticastRules
from dtls.datagrams import PeerAddress, host_of
from gateway.base.due_timer import DueTimer
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.periodic_timer import PeriodicTimer
from gateway.coap.access import CoapAccess
from gateway.coap.responders import ImmediateResponder
from gateway.coap.udp import UdpPort
from gateway.coap.well_known import PATH
from light_dataclasses import dataclass

GROUP: Final = "224.0.1.187"
GROUP_V6: Final = "ff02::fd"
"""All CoAP Nodes (RFC 7252, section 12.8)."""
LOOK_S: Final = 60.0
"""Between two looks at which interfaces there are."""
BATCH: Final = 16
"""Datagrams read for one wake-up."""
_DATAGRAM_BYTES: Final = 2_048
_IP_PKTINFO: Final = 8
_IP_MULTICAST_ALL: Final = 49
_IPV6_MULTICAST_ALL: Final = 29
"""Options of ip(7) and ipv6(7) that the module `socket` does not name."""
_PKTINFO: Final = struct.Struct("=I4s4s")

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """An interface that the group is joined on, of one version of IP.

    Attributes:
        name: the interface's.
        index: its number.
        address: ours there.
        network: whose addresses are on the link.

    """

    name: str
    index: int
    address: str
    network: _Network

    @property
    def is_v6(self) -> bool:
        """Return whether the address is of IPv6."""
        return self.network.version == 6


def links(hosts: Sequence[str]) -> list[LinkAddress]:
    """Return the interfaces that have one of these addresses; all of them for a wildcard."""
    found = []
    every_v4 = "0.0.0.0" in hosts or ("::" in hosts and not any("." in one for one in hosts))  # noqa: S104  # compared, not bound
    for name, addresses in psutil.net_if_addrs().items():
        for one in addresses:
            address = one.address.partition("%")[0]
            is_v4 = one.family == socket.AF_INET
            if not (is_v4 or one.family == socket.AF_INET6) or one.netmask is None:
                continue
            if address in hosts or (every_v4 if is_v4 else "::" in hosts):
                with contextlib.suppress(OSError, ValueError):
                    index = socket.if_nametoindex(name)
                    found.append(LinkAddress(name, index, address, _network(address, one.netmask)))
    return found


def _network(address: str, netmask: str) -> _Network:
    bits = int(ipaddress.ip_address(netmask)).bit_count()
    return ipaddress.ip_network((address, bits), strict=False)


def is_on(link: LinkAddress, source: str) -> bool:
    """Return whether an address is one of a link."""
    address = ipaddress.ip_address(source.partition("%")[0])
    return address in link.network or (address.version == 6 and address.is_link_local)


class DiscoveryAnswers:
    """Answers discovery alone.

    Args:
        access: says what strangers may read.
        at_hand: has ``/.well-known/core``.

    """

    def __init__(self, access: CoapAccess, at_hand: ImmediateResponder) -> None:
        self._access = access
        self._at_hand = at_hand

    def __call__(self, request: CoapRequest, peer: CoapPeer, now: float) -> CoapResponse | None:
        """Return the answer to a multicast request; None for silence."""
        if tuple(request.values(option_numbers.URI_PATH)) != PATH:
            return None
        if self._access.refusal(request, peer) is not None:
            return None
        answer = self._at_hand.answer(request, peer, now)
        return answer if isinstance(answer, CoapResponse) else None


class GroupSocket:
    """One version of IP's group on one interface.

    Args:
        core: takes what comes from the link.
        port: of CoAP.
        of_interface: what there is of that version, one or more.

    Raises:
        OSError: the group can't be joined there, or its port is taken.

    """

    def __init__(
        self, core: MulticastRequests, port: int, of_interface: Sequence[LinkAddress]
    ) -> None:
        self._core = core
        self.links = of_interface
        link = of_interface[0]
        self._index, self._is_v6 = link.index, link.is_v6
        family = socket.AF_INET6 if link.is_v6 else socket.AF_INET
        self._sock = sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            # Several gateways on one machine listen to the same group and port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            (_join_v6 if link.is_v6 else _join_v4)(sock, link, port)
        except OSError:
            sock.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, to be watched."""
        return self._sock.fileno()

    def receive(self, now: float) -> None:
        """Read what came."""
        for _ in range(BATCH):
            try:
                data, sockaddr = self._sock.recvfrom(_DATAGRAM_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                _log.debug("multicast: %s", error)
                return
            link = next((one for one in self.links if is_on(one, sockaddr[0])), None)
            if link is not None:
                local = b"" if self._is_v6 else _PKTINFO.pack(0, _packed(link), bytes(4))
                address = PeerAddress(sockaddr, local, self._index)
                self._core.receive_datagram(data, CoapPeer(address, host_of(address)), now)

    def send(self, datagram: bytes, to: PeerAddress) -> None:
        """Send an answer, from our address on the link; it is lost if the system has no room."""
        ancillary = [(socket.IPPROTO_IP, _IP_PKTINFO, to.local)] if to.local else []
        try:
            self._sock.sendmsg([datagram], ancillary, 0, to.sockaddr)
        except OSError as error:
            _log.debug("multicast: an answer was not sent: %s", error)

    def close(self) -> None:
        """Leave the group."""
        self._sock.close()


def _join_v4(sock: socket.socket, link: LinkAddress, port: int) -> None:
    ip = socket.IPPROTO_IP
    # What comes over other interfaces is for the sockets that joined there.
    sock.setsockopt(ip, _IP_MULTICAST_ALL, 0)
    # Bound to the group and not to every address, so unicast can't reach this socket.
    sock.bind((GROUP, port))
    member = struct.pack("=4s4si", socket.inet_aton(GROUP), _packed(link), link.index)
    sock.setsockopt(ip, socket.IP_ADD_MEMBERSHIP, member)


def _join_v6(sock: socket.socket, link: LinkAddress, port: int) -> None:
    ip = socket.IPPROTO_IPV6
    sock.setsockopt(ip, socket.IPV6_V6ONLY, 1)
    sock.setsockopt(ip, _IPV6_MULTICAST_ALL, 0)
    sock.bind((GROUP_V6, port, 0, link.index))
    member = socket.inet_pton(socket.AF_INET6, GROUP_V6) + struct.pack("@I", link.index)
    sock.setsockopt(ip, socket.IPV6_JOIN_GROUP, member)


def _packed(link: LinkAddress) -> bytes:
    return socket.inet_aton(link.address)


class MulticastPort:
    """The group on all links of a CoAP port's addresses, as long as it is open.

    Args:
        answers: what is answered.
        hosts: the addresses of the port.
        plain: the port, over plain CoAP.
        random_bytes: draws moments, `secrets.token_bytes` or its like.
        rules: how much is answered, and when.

    """

    def __init__(
        self,
        answers: MulticastAnswer,
        hosts: Sequence[str],
        plain: UdpPort,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        rules: MulticastRules = DEFAULT_RULES,
    ) -> None:
        self._core = MulticastRequests(answers, random_bytes, rules)
        self._hosts = hosts
        self._plain = plain
        self._loop = loop = asyncio.get_running_loop()
        self._sockets: dict[tuple[bool, int], GroupSocket] = {}
        self._failed: set[tuple[bool, int]] = set()
        self._timer = DueTimer(loop, loop.time, self._due, self._answer)
        failures = Failures(CountedLines(_log, loop.time))
        self._looks = PeriodicTimer(loop, "links of multicast", self._look, LOOK_S, failures)

    def open(self) -> None:
        """Join the group wherever that is possible; where it is not the log says why."""
        self._look()
        self._looks.start(LOOK_S)

    def close(self) -> None:
        """Leave the group, and answer nothing more."""
        self._looks.stop()
        self._timer.stop()
        for key in list(self._sockets):
            self._leave(key)

    def _look(self) -> float:
        """Interfaces come and go."""
        found: dict[tuple[bool, int], list[LinkAddress]] = {}
        for link in links(self._hosts):
            found.setdefault((link.is_v6, link.index), []).append(link)
        for key in [one for one in self._sockets if one not in found]:
            self._leave(key)
        self._failed &= set(found)
        for key, of_interface in found.items():
            if key in self._sockets:
                self._sockets[key].links = of_interface
            else:
                self._join(key, of_interface)
        return LOOK_S

    def _join(self, key: tuple[bool, int], of_interface: Sequence[LinkAddress]) -> None:
        try:
            with self._plain.shared():
                opened = GroupSocket(self._core, self._plain.port, of_interface)
        except OSError as error:
            if key not in self._failed:  # it is tried again at each look
                self._failed.add(key)
                where = of_interface[0].name, GROUP_V6 if key[0] else GROUP, self._plain.port
                what = "CoAP is not discovered by multicast on %s (%s, port %d): %s"
                _log.warning(what, *where, error.strerror)
            return
        self._failed.discard(key)
        self._sockets[key] = opened
        self._loop.add_reader(opened.fileno(), self._readable, opened)

    def _leave(self, key: tuple[bool, int]) -> None:
        opened = self._sockets.pop(key)
        self._loop.remove_reader(opened.fileno())
        opened.close()

    def _readable(self, opened: GroupSocket) -> None:
        opened.receive(self._loop.time())
        self._timer.set()

    def _due(self) -> float:
        due = self._core.next_timer()
        return math.inf if due is None else due

    def _answer(self, now: float) -> None:
        self._core.handle_timer(now)
        for datagram, peer in self._core.datagrams_to_send():
            address = peer.address
            assert isinstance(address, PeerAddress)
            is_v6 = not address.local
            opened = self._sockets.get((is_v6, address.socket_number))
            if opened is not None:  # else its interface is gone
                opened.send(datagram, address)
