"""Settings of a node's log and links, from the configuration."""

from __future__ import annotations

from gateway.node.links.handshake import Credentials
from gateway.node.links.settings import NodeSettings
from gateway.node.links.wire import Additions
from gateway.process.configuration.config import GatewaySettings
from tree_handler.seal import Seals
from tree_handler.spanning.spanning_tree import Identity, Parameters


def node_settings(
    settings: GatewaySettings, key: bytes, identity: Identity, seals: Seals | None
) -> NodeSettings:
    """Return how a gateway's node is run.

    Args:
        settings: the configuration.
        key: the tree's.
        identity: what the spanning tree elects by.
        seals: proves what this gateway makes; None where nobody seals.

    """
    own, tree, log = settings.gateway, settings.tree, settings.log
    return NodeSettings(
        Credentials(own.id, tree.name, key, mode=tree.mode, additions=Additions.CLOCKS),
        identity,
        Parameters(hello_s=tree.hello_s),
        sync=log.durability == "sync",
        sync_interval_s=log.sync_interval_ms / 1000,
        repair_interval_s=tree.repair_interval_s,
        floods_clients=tree.mode == "flood",
        seals=seals,
    )
