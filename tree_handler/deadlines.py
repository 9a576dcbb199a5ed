"""Deadlines of many things, each of which may move: the earliest is always at hand."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

Key = TypeVar("Key")


class Deadlines(Generic[Key]):
    """Times by key, in seconds of one clock."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def set(self, key: Key, at: float) -> None:
        """Let something be due at a time, whenever it was due before."""
        self._at[key] = at
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [
                (due, number, each) for number, (each, due) in enumerate(self._at.items())
            ]
            self._count = len(self._heap)
            heapq.heapify(self._heap)

    def drop(self, key: Key) -> None:
        """Let something never be due."""
        self._at.pop(key, None)

    def next(self) -> float:
        """Return when the first is due; infinity if none is."""
        heap = self._heap
        while heap and self._at.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def take_due(self, now: float) -> list[Key]:
        """Return what is due, the earliest first, once."""
        due = []
        while self.next() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key]
            due.append(key)
        return due
