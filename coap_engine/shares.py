"""Who may take how much: of a host, of all strangers together, and of everybody.

Stated here and nowhere else:

- A part of everything is out of strangers' reach: they take at most `Quota.strangers`, and
  authenticated peers have at least the rest.
- A stranger's host has at most `Quota.host`; an authenticated one `Quota.principal`. A stranger
  that calls itself as an authenticated one does has another account.
- What the accounts take themselves is bounded: an account of what is held exists only while
  something is held; buckets of datagrams are forgotten when they are full again, and there are
  at most `DatagramRates.hosts` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coap_engine.message import CoapPeer, CoapResponse

ADMITTED: Final = 0
"""Read the datagram."""
REFUSED: Final = 1
"""Read it only so far that a confirmable request is told `DatagramShares.refusal`."""
DROPPED: Final = 2
"""Forget it unread: the host has been told within the last second."""


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
class DatagramRates:
    """How many datagrams a second are read.

    A burst of as many as come in a second is admitted at once.

    Attributes:
        host: of a stranger's host, a second.
        strangers: of all strangers together, a second.
        principal: of an authenticated peer, a second.
        hosts: buckets at most; hosts beyond share one.

    """

    host: float = 1_000.0
    strangers: float = 4_000.0
    principal: float = 10_000.0
    hosts: int = 4_096


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """All limits of `Shares`.

    Attributes:
        requests: open ones.
        observations: running ones.
        held_bytes: bodies in assembly, bodies being fetched, remembered answers.
        datagrams: a second.

    """

    requests: Quota = Quota(256, 2_048, 1_024, 4_096, 5)
    observations: Quota = Quota(64, 1_024, 1_024, 4_096, 60)
    held_bytes: Quota = Quota(1 << 20, 4 << 20, 4 << 20, 16 << 20, 30)
    datagrams: DatagramRates = DatagramRates()


DEFAULT_LIMITS = ShareLimits()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something is not granted, and what to do about it.

    Attributes:
        code: 4.29 Too Many Requests (RFC 8516) if this host takes too much, 5.03 Service
            Unavailable (RFC 7252, section 5.9.3.4) if all together do.
        retry_s: when to try again, in seconds.

    """

    code: int
    retry_s: int

    def response(self) -> CoapResponse:
        """What the peer is told: the code, with Max-Age."""
        raise NotImplementedError


class Share:
    """How much of one thing is held, by whom.

    Attributes:
        refused_host: refusals because a host had its part.
        refused_full: refusals because all together had theirs.

    """

    def __init__(self, quota: Quota) -> None:
        self.refused_host = 0
        self.refused_full = 0
        self._quota = quota

    @property
    def held(self) -> int:
        """How much everybody holds together."""
        raise NotImplementedError

    @property
    def held_by_strangers(self) -> int:
        """How much strangers hold together."""
        raise NotImplementedError

    def take(self, peer: CoapPeer, amount: int = 1) -> Refusal | None:
        """Hold so much more for a peer: all of it, or nothing and why not, which is counted."""
        raise NotImplementedError

    def give_back(self, peer: CoapPeer, amount: int = 1) -> None:
        """Hold so much less for a peer that took it, with the same host and principal."""
        raise NotImplementedError


class DatagramShares:
    """Which datagrams are read at all.

    Attributes:
        refused_host: datagrams beyond a host's rate.
        refused_full: datagrams of strangers beyond their common rate.

    """

    def __init__(self, rates: DatagramRates) -> None:
        self.refused_host = 0
        self.refused_full = 0
        self._rates = rates

    @property
    def hosts(self) -> int:
        """How many buckets there are."""
        raise NotImplementedError

    def admit(self, peer: CoapPeer, now: float) -> int:
        """Count a datagram that came, before anything of it is read.

        Returns:
            ADMITTED, REFUSED (at most once a second for a host) or DROPPED.

        """
        raise NotImplementedError

    def refusal(self) -> Refusal:
        """What to say to a host whose datagram was REFUSED."""
        raise NotImplementedError


class Shares:
    """All shares of an engine, or of several: plain and DTLS ports have them in common.

    Attributes:
        requests: see `ShareLimits`; the engine takes one for each exchange that it hands out as
            `Asked`, and gives it back when the exchange is answered (an observation then holds
            one of `observations` instead) or `Ended`.
        observations: taken and given back by `Observations`.
        held_bytes: taken and given back by `RequestBodies`, `ResponseBodies` and `BodyFetch`; by
            the engine for answers it remembers for de-duplication.
        datagrams: asked by the engine, first thing, for each datagram.

    """

    def __init__(self, limits: ShareLimits = DEFAULT_LIMITS) -> None:
        self.requests = Share(limits.requests)
        self.observations = Share(limits.observations)
        self.held_bytes = Share(limits.held_bytes)
        self.datagrams = DatagramShares(limits.datagrams)

    def refusals(self) -> dict[str, int]:
        """How often what was refused since the start, for metrics.

        The keys are ``requests``, ``observations``, ``held_bytes`` and ``datagrams``, each with
        ``_host`` and ``_full``.
        """
        raise NotImplementedError
