"""Keeps track of who is reached over which link: the locator on a node's links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from tree_handler.routing.locator import GatewayLocation, Locator, ReachUpdate

_BEHIND: Final = b"$hedgerow/behind"


class LocatorPart:
    """The locator of one node; a `Part`.

    Args:
        own: the node's gateway id and boot epoch.
        forwarding: the links that carry data now.
        send: queues a control message on a link.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((_BEHIND,))

    def __init__(
        self,
        own: tuple[str, int],
        forwarding: Callable[[], frozenset[int]],
        send: Callable[[int, bytes, bytes], None],
    ) -> None:
        self.locator = Locator(*own)
        self._forwarding = forwarding
        self._send = send
        self._told_of_moves: list[Callable[[float], None]] = []

    def tell_of_moves(self, told: Callable[[float], None]) -> None:
        """Call this, with the time, after somebody came into reach, left it or is elsewhere."""
        self._told_of_moves.append(told)

    @property
    def reached(self) -> frozenset[str]:
        """All other gateways that the tree reaches now."""
        return self.locator.reached

    def epoch_of(self, gateway_id: str) -> int | None:
        """Return the boot epoch under which the tree reaches a gateway now; None if it does not."""
        return self.locator.epoch_of(gateway_id)

    def way_to(self, gateway_id: str) -> GatewayLocation | None:
        """Return how the tree reaches a gateway now; None if it does not."""
        return self.locator.way_to(gateway_id)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: a link counts when it forwards."""

    def link_down(self, link: int, now: float) -> None:
        """Forget what lay behind the link, and tell the neighbours."""
        self._tell(self.locator.link_down(link), now)

    def tree_changed(self, now: float) -> None:
        """Tell the neighbours what lies behind the links that forward now."""
        self._tell(self.locator.forwards(self._forwarding()), now)

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take what a neighbour reaches, and tell the others."""
        self._tell(self.locator.receive(link, ReachUpdate.decode(payload)), now)

    def next_timer(self) -> float:
        """Return infinity: nothing is due by time."""
        return math.inf

    def handle_timer(self, now: float) -> None:
        """Do nothing."""

    def _tell(self, news: Mapping[int, ReachUpdate], now: float) -> None:
        for link, behind in news.items():
            self._send(link, _BEHIND, behind.encode())
        for told in self._told_of_moves:
            told(now)
