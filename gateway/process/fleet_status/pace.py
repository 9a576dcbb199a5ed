"""Pace of status records: at an interval, and soon after a gateway's place in the tree changed.

Times are seconds of one monotonic clock. A change is told once it has settled, and a change that
follows at once waits: a root that flaps costs one record in `LEAST_GAP_S`.
"""

from __future__ import annotations

import math
from typing import Final

from light_dataclasses import dataclass

FIRST_S: Final = 2.0
"""After the start: by then the tree has mostly settled."""
SETTLE_S: Final = 0.5
LEAST_GAP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class TreePlace:
    """The place of a gateway in the tree.

    Attributes:
        root: gateway id of the root.
        parent: gateway id of the parent; None at a root, and while there is none.

    """

    root: str
    parent: str | None


class StatusPace:
    """Says when the next record is due, and counts what happens to the gateway's place.

    Args:
        own_id: the gateway's.
        interval_s: from one record to the next; 0 for none at all.
        place: where it is now.
        now: the clock.

    Attributes:
        reconvergences: how often root or parent has changed.
        elections: how often it has become root.

    """

    def __init__(self, own_id: str, interval_s: float, place: TreePlace, now: float) -> None:
        self._own_id = own_id
        self._interval_s = interval_s
        self._place = place
        self._last = -math.inf
        self._due = now + min(FIRST_S, interval_s) if interval_s else math.inf
        self.reconvergences = 0
        self.elections = 0

    @property
    def due(self) -> float:
        """Return when the next record is to be published."""
        return self._due

    def is_at(self, place: TreePlace, now: float) -> None:
        """Its place in the tree is this one now."""
        before, self._place = self._place, place
        if place == before:
            return
        self.reconvergences += 1
        self.elections += place.root == self._own_id != before.root
        if self._interval_s:
            self._due = min(self._due, max(now + SETTLE_S, self._last + LEAST_GAP_S))

    def published(self, now: float) -> None:
        """A record is on its way."""
        self._last = now
        self._due = now + self._interval_s if self._interval_s else math.inf
