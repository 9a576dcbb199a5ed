"""Turns where many wait: those with a claim first, and all others by turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Waiter = TypeVar("Waiter")


class FairTurns(Generic[Waiter]):
    """Those who wait."""

    def __init__(self) -> None:
        self._first: dict[Hashable, deque[Waiter]] = {}
        self._others: dict[Hashable, deque[Waiter]] = {}

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._first.values())) + sum(map(len, self._others.values()))

    def put(self, whose: Hashable, waiter: Waiter, *, has_claim: bool = False) -> None:
        """Let one wait.

        Args:
            whose: of all of one, one has its turn before the next of another.
            waiter: who waits.
            has_claim: before all who have none.

        """
        of_all = self._first if has_claim else self._others
        of_all.setdefault(whose, deque()).append(waiter)

    def take(self) -> Waiter | None:
        """Return whose turn it is; it waits no longer. None if nobody does."""
        for of_all in (self._first, self._others):
            for whose in of_all:
                waiters = of_all.pop(whose)
                waiter = waiters.popleft()
                if waiters:
                    of_all[whose] = waiters  # behind all others
                return waiter
        return None
