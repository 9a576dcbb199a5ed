"""The console of a gateway, if it has one: its modules are loaded only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dtls.datagrams import join_host_port
from gateway.base.toml.checks import is_loopback
from gateway.process.access.files import AccessFiles
from gateway.process.configuration.config import ConsoleSection, GatewaySettings

if TYPE_CHECKING:
    from gateway.alerting.figures import AlertFigures
    from gateway.broker.data_plane import DataPlane
    from gateway.node.links.node import TreeNode
    from gateway.node.links.routed_part import RoutedPart
    from gateway.process.console.opening import OpenConsole
    from gateway.process.console.server import Guest
    from gateway.process.page.face import PageFace
    from gateway.process.status.edge import GatewayEdge


def page_for_others(own: ConsoleSection, port: int) -> str:
    """Return the address of a gateway's page for other machines; without one, of its health.

    Args:
        own: where the console listens, and by which names it is asked.
        port: on which it listens.

    Returns:
        It goes by the first of the names, else by the address; empty where the console listens for
        its own machine alone, or on all addresses without a name.

    """
    is_for_all = own.host in ("0.0.0.0", "::")  # noqa: S104  # compared, not listened on
    if is_loopback(own.host) or (is_for_all and not own.names):
        return ""
    scheme = "http" if own.certificate_file is None else "https"
    path = "/" if own.web else "/healthz"
    return f"{scheme}://{join_host_port((own.names or [own.host])[0], port)}{path}"


class ConsolePart:
    """Starts it, renews what says who may see it, and stops it.

    Attributes:
        address: where it listens; None if it does not.
        page: for other machines, the address of its page or else of its health; empty if they
            reach none.

    """

    def __init__(self) -> None:
        self.address: str | None = None
        self.page = ""
        self._open: OpenConsole | None = None

    async def start(
        self,
        settings: GatewaySettings,
        files: AccessFiles,
        core: DataPlane,
        node: TreeNode,
        routed: RoutedPart | None,
        edge: GatewayEdge,
        *,
        web: PageFace | None = None,
        figures: Callable[[], AlertFigures] | None = None,
    ) -> None:
        """Listen, if the configuration says so.

        Args:
            settings: of the gateway.
            files: say who may see it.
            core: the broker, of which it tells,
            node: the node in the tree,
            routed: routed mode, None in mode ``flood``,
            edge: and all else.
            web: the gateway's page; None where there is none.
            figures: of alerts, and of what they look at; None where nobody looks.

        Raises:
            ConfigError: the address is in use, or not this machine's.

        """
        own = settings.console
        if not own.enabled:
            return
        from gateway.process.console.opening import open_console  # noqa: PLC0415  # only where it is used
        from gateway.process.console.page_access import PageAccess  # noqa: PLC0415  # as above

        who = files.policy, files.broker.passwords
        visitors = PageAccess(*who, settings.limits, own.names)
        console = (visitors, files.console_tls)
        self._open = await open_console(
            own, core, node, routed, edge, *console, web=web, figures=figures
        )
        self.address = join_host_port(own.host, self._open.port)
        self.page = page_for_others(own, self._open.port)

    def serve_below(self, path: str, guest: Guest) -> None:
        """Have somebody answer below a path; nothing changes where nobody listens."""
        if self._open is not None:
            self._open.console.serve_below(path, guest)

    @property
    def listeners(self) -> dict[str, list[str]]:
        """Return the console's address, by its name; empty if it is off."""
        return {} if self.address is None else {"console": [self.address]}

    def follow(self, files: AccessFiles) -> None:
        """Go by files that were read again."""
        if self._open is not None:
            self._open.visitors.follow(files.policy, files.broker.passwords)
            self._open.console.follow(files.console_tls)

    async def stop(self) -> None:
        """Listen no more."""
        if self._open is not None:
            await self._open.console.stop()
