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

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.uint import encode_uint

ADMITTED: Final = 0
"""Read the datagram."""
REFUSED: Final = 1
"""Read it only so far that a confirmable request is told `DatagramShares.refusal`."""
DROPPED: Final = 2
"""Forget it unread: the host has been told within the last second."""

_SECOND: Final = 1.0


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
        here: of a stranger whose address is proven from the start, as only those on this machine
            are, a second.
        hosts: buckets at most; hosts beyond share one.

    """

    host: float = 1_000.0
    strangers: float = 4_000.0
    principal: float = 20_000.0
    here: float = 100_000.0
    hosts: int = 4_096


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """All limits of `Shares`.

    Attributes:
        requests: open ones.
        observations: running ones.
        held_bytes: bodies in assembly, bodies being fetched, remembered answers.
        datagrams: a second.
        own_requests: of ours to peers, under way or waiting for those before them.

    """

    requests: Quota = Quota(256, 2_048, 1_024, 4_096, 5)
    observations: Quota = Quota(64, 1_024, 1_024, 4_096, 60)
    held_bytes: Quota = Quota(1 << 20, 4 << 20, 4 << 20, 16 << 20, 30)
    datagrams: DatagramRates = DatagramRates()
    own_requests: Quota = Quota(4, 32, 16, 64, 93)


DEFAULT_LIMITS = ShareLimits()


@dataclass(frozen=True, slots=True)
class ShareRefusal:
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
        return CoapResponse(self.code, ((option_numbers.MAX_AGE, encode_uint(self.retry_s)),))


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
        """How many hosts and authenticated peers hold something."""
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


class _Bucket:
    """What is left of a burst, when; it is as large as what comes back to it in a second."""

    __slots__ = ("at", "left", "told_at")

    def __init__(self, rate: float, now: float) -> None:
        self.left = max(rate, 1.0)
        self.at = now
        self.told_at = -_SECOND

    def has_one(self, rate: float, now: float) -> bool:
        """Whether there is one more to take, with what has come back since."""
        self.left = min(max(rate, 1.0), self.left + (now - self.at) * rate)
        self.at = now
        return self.left >= 1.0


class _Buckets:
    """A bucket for each of many hosts, and one for all hosts beyond them.

    A bucket that nobody took from for a second is full again, so that forgetting it changes
    nothing. Each second those go that were not asked for since the second before.
    """

    __slots__ = ("_crowd", "_hosts", "_new", "_old", "_rate", "_turned_at")

    def __init__(self, rate: float, hosts: int) -> None:
        self._rate = rate
        self._hosts = hosts
        self._new: dict[Hashable, _Bucket] = {}
        self._old: dict[Hashable, _Bucket] = {}
        self._turned_at = 0.0
        self._crowd = _Bucket(rate, 0.0)

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def of(self, host: Hashable, now: float) -> _Bucket:
        """A host's bucket."""
        if now - self._turned_at >= max(_SECOND, 1.0 / self._rate):
            self._old, self._new, self._turned_at = self._new, {}, now
        bucket = self._new.get(host)
        if bucket is not None:
            return bucket
        bucket = self._old.pop(host, None)
        if bucket is None:
            if len(self._new) + len(self._old) >= self._hosts:
                return self._crowd
            bucket = _Bucket(self._rate, now)
        self._new[host] = bucket
        return bucket


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
        self._hosts = _Buckets(rates.host, rates.hosts)
        self._principals = _Buckets(rates.principal, rates.hosts)
        self._strangers = _Bucket(rates.strangers, 0.0)
        self._here = _Bucket(rates.here, 0.0)
        # A flood from many forged addresses is not worth an answer to each.
        self._told_rate = max(1.0, rates.strangers / 100.0)
        self._told = _Bucket(self._told_rate, 0.0)
        self._too_many = ShareRefusal(codes.TOO_MANY_REQUESTS, 1)
        self._full = ShareRefusal(codes.SERVICE_UNAVAILABLE, 1)
        self._refusal = self._full

    @property
    def hosts(self) -> int:
        """How many buckets there are."""
        return len(self._hosts) + len(self._principals)

    def admit(self, peer: CoapPeer, now: float) -> int:
        """Count a datagram that came, before anything of it is read.

        Returns:
            ADMITTED, REFUSED or DROPPED. A host is refused at most once a second, and when all
            strangers together are too many, few of them are.

        """
        rates = self._rates
        if peer.principal is not None:
            return self._admit_known(self._principals.of(peer.host, now), rates.principal, now)
        if peer.is_address_proven:
            return self._admit_known(self._here, rates.here, now)
        bucket = self._hosts.of(peer.host, now)
        if not bucket.has_one(rates.host, now):
            return self._refuse_host(bucket, now)
        everybody = self._strangers
        if not everybody.has_one(rates.strangers, now):
            self.refused_full += 1
            self._refusal = self._full
            if not self._told.has_one(self._told_rate, now):
                return DROPPED
            self._told.left -= 1.0
            return _tell(bucket, now)
        bucket.left -= 1.0
        everybody.left -= 1.0
        return ADMITTED

    def refusal(self) -> ShareRefusal:
        """What to say to the host whose datagram was just REFUSED."""
        return self._refusal

    def _admit_known(self, bucket: _Bucket, rate: float, now: float) -> int:
        if bucket.has_one(rate, now):
            bucket.left -= 1.0
            return ADMITTED
        return self._refuse_host(bucket, now)

    def _refuse_host(self, bucket: _Bucket, now: float) -> int:
        self.refused_host += 1
        self._refusal = self._too_many
        return _tell(bucket, now)


def _tell(bucket: _Bucket, now: float) -> int:
    if now - bucket.told_at < _SECOND:
        return DROPPED
    bucket.told_at = now
    return REFUSED


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
        own_requests: taken and given back by `OwnRequests`.

    """

    def __init__(self, limits: ShareLimits = DEFAULT_LIMITS) -> None:
        self.requests = Share(limits.requests)
        self.observations = Share(limits.observations)
        self.held_bytes = Share(limits.held_bytes)
        self.datagrams = DatagramShares(limits.datagrams)
        self.own_requests = Share(limits.own_requests)

    def refusals(self) -> dict[str, int]:
        """How often what was refused since the start, for metrics.

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
