"""Search for the session of a record from an unknown address (RFC 6347, section 4.1.2.7).

A device behind a NAT that has forgotten it comes from another port, and does not know. Without a
Connection ID (RFC 9146) nothing in its records says which session they are of, but their keys do:
so they are tried with those of the same host whose numbers they could follow. The rules are those
of RFC 9146, section 6:

- A peer has moved only if a record could be decrypted that was not there before, and whose number
  is higher than that of all before it. A copy or a late record moves nobody.
- It has moved within its host, as shares count it: to another port of an IPv4 address, or within
  a /64. A cookie has shown that it is there, so what is sent to it floods no third party.

How many records are tried is bounded, of one host and of all: who forges the address of a NAT costs
its devices no more than what they had without this.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Final

from dtls.association import PeerAssociation
from dtls.records import APPLICATION_DATA, DtlsRecord

TRIES: Final = 64
"""With so many sessions a record is tried at most."""
HOST_TRIES_PER_S: Final = 100.0
ALL_TRIES_PER_S: Final = 500.0
"""So many tries a host has, and all; at once, those of two seconds. One takes 18 us on a PC."""
_AT_ONCE_S: Final = 2.0


class MovedPeers:
    """The established sessions by host, and how many tries are left."""

    def __init__(self) -> None:
        self._hosts: dict[Hashable, _Host] = {}
        self._all = _Tries(ALL_TRIES_PER_S)

    def add(self, association: PeerAssociation) -> None:
        """A session is established."""
        host = self._hosts.get(association.host)
        if host is None:
            host = self._hosts[association.host] = _Host()
        host.sessions[association.id] = association

    def remove(self, association: PeerAssociation) -> None:
        """A session has ended."""
        host = self._hosts[association.host]
        del host.sessions[association.id]
        if not host.sessions:
            del self._hosts[association.host]

    def candidates(
        self, record: DtlsRecord, sequence: int, host: Hashable, now: float
    ) -> Iterator[PeerAssociation]:
        """Yield sessions that a record may be of, the likeliest first, while tries are left.

        Args:
            record: the first of its datagram.
            sequence: its number.
            host: where it came from.
            now: in seconds.

        """
        found = self._hosts.get(host)
        if found is None or record.content_type != APPLICATION_DATA or record.epoch == 0:
            return
        # The next number of a peer is most often just behind its last one.
        ahead = ((sequence - one.sequence, one.id) for one in found.sessions.values())
        nearest = heapq.nsmallest(TRIES, (one for one in ahead if one[0] > 0))
        for _, session_id in nearest:
            if not (found.tries.take(now) and self._all.take(now)):
                return
            yield found.sessions[session_id]


class _Tries:
    """A token bucket."""

    __slots__ = ("_at", "_left", "_per_s")

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._left = per_s * _AT_ONCE_S
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Use up one try, and return whether one was left; they come again with time."""
        earned = max(0.0, now - self._at) * self._per_s
        self._left = min(self._per_s * _AT_ONCE_S, self._left + earned)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class _Host:
    """The sessions of one host, and the tries that it has."""

    __slots__ = ("sessions", "tries")

    def __init__(self) -> None:
        self.sessions: dict[int, PeerAssociation] = {}
        self.tries = _Tries(HOST_TRIES_PER_S)
