"""Opens the console of a gateway with its two pages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.configuration.config import ConfigError
from gateway.console import health, metrics
from gateway.console.server import Console
from gateway.console.visitors import Visitors

if TYPE_CHECKING:
    from gateway.broker.data_plane import DataPlane
    from gateway.configuration.config import ConsoleSection
    from gateway.links.node import TreeNode
    from gateway.links.routed_part import RoutedPart
    from gateway.status.edge import GatewayEdge
    from gateway.tls.context import Tls


@dataclass(frozen=True, slots=True)
class OpenConsole:
    """A console that listens.

    Attributes:
        console: the listener.
        port: its.
        visitors: decide who may see it.

    """

    console: Console
    port: int
    visitors: Visitors


async def open_console(
    own: ConsoleSection,
    core: DataPlane,
    node: TreeNode,
    routed: RoutedPart | None,
    edge: GatewayEdge,
    visitors: Visitors,
    tls: Tls | None = None,
) -> OpenConsole:
    """Listen.

    Args:
        own: where.
        core: the broker, of which the pages tell,
        node: the node in the tree,
        routed: routed mode, None in mode ``flood``,
        edge: and all else.
        visitors: decide who may see them.
        tls: what it shows and takes; None for HTTP.

    Raises:
        ConfigError: the address is in use, or not this machine's.

    """
    console = Console(
        {
            "/metrics": lambda: metrics.page(core, node, routed, edge),
            "/healthz": lambda: health.page(node.log),
        },
        visitors,
        tls,
    )
    try:
        port = await console.start(own.host, own.port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError("console.port", f"{own.host}:{own.port}: {why}") from error
    return OpenConsole(console, port, visitors)
