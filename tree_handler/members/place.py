"""Places of gateways as they tell them: names, place, the address that reaches each.

Other programs make other things of these: a path, a partition, a host of Ansible's, a line for a
terminal. So each has one form, stated here and nowhere else, which whoever takes one over a border
checks, with nothing but Python at hand (the inventory plug-in of Ansible runs without msgpack).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError

NONE: Final = "-"
"""Written for "no domain" and "no group" in paths and topics; no name can be it."""
NAME_CHARACTERS_MAX: Final = 63
HOST_NAME_CHARACTERS_MAX: Final = 253
"""Of a host name as text (RFC 1123, section 2.1)."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_ZONE: Final = re.compile(r"[A-Za-z0-9._-]{1,15}")
"""An interface of this machine behind an IPv6 address (RFC 4007, section 11.2)."""


def check_name(what: str, value: object) -> str:
    """Return a gateway id, or the name of a domain or group, if it is one.

    Raises:
        ProtocolError: not ``[a-z0-9]([a-z0-9-]{0,62})``; the message starts with ``what``.

    """
    if not isinstance(value, str) or not is_name(value):
        raise ProtocolError(what, value)
    return value


def is_name(value: str) -> bool:
    """Return whether a text may name a gateway, a domain or a group."""
    return _NAME.fullmatch(value) is not None


def check_address(what: str, value: object, *, may_have_zone: bool = False) -> str:
    """Return an IP address or a host name, if it is one.

    Args:
        what: begins the message of an error.
        value: any.
        may_have_zone: whether an IPv6 address may name an interface; to other machines it means
            nothing.

    Raises:
        ProtocolError: it is neither; the message starts with ``what``.

    """
    if isinstance(value, str):
        bare, percent, zone = value.partition("%")
        is_whole = not percent or (may_have_zone and ":" in bare and _ZONE.fullmatch(zone))
        if is_whole and (_is_ip(bare) or is_host_name(value)):
            return value
    raise ProtocolError(what, value)


def may_be_dialled(address: str, own: str) -> bool:
    """Return whether what a member says of where it is may be dialled from a gateway.

    A member's word can have this gateway send to any address. So what reaches this machine itself,
    many machines or none is not dialled; this machine and its own network segment alone only where
    this gateway says that it is there itself.

    Args:
        address: an IP address, of a record or what its host name means here.
        own: where this gateway says that it is, an IP address or a host name.

    """
    try:
        there = _plain(ipaddress.ip_address(address))
    except ValueError:
        return False
    if there.is_unspecified or there.is_multicast or there.is_reserved:
        return False
    if not (there.is_loopback or there.is_link_local):
        return True
    here = _plain(ipaddress.ip_address(own)) if _is_ip(own) else None
    if here is None:
        return False
    return here.is_loopback if there.is_loopback else here.is_link_local


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an IPv4 address that is written as one of IPv6 as what it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_host_name(value: str) -> bool:
    """Return whether a text may be a host name (RFC 1123, section 2.1).

    A last label of digits is an address that was mistyped, or is to be taken for one.
    """
    labels = value.removesuffix(".").split(".")
    return (
        len(value) <= HOST_NAME_CHARACTERS_MAX
        and all(_LABEL.fullmatch(label) for label in labels)
        and not labels[-1].isdecimal()
    )


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the hierarchy (A1): a domain and a group; ``""`` is none.

    Raises:
        ProtocolError: a name that is none, or a group without a domain; it names the field.

    """

    domain: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        if self.domain != "":
            check_name("domain", self.domain)
        if self.group != "":
            check_name("group", self.group)
            if self.domain == "":
                raise ProtocolError("group without a domain", self.group)

    @property
    def level(self) -> int:
        """0 at the root, 1 in a domain, 2 in a group."""
        return (self.domain != "") + (self.group != "")

    def prefix(self, gateway_id: str) -> str:
        """Start of the gateway's topics, without a slash at the end.

        Raises:
            ProtocolError: ``gateway_id`` is no gateway id.

        """
        return f"{self}/{check_name('gateway id', gateway_id)}"

    def __str__(self) -> str:
        return f"{self.domain or NONE}/{self.group or NONE}"
