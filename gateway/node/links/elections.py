"""Count of elections in which a gateway became the root of its tree."""

from __future__ import annotations

import math
from collections.abc import Callable


class Elections:
    """A `Part` that only counts.

    Args:
        own_id: of this gateway.
        root_id: gives that of the root.

    Attributes:
        count: so often it has become root; that it is so at its start is none.

    """

    topics: frozenset[bytes] = frozenset()

    def __init__(self, own_id: str, root_id: Callable[[], str]) -> None:
        self.count = 0
        self._own_id = own_id
        self._root_id = root_id
        self._was_root = True

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: the tree alone counts."""

    def tree_changed(self, now: float) -> None:
        """Count an election that this gateway has won."""
        is_root = self._root_id() == self._own_id
        self.count += is_root and not self._was_root
        self._was_root = is_root

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing: nothing comes, as the part has no topic."""

    def next_timer(self) -> float:
        """Return infinity: nothing is due by time."""
        return math.inf

    def handle_timer(self, now: float) -> None:
        """Do nothing."""
