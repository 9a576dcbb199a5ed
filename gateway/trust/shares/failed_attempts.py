"""Limit on an address's failures to prove who it is: passwords can't be guessed fast."""

from __future__ import annotations

import ipaddress

from tree_handler.rate_limit import RateLimit

ADDRESSES_MAX = 10_000
_IPV6_PREFIX = 64
"""The prefix of one customer; addresses below it cost nothing."""


class FailedAttempts:
    """Counts the failures of each address; they are forgiven at a steady rate.

    Args:
        at_once: so many are free; with as many an address has to wait.
        per_s: so many are forgiven in a second.
        addresses_max: what is known of others is forgotten, those that failed longest ago first.

    """

    def __init__(self, at_once: int, per_s: float, addresses_max: int = ADDRESSES_MAX) -> None:
        self._failures = RateLimit(per_s, at_once, addresses_max)

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._failures)

    def is_blocked(self, address: str, now_s: float) -> bool:
        """Return whether an address has to wait before it may try again."""
        return self._failures.is_over(network_of(address), now_s)

    def failed(self, address: str, now_s: float) -> None:
        """Note a failure."""
        self._failures.count(network_of(address), now_s)


def network_of(address: str) -> str:
    """Return whose failures an address counts to: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
