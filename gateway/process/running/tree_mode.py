"""Links of a node in the mode of `tree.mode` (C3 to C5)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.node.links.groups_part import GroupsPart
from gateway.node.links.node import TreeNode
from gateway.process.configuration.config import TreeSection
from tree_handler.members.hierarchy import Membership
from tree_handler.members.place import Place

if TYPE_CHECKING:
    from gateway.node.links.overlay_part import OverlayPart
    from gateway.node.links.routed_part import RoutedPart


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
    from gateway.node.links.routed_part import RoutedPart  # noqa: PLC0415  # not in mode `flood`

    overlays = _overlays(node, tree) if tree.mode == "topic" else None
    part = RoutedPart(node, folder, transit=transit, overlays=overlays)
    node.add_part(part)
    return part


def _overlays(node: TreeNode, tree: TreeSection) -> OverlayPart:
    from gateway.node.links.overlay_part import OverlayPart  # noqa: PLC0415  # in mode `topic` alone
    from tree_handler.overlays.overlays import Settings  # noqa: PLC0415  # as above
    from tree_handler.overlays.policy import RootPolicy, Weights  # noqa: PLC0415  # as above

    weights = Weights(tree.balance_roots, tree.balance_clients)
    settings = Settings(RootPolicy(tree.root_policy), weights, tree.max_overlays)
    part = OverlayPart(node, settings, asyncio.get_running_loop().time())
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
