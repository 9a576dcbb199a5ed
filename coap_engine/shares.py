"""Who may take how much: of a host, of all strangers together, and of everybody.

Stated here and nowhere else:

- A part of everything is out of strangers' reach: they take at most `Quota.strangers`, and
  authenticated peers have at least the rest.
- A stranger's host has at most `Quota.host`; an authenticated one `Quota.principal`. A stranger
  that calls itself as an authenticated one does has another account.
- An account of what is held exists only while something is held; those of what comes in a second
  are bounded too (`rates`).
"""

from __future__ import annotations

from collections.abc import Hashable

from coap_engine import codes
from coap_engine.body_room import BodyRoom
from coap_engine.message import CoapPeer
from coap_engine.rates import DEFAULT_RATES, Rates, RateShares
from coap_engine.share_refusal import ShareRefusal
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """How much of one thing peers may hold at once.

    Attributes:
        host: a stranger's host.
        strangers: all strangers together.
        principal: an authenticated peer.
        everybody: strangers and authenticated peers together.
        retry_s: after how many seconds asking again is likely to help, which is what Max-Age
            of a refusal says.

    """

    host: int
    strangers: int
    principal: int
    everybody: int
    retry_s: int


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


class Share:
    """How much of one thing is held, by whom.

    Attributes:
        refused_host: refusals because a host had its part.
        refused_full: refusals because all together had theirs.
        held: how much everybody holds together.
        held_by_strangers: how much strangers hold together.

    """

    def __init__(self, quota: Quota) -> None:
        self.refused_host = 0
        self.refused_full = 0
        self.held = 0
        self.held_by_strangers = 0
        self._quota = quota
        self._by_host: dict[Hashable, int] = {}
        self._by_principal: dict[Hashable, int] = {}
        self._too_many = ShareRefusal(codes.TOO_MANY_REQUESTS, quota.retry_s)
        self._full = ShareRefusal(codes.SERVICE_UNAVAILABLE, quota.retry_s)

    @property
    def holders(self) -> int:
        """Return how many hosts and authenticated peers hold something."""
        return len(self._by_host) + len(self._by_principal)

    def take(self, peer: CoapPeer, amount: int = 1) -> ShareRefusal | None:
        """Hold so much more for a peer: all of it, or nothing and why not, which is counted."""
        quota = self._quota
        if peer.principal is None:
            accounts, most, room = (
                self._by_host,
                quota.host,
                min(quota.strangers - self.held_by_strangers, quota.everybody - self.held),
            )
        else:
            accounts, most, room = self._by_principal, quota.principal, quota.everybody - self.held
        own = accounts.get(peer.host, 0) + amount
        if own > most:
            self.refused_host += 1
            return self._too_many
        if amount > room:
            self.refused_full += 1
            return self._full
        self._set(peer, accounts, own, amount)
        return None

    def lacks(self, peer: CoapPeer, amount: int = 1) -> ShareRefusal | None:
        """Return what `take` would say; nothing is taken, and nothing counted."""
        counted = self.refused_host, self.refused_full
        refusal = self.take(peer, amount)
        self.refused_host, self.refused_full = counted
        if refusal is None:
            self.give_back(peer, amount)
        return refusal

    def give_back(self, peer: CoapPeer, amount: int = 1) -> None:
        """Hold so much less for a peer that took it, with the same host and principal."""
        accounts = self._by_host if peer.principal is None else self._by_principal
        own = accounts.get(peer.host, 0) - amount
        assert own >= 0, f"{peer.host} gives back {amount}, {-own} more than it took"
        self._set(peer, accounts, own, -amount)

    def _set(
        self, peer: CoapPeer, accounts: dict[Hashable, int], own: int, difference: int
    ) -> None:
        if own:
            accounts[peer.host] = own
        else:
            accounts.pop(peer.host, None)
        self.held += difference
        if peer.principal is None:
            self.held_by_strangers += difference


class Shares:
    """All shares of an engine, or of several: plain and DTLS ports have them in common.

    Attributes:
        requests: see `ShareLimits`; the engine takes one for each exchange that it hands out as
            `Asked`, and gives it back when the exchange is answered (an observation then holds
            one of `observations` instead) or `Ended`.
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
