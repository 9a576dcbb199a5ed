"""Opens the console of a gateway with its pages."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.process.configuration.config import CONSOLE_PORT, ConfigError
from gateway.process.console import plain_pages
from gateway.process.console.page_access import PageAccess
from gateway.process.console.server import Console, WebFace
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.alerting.figures import AlertFigures
    from gateway.broker.data_plane import DataPlane
    from gateway.node.links.node import TreeNode
    from gateway.node.links.routed_part import RoutedPart
    from gateway.process.configuration.config import ConsoleSection
    from gateway.process.console.pages import Page
    from gateway.process.status.edge import GatewayEdge
    from gateway.trust.tls.context import Tls


_log = logging.getLogger(__name__)


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
    visitors: PageAccess


async def open_console(
    own: ConsoleSection,
    core: DataPlane,
    node: TreeNode,
    routed: RoutedPart | None,
    edge: GatewayEdge,
    visitors: PageAccess,
    tls: Tls | None = None,
    *,
    web: WebFace | None = None,
    figures: Callable[[], AlertFigures] | None = None,
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
        web: the gateway's page, which answers all other paths; None where there is none.
        figures: of alerts, and of what they look at; None where nobody looks.

    Raises:
        ConfigError: the address is in use, or not this machine's.

    """
    pages: dict[str, Callable[[], Page]] = {
        "/metrics": lambda: _metrics(core, node, routed, edge, figures),
        "/healthz": lambda: plain_pages.health(node.log),
    }
    if web is None:
        pages["/"] = plain_pages.contents
    console = Console(pages, visitors, tls, web)
    try:
        port = await _started(console, own.host, own.port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError("console.port", f"{own.host}:{own.port}: {why}") from error
    return OpenConsole(console, port, visitors)


def _metrics(
    core: DataPlane,
    node: TreeNode,
    routed: RoutedPart | None,
    edge: GatewayEdge,
    figures: Callable[[], AlertFigures] | None,
) -> Page:
    from gateway.process.console import metrics  # noqa: PLC0415  # 50 modules, for who is scraped

    return metrics.page(core, node, routed, edge, None if figures is None else figures())


async def _started(console: Console, host: str, port: int) -> int:
    try:
        return await console.start(host, port)
    except OSError as error:
        if port != CONSOLE_PORT or error.errno != errno.EADDRINUSE:
            raise
    free = await console.start(host, 0)
    _log.warning(
        "console: something on this machine listens on port %d already, so this gateway takes %d; "
        "with another console.port it has the same after each start",
        port,
        free,
    )
    return free
