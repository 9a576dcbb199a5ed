"""Estates: what ended sessions left of shared subscriptions, until others have gone on with it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from gateway.broker.hooks import Owner
from gateway.broker.outbound.message import IN_PACKET
from gateway.broker.sessions.backlog import QueuedDelivery
from gateway.broker.sessions.places import Places
from light_dataclasses import dataclass
from tree_handler.holders import SharedGroup

BYTES_MAX: Final = 32 << 20
"""Of memory, about, for all that waits."""
SHARE: Final = 4
"""Of them one user's sessions may take one part in so many."""
OVERHEAD_BYTES: Final = 500
"""The size of an estate besides what waited."""


@dataclass(frozen=True, slots=True)
class Estate:
    """The messages that a session left when it ended.

    Attributes:
        owner: whose it was.
        items: what waited, in its order.
        groups: the shared subscriptions that some of it was delivered for, by their marks.
        is_kept: whether the journal knows of it, and so has to know what becomes of it.

    """

    owner: Owner
    items: list[QueuedDelivery | Places]
    groups: dict[int, SharedGroup]
    is_kept: bool = False

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes."""
        sizes = [
            one.size_bytes if isinstance(one, Places) else one[0].size_bytes for one in self.items
        ]
        return OVERHEAD_BYTES + sum(sizes)

    @property
    def count(self) -> int:
        """Return how many messages of shared subscriptions it has."""
        found = 0
        for item in self.items:
            if isinstance(item, Places):
                found += sum(
                    run.count for run in item.runs() if run.way[1] & ~IN_PACKET in self.groups
                )
            else:
                found += item[1] & ~IN_PACKET in self.groups
        return found


class Estates:
    """Those that wait, each with the steps in which it is handed over, the oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Estate, Iterator[bool], int]] = deque()
        self._bytes_of: Counter[Owner] = Counter()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, estate: Estate, steps: Iterator[bool]) -> bool:
        """Let one wait; False if there is no room, for it has to wait behind others."""
        size, of = estate.size_bytes, self._bytes_of
        is_over = self._bytes + size > BYTES_MAX or of[estate.owner] + size > BYTES_MAX // SHARE
        if self._waiting and is_over:
            return False
        self._waiting.append((estate, steps, size))
        self._bytes += size
        of[estate.owner] += size
        return True

    def step(self) -> bool:
        """Hand over a piece of the first; False if that has to wait."""
        estate, steps, size = self._waiting[0]
        for could_go_on in steps:
            return could_go_on
        self._waiting.popleft()
        self._bytes -= size
        self._bytes_of[estate.owner] -= size
        if self._bytes_of[estate.owner] <= 0:
            del self._bytes_of[estate.owner]
        return True
