"""How often one address may fail to authenticate: a limit on guessing passwords."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

ADDRESSES_MAX = 10_000
_IPV6_PREFIX = 64
"""What one customer has; addresses below it cost nothing."""


class FailedAttempts:
    """Counts the failures of each address; they are forgiven at a steady rate.

    Args:
        at_once: so many are free; with as many an address has to wait.
        per_s: so many are forgiven in a second.
        addresses_max: what is known of others is forgotten, those that failed longest ago first.

    """

    def __init__(self, at_once: int, per_s: float, addresses_max: int = ADDRESSES_MAX) -> None:
        self._at_once = at_once
        self._per_s = per_s
        self._addresses_max = addresses_max
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By address: failures not forgiven, and when that was so."""

    def __len__(self) -> int:
        """How many addresses are remembered."""
        return len(self._failures)

    def is_blocked(self, address: str, now_s: float) -> bool:
        """Whether an address has to wait before it may try again."""
        return self._left(_network(address), now_s) > self._at_once - 1

    def failed(self, address: str, now_s: float) -> None:
        """Note a failure."""
        network = _network(address)
        left = self._left(network, now_s)
        self._failures[network] = (left + 1, now_s)
        self._failures.move_to_end(network)
        if len(self._failures) > self._addresses_max:
            self._failures.popitem(last=False)

    def _left(self, network: str, now_s: float) -> float:
        failures, since_s = self._failures.get(network, (0.0, now_s))
        return max(0.0, failures - (now_s - since_s) * self._per_s)


def _network(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
