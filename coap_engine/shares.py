"""All that peers may take of an engine: what they hold at once (`share`), what comes in a second.

The accounts of what comes in a second are bounded, too (`rates`).
"""

from __future__ import annotations

from coap_engine.body_room import BodyRoom
from coap_engine.rates import DEFAULT_RATES, Rates, RateShares
from coap_engine.share import Quota, Share
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """All limits of `Shares`.

    Attributes:
        requests: open ones.
        observations: running ones.
        held_bytes: bodies in assembly, bodies being fetched, answers kept in blocks.
        datagrams: a second.
        own_requests: of ours to peers, under way or waiting for those before them.

    """

    requests: Quota = Quota(256, 2_048, 1_024, 4_096, 5)
    observations: Quota = Quota(64, 1_024, 1_024, 4_096, 60)
    held_bytes: Quota = Quota(2 << 20, 4 << 20, 4 << 20, 16 << 20, 30)
    datagrams: Rates = DEFAULT_RATES
    own_requests: Quota = Quota(4, 32, 16, 64, 93)


DEFAULT_LIMITS = ShareLimits()


class Shares:
    """All shares of an engine, or of several: plain and DTLS ports have them in common.

    Attributes:
        requests: see `ShareLimits`; the engine takes one for each exchange that it hands out as
            `RequestReceived`, and gives it back when the exchange is answered (an observation then
            holds one of `observations` instead) or `ExchangeEnded`.
        observations: taken and given back by `Observations`.
        held_bytes: taken and given back by `bodies` and `BodyFetch`.
        bodies: of requests and responses, by `RequestBodies` and `ResponseBodies`.
        datagrams: asked by the engine, first thing, for each datagram.
        own_requests: taken and given back by `OwnRequests`.

    """

    def __init__(self, limits: ShareLimits = DEFAULT_LIMITS) -> None:
        self.requests = Share(limits.requests)
        self.observations = Share(limits.observations)
        self.held_bytes = Share(limits.held_bytes)
        self.bodies = BodyRoom(self.held_bytes)
        self.datagrams = RateShares(limits.datagrams)
        self.own_requests = Share(limits.own_requests)

    def refusals(self) -> dict[str, int]:
        """Return how often what was refused since the start, for metrics.

        The keys are ``requests``, ``observations``, ``held_bytes``, ``datagrams`` and
        ``own_requests``, each with ``_host`` and ``_full``.
        """
        return {
            "requests_host": self.requests.refused_host,
            "requests_full": self.requests.refused_full,
            "observations_host": self.observations.refused_host,
            "observations_full": self.observations.refused_full,
            "held_bytes_host": self.held_bytes.refused_host,
            "held_bytes_full": self.held_bytes.refused_full,
            "datagrams_host": self.datagrams.refused_host,
            "datagrams_full": self.datagrams.refused_full,
            "own_requests_host": self.own_requests.refused_host,
            "own_requests_full": self.own_requests.refused_full,
        }
