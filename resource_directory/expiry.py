"""Expiry of registrations: one heap for all (A12), time passed in.

A key that is put off, the usual case, keeps its place in the heap and gets its new one when the
old one comes up, so that renewing costs nothing there.
"""

from __future__ import annotations

import heapq
from typing import Final

PUT_OFF_AT_ONCE: Final = 64
"""So many keys get a new place in the heap in one call."""


class Expiry:
    """Keys that expire at a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._expires_at: dict[str, float] = {}
        self._in_heap: dict[str, float] = {}
        """The time of each key's entry; another entry of the same key is left from before."""

    def set(self, key: str, expires_at: float) -> None:
        """Let a key expire at a time, instead of its earlier time if it has one."""
        self._expires_at[key] = expires_at
        if self._in_heap.get(key, float("inf")) <= expires_at:
            return
        self._in_heap[key] = expires_at
        heapq.heappush(self._heap, (expires_at, key))
        if len(self._heap) > 2 * len(self._in_heap) + 64:
            self._heap = [(at, key) for key, at in self._in_heap.items()]
            heapq.heapify(self._heap)

    def discard(self, key: str) -> None:
        """Let a key not expire."""
        if self._expires_at.pop(key, None) is not None:
            del self._in_heap[key]

    def expired(self, now: float, limit: int) -> list[str]:
        """Take at most ``limit`` of the keys that expire by ``now``, first expired first.

        A limit keeps the expiry of very many at once from holding up all else; what is left comes
        with the next call, which ``next_timer`` asks for.
        """
        keys: list[str] = []
        while len(keys) < limit and self._settle() and self._heap[0][0] <= now:
            key = heapq.heappop(self._heap)[1]
            del self._expires_at[key], self._in_heap[key]
            keys.append(key)
        return keys

    def next_timer(self) -> float | None:
        """Return when to ask what has expired: no later than the first key does.

        ``None`` for never.
        """
        self._settle()
        return self._heap[0][0] if self._heap else None

    def _settle(self) -> bool:
        """Have a key that expires then first in the heap; false if that takes longer."""
        for _ in range(PUT_OFF_AT_ONCE):
            if not self._heap:
                return False
            at, key = self._heap[0]
            if self._in_heap.get(key) != at:
                heapq.heappop(self._heap)
                continue
            expires_at = self._expires_at[key]
            if expires_at == at:
                return True
            self._in_heap[key] = expires_at
            heapq.heapreplace(self._heap, (expires_at, key))
        return False

    def __len__(self) -> int:
        return len(self._expires_at)
