"""Keeps track of who is reached over which link: the locator on a node's links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from gateway.node.links.word_rate import LONG_BYTES, WordAllowance, WordRates
from tree_handler.routing.locator import GatewayLocation, Locator, ReachUpdate

_BEHIND: Final = b"$hedgerow/behind"
AT_ONCE: Final = WordAllowance(100, 20.0)
"""Neighbours' words that others are told of at once."""
GATHER_S: Final = 0.2
"""For so long those beyond that are gathered ..."""
GATHER_MAX_S: Final = 2.0
"""... or until there may be one more, but no longer than this."""


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
        self._rate = WordRates(AT_ONCE)
        self._tell_at = math.inf

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
        """Take what a neighbour reaches, and tell the others: soon, if they were told very often.

        Else one neighbour who says that gateways come and go would have all of the fleet be told.
        """
        behind = ReachUpdate.decode(payload)
        size = 1.0 + len(payload) // LONG_BYTES
        wait_s = self._rate.wait_s("", now, size) if self._tell_at == math.inf else 0.0
        if self._tell_at == math.inf and not wait_s:
            self._tell(self.locator.receive(link, behind), now)
            return
        self.locator.learn(link, behind)
        due_s = now + min(max(wait_s, GATHER_S), GATHER_MAX_S)
        self._tell_at = min(self._tell_at, due_s)

    def next_timer(self) -> float:
        """Return when others are told what was gathered."""
        return self._tell_at

    def handle_timer(self, now: float) -> None:
        """Tell the others what was gathered."""
        if now >= self._tell_at:
            self._tell_at = math.inf
            self._tell(self.locator.tell(), now)

    def _tell(self, news: Mapping[int, ReachUpdate], now: float) -> None:
        for link, behind in news.items():
            self._send(link, _BEHIND, behind.encode())
        for told in self._told_of_moves:
            told(now)
