"""When what expires: one heap for all registrations (A12), time passed in.

A key that is set again leaves its old entry in the heap, where it is skipped when it comes up; the
heap is rebuilt before such entries outnumber the keys.
"""

from __future__ import annotations

import heapq


class Expiry:
    """Keys that expire at a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._expires_at: dict[str, float] = {}

    def set(self, key: str, expires_at: float) -> None:
        """Let a key expire at a time, instead of its earlier time if it has one."""
        self._expires_at[key] = expires_at
        heapq.heappush(self._heap, (expires_at, key))
        if len(self._heap) > 2 * len(self._expires_at) + 64:
            self._heap = [(at, key) for key, at in self._expires_at.items()]
            heapq.heapify(self._heap)

    def discard(self, key: str) -> None:
        """Let a key not expire."""
        self._expires_at.pop(key, None)

    def expired(self, now: float, limit: int) -> list[str]:
        """Take at most ``limit`` of the keys that expire by ``now``, first expired first.

        A limit keeps the expiry of very many at once from holding up all else; what is left comes
        with the next call, which ``next_timer`` asks for.
        """
        keys: list[str] = []
        while len(keys) < limit and (at := self.next_timer()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._expires_at[key]
            keys.append(key)
        return keys

    def next_timer(self) -> float | None:
        """When the first key expires; ``None`` if there is none."""
        while self._heap:
            at, key = self._heap[0]
            if self._expires_at.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def __len__(self) -> int:
        return len(self._expires_at)
