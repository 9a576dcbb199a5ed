"""Attachment of a node to its tree: static neighbours, found ones, and who dials whom."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from gateway.base.printable import said
from gateway.node.links.discovery import DiscoveryError, Group, MulticastDiscovery
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.node import TreeNode
from gateway.node.links.tcp import TcpAddress
from gateway.process.configuration.config import ConfigError, TreeSection
from gateway.process.running.substitutes import SubstitutePart
from light_dataclasses import dataclass
from tree_handler.discovery import Announcement, Discovery
from tree_handler.members.hierarchy import Membership

if TYPE_CHECKING:
    from gateway.node.links.dns_sd import DnsSd


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Ways:
    """The settings of a section by which neighbours are found; equal ones find the same."""

    groups: tuple[Group, ...] = ()
    dns_sd: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: TreeSection) -> _Ways:
        groups = (
            Group.on(interface, tree.discovery_group, tree.discovery_port)
            for interface in (tree.interfaces if tree.discovery else ())
        )
        return cls(tuple(groups), tree.interfaces if tree.dns_sd else ())


@dataclass(slots=True)
class _Finding:
    """Discoveries of some ways.

    Attributes:
        ways: these.
        groups: by multicast, each in its group.
        listed: by DNS-SD; None without.

    """

    ways: _Ways = _Ways()
    groups: list[MulticastDiscovery] = field(default_factory=list)
    listed: DnsSd | None = None

    async def begin(self) -> None:
        """Find neighbours, and be found."""
        for discovery in self.groups:
            discovery.begin()
        if self.listed is not None:
            await self.listed.start()

    async def stop(self) -> None:
        """Stop it all; what fails of DNS-SD is logged."""
        for discovery in self.groups:
            await discovery.stop()
        self.groups = []
        await self._unlist()

    async def without_list(self) -> None:
        """Go on by multicast alone, since DNS-SD does not work."""
        self.ways = replace(self.ways, dns_sd=())
        await self._unlist()

    async def _unlist(self) -> None:
        listed, self.listed = self.listed, None
        if listed is None:
            return
        try:
            await listed.stop()
        except Exception as error:  # zeroconf's are of no other kind
            _log.error("DNS-SD did not stop in order: %s", said(error))


class Attachment:
    """Keeps a node linked to every neighbour it can find.

    Args:
        node: whose links these are.
        tree: the configuration's section.
        own_id: the node's gateway id.
        key: the tree's key.
        boot_epoch: the node's boot epoch.
        tell: called with what does not work now, and why; with nothing for why when it does.

    """

    def __init__(
        self,
        node: TreeNode,
        tree: TreeSection,
        own_id: str,
        key: bytes,
        boot_epoch: int,
        tell: Callable[[str, str], None] = lambda what, why: None,
    ) -> None:
        self._node = node
        self._tree = tree
        self._own_id = own_id
        self._key = key
        self._boot_epoch = boot_epoch
        self._tell = tell
        self.neighbours = Neighbours(own_id, node.dial, node.is_linked, node.link_ends)
        self._own: Announcement | None = None
        self._finding = _Finding()
        self._changing = asyncio.Lock()
        self._substitutes: SubstitutePart | None = None

    def turn_to(self, members: Membership) -> None:
        """Dial one of these in place of static neighbours that are gone; before `start`.

        Args:
            members: the gateways of the fleet.

        """
        self._substitutes = SubstitutePart(self._node, members, self.neighbours, self._tree)
        self._node.add_part(self._substitutes)

    async def start(self, host: str, port: int) -> None:
        """Begin to dial, and to announce this node and listen for others.

        Args:
            host: where this node's own listener is.
            port: the one it takes links at; 0 for a node that accepts none.

        Raises:
            ConfigError: the multicast group can't be joined.

        """
        self._own = own = Announcement(self._tree.name, self._own_id, self._boot_epoch, host, port)
        self._node.listens_at(port)
        if self._tree.dial_back:
            self._node.dials_back(self.neighbours)
        try:
            found_by = await self._joined(own, _Ways.of(self._tree))
        except DiscoveryError as error:
            raise ConfigError("tree.discovery_interface", str(error)) from error
        await self._find_by(found_by)
        for neighbour in self._tree.neighbours:
            self.neighbours.add_static(TcpAddress.parse(neighbour))
        if self._substitutes is not None:
            self._substitutes.begin(TcpAddress(host, port))

    @asynccontextmanager
    async def changing(self, tree: TreeSection) -> AsyncIterator[Callable[[], Awaitable[None]]]:
        """Have all ready to go by other neighbours and other ways to find them.

        Yields what goes by them from then on; without a call of it nothing changes. What stays is
        not touched.

        Raises:
            DiscoveryError: a multicast group can't be joined; nothing has changed.

        """
        async with self._changing:
            fresh = self._finding
            if self._own is not None:  # else `start` will find them
                fresh = await self._joined(self._own, _Ways.of(tree))
            try:
                yield partial(self._change, tree, fresh)
            finally:
                if fresh is not self._finding:
                    await fresh.stop()

    async def stop(self) -> None:
        """Stop listening and dialling."""
        await self._finding.stop()
        if self._substitutes is not None:
            await self._substitutes.stop()
        await self.neighbours.stop()

    async def _change(self, tree: TreeSection, fresh: _Finding) -> None:
        before = {TcpAddress.parse(neighbour) for neighbour in self._tree.neighbours}
        after = {TcpAddress.parse(neighbour) for neighbour in tree.neighbours}
        self._tree = tree
        for address in before - after:
            self.neighbours.remove_static(address)
        for address in after - before:
            self.neighbours.add_static(address)
        why = ""
        try:
            await self._find_by(fresh)
        except Exception as error:  # zeroconf's are of no other kind
            why = said(error)
        self._tell("DNS-SD", why)
        if why:  # all else goes by what was read, and the next reload tries this again
            _log.error("no neighbours are found by DNS-SD: %s", why)
            await self._finding.without_list()

    async def _joined(self, own: Announcement, ways: _Ways) -> _Finding:
        """Have all ready to find neighbours, which begins in `_find_by`."""
        if ways == self._finding.ways:
            return self._finding
        now = asyncio.get_running_loop().time()
        fresh = _Finding(ways)
        if ways.dns_sd:
            fresh.listed = self._listed(own, ways.dns_sd)
        for group in ways.groups:
            discovery = MulticastDiscovery(Discovery(own, self._key, now), group, self._found)
            try:
                await discovery.join()
            except DiscoveryError:
                await fresh.stop()
                raise
            fresh.groups.append(discovery)
        return fresh

    async def _find_by(self, fresh: _Finding) -> None:
        if fresh is self._finding:
            return
        before, self._finding = self._finding, fresh
        await before.stop()  # first, since a gateway is listed once
        await fresh.begin()

    def _listed(self, own: Announcement, interfaces: tuple[str, ...]) -> DnsSd:
        from gateway.node.links.dns_sd import DnsSd  # noqa: PLC0415  # only where it is used

        try:
            return DnsSd(own, interfaces, self.neighbours)
        except OSError as error:
            where = f"DNS-SD on {', '.join(interfaces)}"
            raise DiscoveryError(error.errno, f"{where}: {error.strerror}") from error

    def _found(self, announcement: Announcement) -> None:
        if announcement.mqtt_port:
            address = TcpAddress(announcement.address, announcement.mqtt_port)
            self.neighbours.add_discovered(address, announcement.gateway_id)
