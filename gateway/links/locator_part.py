"""Keeps track of who is reached over which link: the locator on a node's links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from tree_handler.routing.locator import Behind, Locator

if TYPE_CHECKING:
    from gateway.links.node import TreeNode

_BEHIND = b"$hedgerow/behind"


class LocatorPart:
    """The locator of one node; a `Part`.

    Args:
        node: whose links it rides on.
        own_id: the node's gateway id.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((_BEHIND,))

    def __init__(self, node: TreeNode, own_id: str) -> None:
        self.locator = Locator(own_id)
        self.moved: list[Callable[[float], None]] = []
        """Called after somebody came into reach, left it or is on another way, with the time."""
        self._node = node

    @property
    def reached(self) -> frozenset[str]:
        """All other gateways that the tree reaches now."""
        return self.locator.reached

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """See `Part`."""

    def link_down(self, link: int, now: float) -> None:
        """See `Part`."""
        self._tell(self.locator.link_down(link), now)

    def tree_changed(self, now: float) -> None:
        """See `Part`."""
        self._tell(self.locator.forwards(self._node.tree.forwarding), now)

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """See `Part`."""
        self._tell(self.locator.receive(link, Behind.decode(payload)), now)

    def next_timer(self) -> float:
        """See `Part`."""
        return math.inf

    def handle_timer(self, now: float) -> None:
        """See `Part`."""

    def _tell(self, news: Mapping[int, Behind], now: float) -> None:
        for link, behind in news.items():
            self._node.send(link, _BEHIND, behind.encode())
        for told in self.moved:
            told(now)
