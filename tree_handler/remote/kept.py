"""Answers that were sent to other gateways, for who asks again because one was lost (sans-I/O).

Of each gateway and of all together so many answers and bytes are kept; the oldest goes first. Who
asks again for what is kept no longer is not answered: it is executed once all the same
(`request_memory`).
"""

from __future__ import annotations

from typing import Final

from tree_handler.deadlines import Deadlines
from tree_handler.remote.executing import QueryKey
from tree_handler.remote.message import Publication

MAX_KEPT: Final = 2_048
MAX_KEPT_BYTES: Final = 4 << 20
MAX_KEPT_OF_ASKER: Final = 512
MAX_KEPT_BYTES_OF_ASKER: Final = 1 << 20
MAX_GIVEN: Final = 8
"""So often one answer is given again: a few bytes ask for up to 64 KiB."""


class _OfAsker:
    """The answers that are kept for one gateway."""

    __slots__ = ("held_bytes", "keys")

    def __init__(self) -> None:
        self.keys: dict[QueryKey, None] = {}
        self.held_bytes = 0


class KeptAnswers:
    """Answers of one kind.

    Args:
        most: so many at most.
        most_bytes: all of them together.
        most_of_asker: for one gateway.
        most_bytes_of_asker: likewise.

    """

    def __init__(
        self,
        most: int = MAX_KEPT,
        most_bytes: int = MAX_KEPT_BYTES,
        most_of_asker: int = MAX_KEPT_OF_ASKER,
        most_bytes_of_asker: int = MAX_KEPT_BYTES_OF_ASKER,
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._most_of_asker = most_of_asker
        self._most_bytes_of_asker = most_bytes_of_asker
        self._kept: dict[QueryKey, Publication] = {}
        self._given: dict[QueryKey, int] = {}
        self._of_asker: dict[str, _OfAsker] = {}
        self._bytes = 0
        self._due: Deadlines[QueryKey] = Deadlines()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._kept)

    @property
    def held_bytes(self) -> int:
        """Return how much they take, without what each takes beside its message."""
        return self._bytes

    def __contains__(self, key: QueryKey) -> bool:
        """Return whether an answer is kept."""
        return key in self._kept

    def give(self, key: QueryKey) -> Publication | None:
        """Return what was answered; None if it is not kept, or was given `MAX_GIVEN` times."""
        answer = self._kept.get(key)
        if answer is not None:
            given = self._given[key] = self._given.get(key, 0) + 1
            if given > MAX_GIVEN:
                return None
        return answer

    def keep(self, key: QueryKey, answer: Publication, until: float) -> None:
        """Keep an answer, in place of an earlier one to the same, until a time in seconds."""
        self._drop(key)
        taken = len(answer.payload)
        if taken > min(self._most_bytes, self._most_bytes_of_asker):
            return
        mine = self._of_asker.get(key[0])
        while mine is not None and (
            len(mine.keys) >= self._most_of_asker
            or mine.held_bytes + taken > self._most_bytes_of_asker
        ):
            self._drop(next(iter(mine.keys)))
            mine = self._of_asker.get(key[0])
        while len(self._kept) >= self._most or self._bytes + taken > self._most_bytes:
            self._drop(next(iter(self._kept)))
        mine = self._of_asker.setdefault(key[0], _OfAsker())
        mine.keys[key] = None
        mine.held_bytes += taken
        self._kept[key] = answer
        self._bytes += taken
        self._due.set(key, until)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due; infinity while nothing is kept."""
        return self._due.next()

    def handle_timer(self, now: float) -> None:
        """Let go of what was kept for long enough."""
        for key in self._due.take_due(now):
            self._drop(key)

    def _drop(self, key: QueryKey) -> None:
        answer = self._kept.pop(key, None)
        if answer is None:
            return
        taken = len(answer.payload)
        self._given.pop(key, None)
        self._bytes -= taken
        self._due.drop(key)
        mine = self._of_asker[key[0]]
        mine.held_bytes -= taken
        del mine.keys[key]
        if not mine.keys:
            del self._of_asker[key[0]]
