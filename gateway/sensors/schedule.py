"""Schedule of sensors: one heap for all of a gateway's, time passed in.

A sensor that could not be read in time is not read twice to make up for it: the times that went
by are skipped and counted, and it is due again at its next regular time (A10).
"""

from __future__ import annotations

import heapq

MAX_BACK_OFF_S = 300.0
"""A sensor that fails is tried again after so long at the latest, or after its interval."""


def back_off_s(interval_s: float, failures: int) -> float:
    """Return the pause after so many failures in a row: twice as long each time."""
    return min(interval_s * 2.0 ** min(failures - 1, 30), max(interval_s, MAX_BACK_OFF_S))


class Schedule:
    """Names that are due at intervals."""

    def __init__(self) -> None:
        self.skipped = 0
        """Due times that went by while something else ran."""
        self._heap: list[tuple[float, int, str]] = []
        self._entries: dict[str, tuple[int, float]] = {}
        self._entry_count = 0

    def add(self, name: str, interval_s: float, now: float) -> None:
        """Put a name on the schedule, first due at ``now``; an earlier entry of it ends."""
        self._entry_count += 1
        self._entries[name] = (self._entry_count, interval_s)
        heapq.heappush(self._heap, (now, self._entry_count, name))

    def remove(self, name: str) -> None:
        """Take a name off the schedule, if it is on it."""
        self._entries.pop(name, None)

    def due(self, now: float) -> list[str]:
        """Return the names due by ``now``, longest due first, each once; they are put on again."""
        names = []
        while self._heap and self._heap[0][0] <= now:
            due_at, entry, name = self._heap[0]
            current, interval_s = self._entries.get(name, (0, 0.0))
            if current != entry:
                heapq.heappop(self._heap)
                continue
            missed = int((now - due_at) / interval_s)
            next_at = due_at + (missed + 1) * interval_s
            # Rounding must not put a name on again at a time that has come.
            next_at = next_at if next_at > now else now + interval_s
            self.skipped += missed
            heapq.heapreplace(self._heap, (next_at, entry, name))
            names.append(name)
        return names

    def next_timer(self) -> float | None:
        """Return when the next name is due, ``None`` if there is none."""
        while self._heap:
            due_at, entry, name = self._heap[0]
            if self._entries.get(name, (0, 0.0))[0] == entry:
                return due_at
            heapq.heappop(self._heap)
        return None
