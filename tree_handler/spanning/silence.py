"""Silence of neighbours: one that nothing has come from for too long is dead (row B2).

A HELLO is a sign of life, and so are bytes of what comes before it: a line may be so slow that one
message takes longer than the silence after which a neighbour counts as dead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tree_handler.spanning.neighbour import Neighbour
from tree_handler.spanning.parameters import Parameters


class Silence:
    """Watches the neighbours of one gateway.

    Args:
        neighbours: by link; the caller's, who adds and removes them.
        parameters: timers.

    Attributes:
        look_at: no neighbour is dead before; infinity where there is none.

    """

    def __init__(self, neighbours: Mapping[int, Neighbour], parameters: Parameters) -> None:
        self._neighbours = neighbours
        self._most_s = parameters.silence_s
        self.look_at = math.inf

    def begins(self, now: float) -> None:
        """A neighbour is there, of which nothing has come."""
        self.look_at = min(self.look_at, now + self._most_s)

    def heard(self, link: int, at: float) -> None:
        """Something came over a link, if it is one of a neighbour, at a monotonic time."""
        neighbour = self._neighbours.get(link)
        if neighbour is not None and at > neighbour.last_heard_s:
            neighbour.last_heard_s = at

    def stood_still(self, late_s: float) -> None:
        """This process itself did nothing for so long: what came meanwhile is still to be read."""
        for neighbour in self._neighbours.values():
            neighbour.last_heard_s += late_s

    def dead(self, now: float) -> list[Neighbour]:
        """Return those that have been silent for too long."""
        if now < self.look_at:
            return []
        dead, look_at = [], math.inf
        for neighbour in self._neighbours.values():
            dead_at = neighbour.dead_at(self._most_s)
            if now >= dead_at:
                dead.append(neighbour)
            else:
                look_at = min(look_at, dead_at)
        self.look_at = look_at
        return dead
