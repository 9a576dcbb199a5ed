"""Addresses at which a gateway listens, from its configuration, and which one others use.

A name is resolved once, at start, to all its addresses of this machine.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from dtls.datagrams import join_host_port
from gateway.base.toml.checks import is_wildcard
from gateway.process.configuration.config import ConfigError, GatewaySettings
from light_dataclasses import dataclass

_OUTSIDE = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Some addresses elsewhere (RFC 5737, RFC 3849); nothing is sent there."""
_LOOPBACK = {4: "127.0.0.1", 6: "::1"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses at which a gateway listens.

    Attributes:
        listened: numeric addresses by scheme: ``mqtt``, ``mqtts``, ``ws``, ``wss``, ``coap``,
            ``coaps``, for those that are on.
        own: where others reach it.

    """

    listened: Mapping[str, tuple[str, ...]]
    own: str

    @classmethod
    async def of(cls, settings: GatewaySettings) -> Self:
        """Resolve what a configuration says.

        Raises:
            ConfigError: a name has no address, or none of this machine's; it names the field.

        """
        listened = {
            scheme: await resolve(f"{name}.{section.host_field(scheme)}", section.hosts(scheme))
            for name, section in (("mqtt", settings.mqtt), ("coap", settings.coap))
            for scheme in section.ports
        }
        own = settings.gateway.address
        if own is None:
            field, hosts = settings.link_host_field, settings.mqtt.hosts(settings.link_scheme)
            own = reached(listened.get(settings.link_scheme) or await resolve(field, hosts))
        return cls(listened, own)

    def at(self, ports: Mapping[str, int]) -> dict[str, list[str]]:
        """Return all listeners as ``host:port``, by scheme.

        Args:
            ports: those that were opened, by scheme.

        """
        return {
            scheme: [join_host_port(address, port) for address in self.listened[scheme]]
            for scheme, port in ports.items()
        }

    def uri(self, ports: Mapping[str, int]) -> str:
        """Return the base of this gateway's CoAP resources, as others write it.

        Args:
            ports: those of CoAP that were opened, by scheme.

        """
        for scheme, port in ports.items():
            listened = self.listened[scheme]
            is_own = self.own in listened or any(map(is_wildcard, listened))
            return f"{scheme}://{join_host_port(self.own if is_own else reached(listened), port)}"
        return f"coaps://{join_host_port(self.own, 0, default_port=0)}"


async def look_up(name: str) -> list[str]:
    """Return all numeric addresses of a name, those that are in a zone with it.

    Raises:
        OSError: it has none.
        UnicodeError: it can't be a name.

    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [_numeric(sockaddr) for _, _, _, _, sockaddr in found]


async def resolve(
    field: str,
    hosts: Sequence[str],
    addresses_of: Callable[[str], Awaitable[Sequence[str]]] = look_up,
) -> tuple[str, ...]:
    """Return all addresses that hosts mean, each once.

    Those of a name that this machine does not have are left out (``localhost`` is ``::1`` too
    where IPv6 is off), and so are those that ``0.0.0.0`` or ``::`` beside them contains.

    Args:
        field: the configuration's.
        hosts: names and numeric addresses.
        addresses_of: looks up a name.

    Raises:
        ConfigError: a name has no address, or none of this machine's.

    """
    found: dict[str, None] = {}
    for host in hosts:
        if _is_numeric(host):
            found[str(ipaddress.ip_address(host))] = None
            continue
        try:
            meant = await addresses_of(host)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "no host name"
            raise ConfigError(field, f"{host!r}: {why}") from error
        here = [address for address in meant if _is_here(address)]
        others = [address for address in meant if address not in here]
        if not here:
            why = f"{host!r} is {', '.join(others)}, which this machine does not have"
            # An address that DHCP has not given yet: it may pass.
            raise ConfigError(field, why) from OSError(errno.EADDRNOTAVAIL, why)
        if others:
            _log.info("%s: %r without %s", field, host, ", ".join(others))
        found |= dict.fromkeys(here)
    every = {ipaddress.ip_address(address).version for address in filter(is_wildcard, found)}
    return tuple(
        address
        for address in found
        if is_wildcard(address) or ipaddress.ip_address(address).version not in every
    )


def reached(addresses: Iterable[str]) -> str:
    """Return the address among these at which others reach this machine, if they can.

    The first that is no loopback address; for ``0.0.0.0`` and ``::`` that of the default route.
    One with a zone means something on this machine alone, and is passed over.
    """
    each = [ipaddress.ip_address(address) for address in addresses if "%" not in address]
    concrete = [address for address in each if not address.is_unspecified]
    for address in concrete:
        if not address.is_loopback:
            return str(address)
    for address in each:
        if address.is_unspecified:
            return _outward(address.version)
    return str(concrete[0]) if concrete else _outward(6)


def _numeric(sockaddr: Sequence[Any]) -> str:
    address = str(sockaddr[0])
    if len(sockaddr) == 4 and sockaddr[3] and "%" not in address:
        return f"{address}%{sockaddr[3]}"
    return address


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_here(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _outward(version: int) -> str:
    """Return the address from which this machine sends to others; loopback if it has no way
    there."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((_OUTSIDE[version], 9))
            address = str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK[version]
    return _LOOPBACK[version] if "%" in address else address
