"""One thing of which peers hold so much at most: of a host, of all strangers, and of everybody.

Stated here and nowhere else:

- A part of everything is out of strangers' reach: they take at most `Quota.strangers`, and
  authenticated peers have at least the rest.
- A stranger's host has at most `Quota.host`; an authenticated one `Quota.principal`. A stranger
  that calls itself as an authenticated one does has another account.
- An account of what is held exists only while something is held.
"""

from __future__ import annotations

from collections.abc import Hashable

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.uint import encode_uint
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of how much of one thing peers may hold at once.

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
        """Return what the peer is told: the code, with Max-Age."""
        return CoapResponse(self.code, ((option_numbers.MAX_AGE, encode_uint(self.retry_s)),))


class Share:
    """An account of how much of one thing each peer holds.

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
