"""Counts connections: in all, by address, and in a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gateway.broker.limits import Limits
from tree_handler.rate_limit import RateLimit

_ALL = ""
"""Connections count together, wherever they come from."""


class Arrivals:
    """Says which of the connections that come are too many.

    Args:
        limits: how many there may be.
        now: the loop's clock, in seconds.

    """

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._by_address: Counter[str] = Counter()
        self._open = 0
        self._rate = RateLimit(limits.connects_per_s, limits.connects_per_s, 1)

    def opened(self, address: str) -> str:
        """Count one more; why it is too many, or nothing."""
        self._open += 1
        self._by_address[address] += 1
        is_too_fast = not self._rate.allow(_ALL, self._now())
        if self._open > self._limits.connections:
            return "connection over the limit"
        if self._by_address[address] > self._limits.connections_per_address:
            return "connection over the limit of an address"
        return "connection over the limit of a second" if is_too_fast else ""

    def closed(self, address: str) -> None:
        """One that was counted has gone."""
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
