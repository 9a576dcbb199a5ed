"""Ledger of registrations in a simulated fleet, and what look-ups may tell of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from gateway.coap.fleet_directory.kept import FRESH_S, STALE_S
from gateway.coap.fleet_directory.partial import PARTIAL
from gateway.coap.fleet_directory.searches import GATHER_S
from resource_directory.link_format import WebLink
from resource_directory.scoped import GATEWAY, STALE

AGE_S: Final = FRESH_S + GATHER_S
"""A link told without a mark was there at most so long before the look-up ends."""
_ROUNDED_S: Final = 1.0


class RegistrationLedger:
    """A record of the times at which each endpoint was registered at its gateway."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], list[list[float]]] = {}

    def registered(self, gateway_id: str, endpoint: str, now: float, until: float) -> None:
        """It is registered until then, unless it is removed."""
        spans = self._spans.setdefault((gateway_id, endpoint), [])
        if spans and spans[-1][1] >= now:
            spans[-1][1] = until
        else:
            spans.append([now, until])

    def removed(self, gateway_id: str, endpoint: str, now: float) -> None:
        """It is registered no more."""
        spans = self._spans.get((gateway_id, endpoint), [])
        if spans:
            spans[-1][1] = min(now, spans[-1][1])

    def at(self, gateways: Iterable[str], now: float, for_s: float = 0.0) -> set[str]:
        """Return all that is registered at some gateways now, and for so long if it is not
        removed."""
        wanted = set(gateways)
        return {
            endpoint
            for (gateway_id, endpoint), spans in self._spans.items()
            if gateway_id in wanted and spans[-1][0] <= now < spans[-1][1] - for_s
        }

    def wrong(self, links: Iterable[WebLink], now: float) -> Iterator[tuple[int, str]]:
        """Yield what an answer should not have said, by the number of the invariant.

        Args:
            links: of the answer.
            now: when it came.

        """
        for link in links:
            if link.get("rt") == PARTIAL:
                continue
            endpoint, gateway_id = endpoint_of(link), link.get(GATEWAY) or ""
            if owner_of(endpoint) != gateway_id:
                yield 10, f"{endpoint} is told as of {gateway_id}"
                continue
            stale_s = link.get(STALE)
            earliest, latest = now - AGE_S, now
            if stale_s is not None:
                earliest, latest = earliest - float(stale_s) - _ROUNDED_S, now - float(stale_s)
                if float(stale_s) > STALE_S:
                    yield 8, f"{endpoint} is {stale_s} s old"
            spans = self._spans.get((gateway_id, endpoint), [])
            if not any(begin <= latest and end >= earliest for begin, end in spans):
                last = spans[-1] if spans else [math.nan, math.nan]
                yield 8, f"{endpoint} at {gateway_id}, told at {now:.1f} s, was there {last}"


def endpoint_of(link: WebLink) -> str:
    """Return whose link it is: its path ends with the endpoint."""
    return link.href.rpartition("/")[2]


def owner_of(endpoint: str) -> str:
    """Return the gateway at which an endpoint of this name registers."""
    return endpoint.partition(".")[0]
