"""Addresses on a link of this machine, as the kernel's tables say (rtnetlink(7)). Pure.

A first start serves neighbours alone. Three things keep everybody else out, each by itself:

- what is listened on are addresses that no router of the internet has a way to (RFC 1918, 3927,
  4193 and 4291, section 2.5.6);
- answers leave with a hop limit of 1, so that a connection through a router never comes about;
- who asks has an address of a network that one of the interfaces is in, and is none of the routers
  of this machine, which may hide others behind their own address (NAT).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator
from typing import Final

from light_dataclasses import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

NEW_ROUTE, GET_ROUTE, NEW_ADDRESS, GET_ADDRESS = 24, 26, 20, 22
"""Kinds of messages (linux/rtnetlink.h)."""
DONE, ERROR = 3, 2
"""Kinds of messages that end an answer (linux/netlink.h)."""
HEAD: Final = struct.Struct("=IHHII")
_ADDRESS: Final = struct.Struct("=BBBBI")
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
_ATTRIBUTE: Final = struct.Struct("=HH")
_NEXT_HOP: Final = struct.Struct("=HBBi")
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_RTA_GATEWAY, _RTA_MULTIPATH = 5, 9
_TYPE_BITS: Final = 0x3FFF
_TENTATIVE, _FAILED, _TEMPORARY = 0x40, 0x08, 0x01
_UNUSABLE: Final = _TENTATIVE | _FAILED | _TEMPORARY
"""Of IPv6: not yet this machine's, another's, or gone tomorrow (RFC 8981)."""


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """An address of this machine.

    Attributes:
        interface: the address and the network that it is in.
        index: of the network interface.

    """

    interface: Interface
    index: int

    @property
    def address(self) -> IpAddress:
        """The address by itself."""
        return self.interface.ip

    @property
    def is_served(self) -> bool:
        """Return whether the page is served there: not at an address routed over the internet."""
        return self.address.is_private or self.address.is_link_local

    @property
    def is_kept(self) -> bool:
        """Return whether a gateway may have it for good: it has no interface's name in it."""
        return self.is_served and not (self.address.version == 6 and self.address.is_link_local)


@dataclass(frozen=True, slots=True)
class NearLinks:
    """The links and routers of this machine.

    Attributes:
        own: its addresses.
        routers: addresses that it sends through to elsewhere.

    """

    own: tuple[OwnAddress, ...]
    routers: frozenset[IpAddress]

    def why_far(self, host: str) -> str:
        """Return why a sender is no neighbour, in one line; empty if it is one.

        Args:
            host: its address; that of a link may have the interface's name behind a ``%``.

        """
        try:
            sender = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return "the request has no address"
        served = [one for one in self.own if one.is_served and sender in one.interface.network]
        if not served:
            return "the request comes from another network: come to one that the gateway is in"
        is_own = any(one.address == sender for one in self.own)
        if sender in self.routers and not (sender.is_link_local or is_own):
            return "the request comes from a router, and nobody knows from whom behind it"
        return ""

    def kept(self) -> list[str]:
        """Return the addresses that a gateway may have; loopback's if there is no other."""
        found = [one.address for one in self.own if one.is_kept]
        reached = [str(one) for one in found if not one.is_loopback]
        return reached or [str(one) for one in found]


def own_addresses(answer: Iterable[tuple[int, bytes]]) -> tuple[OwnAddress, ...]:
    """Read the answer to `GET_ADDRESS`.

    Args:
        answer: kind and body of each message.

    """
    return tuple(
        one
        for kind, body in answer
        if kind == NEW_ADDRESS and (one := _own_address(body)) is not None
    )


def _own_address(body: bytes) -> OwnAddress | None:
    _, prefix, flags, _, index = _ADDRESS.unpack_from(body)
    found = dict(_attributes(body[_ADDRESS.size :]))
    packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    if packed is None or len(packed) not in (4, 16):
        return None
    more = found.get(_IFA_FLAGS, b"")
    flags |= struct.unpack("=I", more)[0] if len(more) == 4 else 0
    if len(packed) == 16 and flags & _UNUSABLE:
        return None
    return OwnAddress(ipaddress.ip_interface((packed, prefix)), index)


def routers(answer: Iterable[tuple[int, bytes]]) -> frozenset[IpAddress]:
    """Read the answer to `GET_ROUTE`.

    Args:
        answer: kind and body of each message.

    """
    return frozenset(
        ipaddress.ip_address(packed)
        for kind, body in answer
        if kind == NEW_ROUTE
        for packed in _gateways(body[_ROUTE.size :])
        if len(packed) in (4, 16)
    )


def _gateways(attributes: bytes) -> Iterator[bytes]:
    for kind, value in _attributes(attributes):
        if kind == _RTA_GATEWAY:
            yield value
        elif kind == _RTA_MULTIPATH:
            yield from _gateways_of_many(value)


def _gateways_of_many(hops: bytes) -> Iterator[bytes]:
    while len(hops) >= _NEXT_HOP.size:
        size = _NEXT_HOP.unpack_from(hops)[0]
        if size < _NEXT_HOP.size:
            return
        yield from (
            value
            for kind, value in _attributes(hops[_NEXT_HOP.size : size])
            if kind == _RTA_GATEWAY
        )
        hops = hops[_aligned(size) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        if size < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_BITS, data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Split what was read from the kernel: kind and body of each message."""
    while len(data) >= HEAD.size:
        size, kind, *_ = HEAD.unpack_from(data)
        if size < HEAD.size:
            return
        yield kind, data[HEAD.size : size]
        data = data[_aligned(size) :]


def _aligned(size: int) -> int:
    return (size + 3) & ~3
