"""Gateways that are out of reach: from when on what they missed is gone, and who they are.

What is kept of a gateway that is away serves it when it comes back: what it wants, and what is for
it. It is let go of when the gateway was away for long and the log holds nothing any more that was
accepted before it left. So a gateway that never comes back is forgotten in the end, and one that
comes back within the retention of the log is not.

Whoever comes back after that has to tell anew what it wants. It can't know what others have
forgotten; so it tells it when it has reached nobody, or somebody comes back who was out of its
reach for long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any, Final

LONG_S: Final = 30 * 86_400.0
"""Nobody is forgotten before it was away for so long: of a log that is short it still gets the end.
The time counts in which this gateway runs."""
TELL_S: Final = 600.0
"""A gateway tells its record anew so often at most, because others may have forgotten it."""


class UnreachableGateways:
    """A record of the gateways that one gateway does not reach.

    Times are in seconds, of a clock that never goes back; places are those of the log.

    Args:
        tell_after_s: who was out of its reach for so long may have forgotten this gateway.

    """

    def __init__(self, tell_after_s: float = LONG_S / 2) -> None:
        self._tell_after_s = tell_after_s
        self._left: dict[str, tuple[float, int]] = {}
        """The time when each left, and the place in the log then."""
        self._has_reached = self._is_alone = False
        self._tell_from = -math.inf

    def __len__(self) -> int:
        """Return how many are away."""
        return len(self._left)

    def follow(
        self, known: Iterable[str], reached: Collection[str], now: float, position: int
    ) -> bool:
        """Take note of who is in reach now.

        Args:
            known: all of whom anything is kept, this gateway left out.
            reached: who is in reach.
            now: when.
            position: the end of the log.

        Returns:
            Whether others may have forgotten this gateway.

        """
        came = [self._left.pop(one)[0] for one in self._left.keys() & reached]
        for one in known:
            if one not in reached:
                self._left.setdefault(one, (now, position))
        was_alone = self._is_alone
        self._has_reached = self._has_reached or bool(reached)
        self._is_alone = self._has_reached and not reached
        may_be_forgotten = bool(reached) and (
            was_alone or any(now - at >= self._tell_after_s for at in came)
        )
        if not may_be_forgotten or now < self._tell_from:
            return False
        self._tell_from = now + TELL_S
        return True

    def over(self, now: float, oldest: int) -> list[str]:
        """Let go of those for whom the log holds nothing any more.

        Args:
            now: when.
            oldest: where the oldest batch of the log stands.

        """
        gone = [
            one
            for one, (at, position) in self._left.items()
            if position <= oldest and now - at >= LONG_S
        ]
        for one in gone:
            del self._left[one]
        return gone

    def save(self, now: float) -> list[Any]:
        """Return all of it, for `load`."""
        return [[one, int(now - at), position] for one, (at, position) in self._left.items()]

    def load(self, rows: Iterable[Any], now: float) -> None:
        """Take up what `save` returned."""
        for one, away_s, position in rows:
            self._left[str(one)] = (now - int(away_s), int(position))
