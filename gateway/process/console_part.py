"""The console of a gateway, if it has one: its modules are loaded only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtls.datagrams import join_host_port
from gateway.access.files import AccessFiles
from gateway.configuration.config import GatewaySettings

if TYPE_CHECKING:
    from gateway.broker.data_plane import DataPlane
    from gateway.console.opening import OpenConsole
    from gateway.links.node import TreeNode
    from gateway.links.routed_part import RoutedPart
    from gateway.status.edge import GatewayEdge


class ConsolePart:
    """Starts it, renews what says who may see it, and stops it.

    Attributes:
        address: where it listens; None if it does not.

    """

    def __init__(self) -> None:
        self.address: str | None = None
        self._open: OpenConsole | None = None

    async def start(
        self,
        settings: GatewaySettings,
        files: AccessFiles,
        core: DataPlane,
        node: TreeNode,
        routed: RoutedPart | None,
        edge: GatewayEdge,
    ) -> None:
        """Listen, if the configuration says so.

        Args:
            settings: of the gateway.
            files: say who may see it.
            core: the broker, of which it tells,
            node: the node in the tree,
            routed: routed mode, None in mode ``flood``,
            edge: and all else.

        Raises:
            ConfigError: the address is in use, or not this machine's.

        """
        own = settings.console
        if not own.enabled:
            return
        from gateway.console.opening import open_console  # noqa: PLC0415  # only where it is used
        from gateway.console.visitors import Visitors  # noqa: PLC0415  # as above

        who = files.policy, files.broker.passwords
        visitors = Visitors(*who, settings.limits, own.names)
        console = (visitors, files.console_tls)
        self._open = await open_console(own, core, node, routed, edge, *console)
        self.address = join_host_port(own.host, self._open.port)

    @property
    def listeners(self) -> dict[str, list[str]]:
        """Where it listens, by its name; empty if it does not."""
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
