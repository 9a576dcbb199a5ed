"""Batches that are refused again and again: they are set aside, and not asked for for ever.

What a neighbour sends against the rules ends the link, and the same batch comes again with the
next one: nothing behind it would ever be handed out. So a batch that was refused `TRIES` times,
and that no other neighbour has, counts as lost. Only what is wrong with the batch itself counts. A
log that does not take it is no such reason: a full disk may be freed, and a failing one refuses
every batch.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from light_dataclasses import dataclass
from tree_handler.batch import MAX_ENTRIES, Epoch, Header

TRIES: Final = 3
MAX_REFUSED: Final = 1_000
"""Batches whose refusals are remembered; beyond it the oldest is forgotten."""


@dataclass(slots=True)
class SetAside:
    """A count of how often one gateway has refused each batch."""

    _times: dict[tuple[Epoch, int, int], int] = field(default_factory=dict)
    _why: dict[tuple[Epoch, int, int], str] = field(default_factory=dict)

    def is_due(self, header: Header, why: str) -> bool:
        """Return whether a batch that was refused now has been refused too often.

        Args:
            header: of the batch; its CRC is right.
            why: what is wrong with it.

        """
        if header.count > MAX_ENTRIES or not header.numbered:
            return False  # no origin makes such a batch: it would name what it has not got
        key = header.stream, header.first, header.last
        times = self._times.pop(key, 0) + 1
        kept: dict[tuple[Epoch, int, int], Any] = self._times if times < TRIES else self._why
        kept[key] = times if times < TRIES else f"refused {times} times: {why}"
        if len(kept) > MAX_REFUSED:
            del kept[next(iter(kept))]
        return times >= TRIES

    def why(self, header: Header) -> str:
        """Tell why numbers that the log says are lost were set aside: nothing if they were not."""
        for (stream, first, last), why in self._why.items():
            if stream == header.stream and first <= header.first and header.last <= last:
                return why
        return ""
