"""Rates that peers may have: for a host, and for all strangers together.

What the accounts take themselves is bounded: buckets are forgotten when they are full again, and
there are at most `Rates.hosts` of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from coap_engine import codes
from coap_engine.message import CoapPeer
from coap_engine.share import ShareRefusal
from light_dataclasses import dataclass

ADMITTED: Final = 0
"""Take it."""
REFUSED: Final = 1
"""Tell its sender `RateShares.refusal`; a datagram is read only so far as that needs."""
DROPPED: Final = 2
"""Forget it unread: the host has been told within the last second."""

_SECOND: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates per second that are admitted, of datagrams if nothing else is said.

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


DEFAULT_RATES = Rates()


class _Bucket:
    """A token bucket: its tokens at a time. It holds as many as come back to it in a second."""

    __slots__ = ("at", "left", "told_at")

    def __init__(self, rate: float, now: float) -> None:
        self.left = max(rate, 1.0)
        self.at = now
        self.told_at = -_SECOND


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
        """Return a host's bucket."""
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


class RateShares:
    """An admission control by rate, for datagrams or for requests that cost much.

    Args:
        rates: see `Rates`.

    Attributes:
        refused_host: what came beyond a host's rate.
        refused_full: what came of strangers beyond their common rate.

    """

    def __init__(self, rates: Rates) -> None:
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
        """Return how many buckets there are."""
        return len(self._hosts) + len(self._principals)

    def admit(self, peer: CoapPeer, now: float) -> int:
        """Count one that came, before anything is done for it.

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
        if not _has_one(bucket, rates.host, now):
            return self._refuse_host(bucket, now)
        everybody = self._strangers
        if not _has_one(everybody, rates.strangers, now):
            self.refused_full += 1
            self._refusal = self._full
            if not _has_one(self._told, self._told_rate, now):
                return DROPPED
            self._told.left -= 1.0
            return _tell(bucket, now)
        bucket.left -= 1.0
        everybody.left -= 1.0
        return ADMITTED

    def refusal(self) -> ShareRefusal:
        """Return what to say to the host that was just not ADMITTED."""
        return self._refusal

    def _admit_known(self, bucket: _Bucket, rate: float, now: float) -> int:
        if _has_one(bucket, rate, now):
            bucket.left -= 1.0
            return ADMITTED
        return self._refuse_host(bucket, now)

    def _refuse_host(self, bucket: _Bucket, now: float) -> int:
        self.refused_host += 1
        self._refusal = self._too_many
        return _tell(bucket, now)


def _has_one(bucket: _Bucket, rate: float, now: float) -> bool:
    """Return whether there is one more to take, with what has come back since."""
    bucket.left = min(max(rate, 1.0), bucket.left + (now - bucket.at) * rate)
    bucket.at = now
    return bucket.left >= 1.0


def _tell(bucket: _Bucket, now: float) -> int:
    if now - bucket.told_at < _SECOND:
        return DROPPED
    bucket.told_at = now
    return REFUSED
