"""Turns of links: what neighbours send is dealt with in parts, so that clients have theirs.

A neighbour's packets are small and may each make work, and a read brings thousands. So all links
together have a part of each round of the event loop. When that is used up, those with more to do
wait in a row, of which as many go on in each round as its part allows. A packet that took longer
takes the parts of the next rounds too: where clients have nothing to do, those are over at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PART_S: Final = 0.002
"""Of a round, for all links. What a client waits for takes several rounds."""
MAX_DEBT: Final = 16
"""So many rounds pass at most behind one packet."""


class LinkTurns:
    """A round in which links take turns.

    Args:
        part_s: how long the packets of all links are dealt with in a round.

    """

    def __init__(self, part_s: float = PART_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._part_s = part_s
        self._used_s = 0.0
        """Of the part of this round, and of the next ones."""
        self._row: deque[Callable[[], None]] = deque()
        self._is_round_open = False

    def left_s(self) -> float:
        """Return how long packets may still be dealt with in this round; 0 or less if no more."""
        return self._part_s - self._used_s

    def took(self, seconds: float) -> None:
        """Packets of a link have been dealt with for so long."""
        self._used_s = min(self._used_s + seconds, MAX_DEBT * self._part_s)
        self._open_round()

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call this when it is the link's turn; it tells `took`, and waits again if it has more."""
        self._row.append(go_on)
        self._open_round()

    def _open_round(self) -> None:
        if not self._is_round_open:
            self._is_round_open = True
            self._loop.call_soon(self._round_ended)

    def _round_ended(self) -> None:
        self._is_round_open = False
        self._used_s = max(0.0, self._used_s - self._part_s)
        try:
            for _ in range(len(self._row)):
                if self._used_s >= self._part_s:
                    break
                self._row.popleft()()
        finally:
            if self._row or self._used_s:
                self._open_round()
