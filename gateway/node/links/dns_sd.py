"""Discovery by DNS-SD (RFC 6763) over multicast DNS, for networks that already look things up so.

A gateway that takes links is an instance of ``_hedgerow._tcp`` under its id; TXT says its tree.
Anybody can say that: what is listed is only dialled, and the hand-shake of the link decides.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from zeroconf import IPVersion, ServiceStateChange
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from gateway.node.links.tcp import TcpAddress
from tree_handler.discovery import Announcement
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name, may_be_dialled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroconf import Zeroconf

SERVICE: Final = "_hedgerow._tcp.local."
LOOK_UP_MS: Final = 3_000
MAX_LOOK_UPS: Final = 32
"""Instances that are looked up at a time; more are passed over until they announce themselves."""
MAX_ADDRESSES: Final = 4
"""Of one instance; further ones are not dialled."""

_log = logging.getLogger(__name__)


class Listing(Protocol):
    """A listener for addresses that are listed: `Neighbours`."""

    def add_listed(self, address: TcpAddress, peer_id: str) -> None:
        """An address is listed for a gateway."""

    def remove_listed(self, address: TcpAddress) -> None:
        """It no longer is."""


class DnsSd:
    """Lists this gateway and reports the others of its tree.

    Args:
        own: this gateway; it is not listed if it takes no links.
        interfaces: addresses of the interfaces to speak on.
        listing: told of the others.

    Raises:
        OSError: an interface can't be used.

    """

    def __init__(self, own: Announcement, interfaces: Sequence[str], listing: Listing) -> None:
        self._own = own
        self._interfaces = list(interfaces)
        for interface in self._interfaces:
            _check(interface)
        self._listing = listing
        self._listed: dict[str, list[TcpAddress]] = {}
        self._look_ups: dict[str, asyncio.Task[None]] = {}
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None

    async def start(self) -> None:
        """Begin to list this gateway and to look for others."""
        self._zeroconf = AsyncZeroconf(
            interfaces=self._interfaces, ip_version=_versions(self._interfaces)
        )
        if self._own.mqtt_port:
            # TXT says the id, so another name does no harm.
            await self._zeroconf.async_register_service(_service(self._own), allow_name_change=True)
        self._browser = AsyncServiceBrowser(
            self._zeroconf.zeroconf, SERVICE, handlers=[self._changed]
        )

    async def stop(self) -> None:
        """Take this gateway from the list; what others listed is forgotten."""
        for task in self._look_ups.values():
            task.cancel()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_close()
        for name in list(self._listed):
            self._forget(name)

    def _changed(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        """Called by the browser, on the loop."""
        if state_change is ServiceStateChange.Removed:
            self._forget(name)
        elif name not in self._look_ups and len(self._look_ups) < MAX_LOOK_UPS:
            task = asyncio.create_task(self._look_up(zeroconf, name), name=f"DNS-SD {name}")
            self._look_ups[name] = task
            task.add_done_callback(lambda _: self._look_ups.pop(name, None))

    async def _look_up(self, zeroconf: Zeroconf, name: str) -> None:
        found = AsyncServiceInfo(SERVICE, name)
        if not await found.async_request(zeroconf, LOOK_UP_MS) or not found.port:
            return
        gateway_id = _text(found, b"id")
        try:
            check_name("DNS-SD id", gateway_id)
        except ProtocolError as error:
            _log.debug("%s: %s", name, error)
            return
        if _text(found, b"tree") != self._own.tree or gateway_id == self._own.gateway_id:
            return
        addresses = filter(self._may_be_dialled, found.parsed_scoped_addresses(IPVersion.All))
        self._forget(name)
        self._listed[name] = [
            TcpAddress(address, found.port) for address in islice(addresses, MAX_ADDRESSES)
        ]
        for address in self._listed[name]:
            self._listing.add_listed(address, gateway_id)

    def _may_be_dialled(self, address: str) -> bool:
        """Return whether it may be dialled by anybody's word.

        This machine itself may only where it is looked for there.
        """
        bare = address.partition("%")[0]
        if ipaddress.ip_address(bare).is_link_local:
            return True
        return any(may_be_dialled(bare, own) for own in (self._own.address, *self._interfaces))

    def _forget(self, name: str) -> None:
        for address in self._listed.pop(name, ()):
            self._listing.remove_listed(address)


def _service(own: Announcement) -> AsyncServiceInfo:
    return AsyncServiceInfo(
        SERVICE,
        f"{own.gateway_id}.{SERVICE}",
        port=own.mqtt_port,
        addresses=[ipaddress.ip_address(own.address).packed],
        properties={"id": own.gateway_id, "tree": own.tree},
        server=f"{own.gateway_id}.local.",
    )


def _check(interface: str) -> None:
    """Check that an interface is there.

    Raises:
        OSError: none has this address.

    """
    family = socket.AF_INET6 if ":" in interface else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as tried:
        tried.bind((interface, 0))


def _versions(interfaces: Sequence[str]) -> IPVersion:
    versions = {ipaddress.ip_address(one.partition("%")[0]).version for one in interfaces}
    if versions == {4}:
        return IPVersion.V4Only
    return IPVersion.V6Only if versions == {6} else IPVersion.All


def _text(service: AsyncServiceInfo, key: bytes) -> str:
    return (service.properties.get(key) or b"").decode(errors="replace")
