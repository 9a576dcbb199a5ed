"""How a node comes into its tree: static neighbours, discovered ones, and who dials whom."""

from __future__ import annotations

import asyncio

from gateway.config import TreeSection
from gateway.links.discovery import Group, MulticastDiscovery
from gateway.links.neighbours import Address, Neighbours
from gateway.links.node import TreeNode
from tree_handler.discovery import Announcement, Discovery


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
        self._tree = tree
        self._own_id = own_id
        self._key = key
        self._boot_epoch = boot_epoch
        self._neighbours = Neighbours(own_id, node.dial, node.is_linked)
        self._discovery: MulticastDiscovery | None = None

    async def start(self, host: str, mqtt_port: int) -> None:
        """Begin to dial, and to announce this node and listen for others.

        Args:
            host: where this node's own listener is.
            mqtt_port: its port; 0 for a node that accepts no links.

        Raises:
            DiscoveryError: the multicast group can't be joined.

        """
        for neighbour in self._tree.neighbours:
            self._neighbours.add_static(Address.parse(neighbour))
        if not self._tree.discovery:
            return
        own = Announcement(self._tree.name, self._own_id, self._boot_epoch, host, mqtt_port)
        core = Discovery(own, self._key, asyncio.get_running_loop().time())
        group = Group(
            self._tree.discovery_interface, self._tree.discovery_group, self._tree.discovery_port
        )
        self._discovery = MulticastDiscovery(core, group, self._found)
        await self._discovery.start()

    async def stop(self) -> None:
        """Stop listening and dialling."""
        if self._discovery is not None:
            await self._discovery.stop()
            self._discovery = None
        await self._neighbours.stop()

    def _found(self, announcement: Announcement) -> None:
        if announcement.mqtt_port:
            address = Address(announcement.address, announcement.mqtt_port)
            self._neighbours.add_discovered(address, announcement.gateway_id)
