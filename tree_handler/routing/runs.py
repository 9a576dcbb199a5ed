"""Cuts the messages of a turn into runs with the same destinations (C4), and the same way (C5).

What goes to more gateways than want it: retained messages go to all. More than `MAX_RUNS` runs are
joined, and go to all that want any of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from light_dataclasses import dataclass
from tree_handler.batch import Row
from tree_handler.routing.interest import Interests

MAX_RUNS: Final = 64
"""Batches that the messages of one turn are cut into for the sake of their destinations."""
_RETAIN: Final = 4


class Way(Protocol):
    """An overlay and the links of it."""

    @property
    def overlay(self) -> bytes:
        """Its name."""

    @property
    def links(self) -> frozenset[int]:
        """Return the links over which a message leaves."""

    @property
    def members(self) -> frozenset[str]:
        """Return the gateways that it reaches; a message for anybody else goes the routed way."""


class Ways(Protocol):
    """A source of ways that are shorter for some topics than the spanning tree (C5: `overlays`)."""

    def way(self, topic: str) -> Way | None:
        """Return how a message of this gateway's clients goes; None is the routed way."""

    def onward(self, overlay: bytes, link: int) -> frozenset[int] | None:
        """Return the links over which a batch from this link goes on; None if it is discarded."""


@dataclass(slots=True)
class Run:
    """Messages that follow each other and have the same destinations."""

    rows: Sequence[Row]
    to: frozenset[str] = frozenset()
    way: Way | None = None


def cut(
    rows: Sequence[Row], interests: Interests, ways: Ways | None, *, for_everybody: bool = False
) -> list[Run]:
    """Cut messages into runs, each of which becomes a batch of its own.

    Args:
        rows: messages of this gateway's clients, in order.
        interests: what all gateways want.
        ways: who may know shorter ways.
        for_everybody: who wants a topic is not all known, so all get all.

    """
    found: list[Run] = []
    start = 0
    last: tuple[frozenset[str], Way | None] | None = None
    for at, row in enumerate(rows):
        to = interests.destinations(row[0])
        goes_to_all = for_everybody or row[1] & _RETAIN
        if goes_to_all:
            to = interests.everyone
        way = None if ways is None or not to or goes_to_all else ways.way(row[0])
        if way is not None and not to <= way.members:
            way = None
        if last is not None and (to != last[0] or way != last[1]):
            found.append(Run(rows[start:at], *last))
            start = at
        last = to, way
    if last is not None:
        found.append(Run(rows[start:], *last))
    return found if len(found) <= MAX_RUNS else _joined(found)


def _joined(runs: Sequence[Run]) -> list[Run]:
    step = -(-len(runs) // MAX_RUNS)
    joined = []
    for at in range(0, len(runs), step):
        part = runs[at : at + step]
        rows = [row for run in part for row in run.rows]
        joined.append(Run(rows, frozenset().union(*(run.to for run in part))))
    return joined
