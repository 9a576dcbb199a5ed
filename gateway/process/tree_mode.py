"""What `tree.mode` asks for on a node's links (C3 to C5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.configuration.config import TreeSection
from gateway.links.groups_part import GroupsPart
from gateway.links.node import TreeNode
from gateway.links.overlay_part import OverlayPart
from gateway.links.routed_part import RoutedPart
from tree_handler.members.hierarchy import Membership
from tree_handler.members.place import Place
from tree_handler.overlays.overlays import Settings
from tree_handler.overlays.policy import RootPolicy, Weights


def route(
    node: TreeNode, tree: TreeSection, folder: Path, *, transit: bool = True
) -> RoutedPart | None:
    """Add the parts that bring clients' messages where they are wanted.

    Args:
        node: made with ``floods_clients`` only in mode ``flood``, where nothing is added.
        tree: the configuration's section.
        folder: where routed mode keeps its file.
        transit: False for a leaf.

    """
    if tree.mode == "flood":
        return None
    overlays = None
    if tree.mode == "topic":
        weights = Weights(tree.balance_roots, tree.balance_clients)
        settings = Settings(RootPolicy(tree.root_policy), weights, tree.max_overlays)
        overlays = OverlayPart(node, settings, asyncio.get_running_loop().time())
        node.add_part(overlays)
    part = RoutedPart(node, folder, transit=transit, overlays=overlays)
    node.add_part(part)
    return part


def share(
    node: TreeNode, tree: TreeSection, folder: Path, routed: RoutedPart | None, known: Membership
) -> GroupsPart:
    """Add the part that has shared subscriptions served once over the fleet.

    Args:
        node: on whose links it rides.
        tree: the configuration's section.
        folder: where it keeps its file.
        routed: what `route` added.
        known: where the fleet's gateways stand.

    """

    def place_of(gateway_id: str) -> Place | None:
        record = known.get(gateway_id)
        return None if record is None else record.place

    part = GroupsPart(
        node,
        folder,
        decides=tree.shared_subscriptions == "fleet",
        place_of=place_of,
        carried_to=None if routed is None else routed.interests.destinations,
    )
    node.add_part(part)
    return part
