"""How a node comes into its tree: static neighbours, found ones, and who dials whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.configuration.config import TreeSection
from gateway.links.discovery import DiscoveryError, Group, MulticastDiscovery
from gateway.links.neighbours import Address, Neighbours
from gateway.links.node import TreeNode
from tree_handler.discovery import Announcement, Discovery

if TYPE_CHECKING:
    from gateway.links.dns_sd import DnsSd


@dataclass(frozen=True, slots=True)
class _Ways:
    """What a section says of finding others; two that are the same find the same."""

    groups: tuple[Group, ...] = ()
    dns_sd: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: TreeSection) -> _Ways:
        groups = (
            Group.on(interface, tree.discovery_group, tree.discovery_port)
            for interface in (tree.interfaces if tree.discovery else ())
        )
        return cls(tuple(groups), tree.interfaces if tree.dns_sd else ())


class Attachment:
    """Keeps a node linked to every neighbour it can find.

    Args:
        node: whose links these are.
        tree: the configuration's section.
        own_id: the node's gateway id.
        key: the tree's key.
        boot_epoch: the node's boot epoch.

    """

    def __init__(
        self, node: TreeNode, tree: TreeSection, own_id: str, key: bytes, boot_epoch: int
    ) -> None:
        self._node = node
        self._tree = tree
        self._own_id = own_id
        self._key = key
        self._boot_epoch = boot_epoch
        self.neighbours = Neighbours(own_id, node.dial, node.is_linked)
        self._own: Announcement | None = None
        self._ways = _Ways()
        self._discoveries: Sequence[MulticastDiscovery | DnsSd] = ()
        self._changing = asyncio.Lock()

    async def start(self, host: str, port: int) -> None:
        """Begin to dial, and to announce this node and listen for others.

        Args:
            host: where this node's own listener is.
            port: the one it takes links at; 0 for a node that accepts none.

        Raises:
            DiscoveryError: the multicast group can't be joined.

        """
        self._own = own = Announcement(self._tree.name, self._own_id, self._boot_epoch, host, port)
        self._node.listens_at(port)
        if self._tree.dial_back:
            self._node.dials_back(self.neighbours)
        await self._find(own, _Ways.of(self._tree))
        for neighbour in self._tree.neighbours:
            self.neighbours.add_static(Address.parse(neighbour))

    async def change(self, tree: TreeSection) -> None:
        """Go by other neighbours and other ways to find them; what stays is not touched.

        Raises:
            DiscoveryError: a multicast group can't be joined; nothing has changed.

        """
        async with self._changing:
            if self._own is not None:  # else `start` will find them
                await self._find(self._own, _Ways.of(tree))
            before = {Address.parse(neighbour) for neighbour in self._tree.neighbours}
            after = {Address.parse(neighbour) for neighbour in tree.neighbours}
            self._tree = tree
            for address in before - after:
                self.neighbours.remove_static(address)
            for address in after - before:
                self.neighbours.add_static(address)

    async def stop(self) -> None:
        """Stop listening and dialling."""
        for discovery in self._discoveries:
            await discovery.stop()
        self._discoveries = ()
        await self.neighbours.stop()

    async def _find(self, own: Announcement, ways: _Ways) -> None:
        if ways == self._ways:
            return
        now = asyncio.get_running_loop().time()
        listed = self._listed(own, ways.dns_sd) if ways.dns_sd else None
        fresh: list[MulticastDiscovery | DnsSd] = []
        for group in ways.groups:
            discovery = MulticastDiscovery(Discovery(own, self._key, now), group, self._found)
            try:
                await discovery.start()
            except DiscoveryError:
                for started in fresh:
                    await started.stop()
                raise
            fresh.append(discovery)
        for before in self._discoveries:
            await before.stop()
        self._discoveries, self._ways = fresh, ways
        if listed is not None:  # last, since a gateway is listed once
            fresh.append(listed)
            await listed.start()

    def _listed(self, own: Announcement, interfaces: tuple[str, ...]) -> DnsSd:
        from gateway.links.dns_sd import DnsSd  # noqa: PLC0415  # only where it is used

        try:
            return DnsSd(own, interfaces, self.neighbours)
        except OSError as error:
            where = f"DNS-SD on {', '.join(interfaces)}"
            raise DiscoveryError(error.errno, f"{where}: {error.strerror}") from error

    def _found(self, announcement: Announcement) -> None:
        if announcement.mqtt_port:
            address = Address(announcement.address, announcement.mqtt_port)
            self.neighbours.add_discovered(address, announcement.gateway_id)
