"""Counts connections: in all, by address, and in a second."""

from __future__ import annotations

from collections import Counter

from gateway.broker.limits import Limits


class Arrivals:
    """Says which of the connections that come are too many.

    Args:
        limits: how many there may be.

    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._open = 0
        self._in_second = 0
        self._second_began_s = 0.0

    def opened(self, address: str, now_s: float) -> str:
        """Count one more; why it is too many, or nothing."""
        limits = self._limits
        if now_s - self._second_began_s >= 1:
            self._in_second, self._second_began_s = 0, now_s
        self._open += 1
        self._by_address[address] += 1
        self._in_second += 1
        if self._open > limits.connections:
            return "connection over the limit"
        if self._by_address[address] > limits.connections_per_address:
            return "connection over the limit of an address"
        if self._in_second > limits.connects_per_s:
            return "connection over the limit of a second"
        return ""

    def closed(self, address: str) -> None:
        """One that was counted has gone."""
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
