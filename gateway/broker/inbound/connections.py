"""All connections that are open, whoever is at their other end."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.broker.inbound.peer import Peer
from gateway.broker.limits import Refusals
from gateway.broker.listeners.arrivals import Arrivals


class Connections:
    """Counts connections in and out.

    Args:
        arrivals: says which are too many.
        refusals: is told of those.

    Attributes:
        opened_count: all that ever came, those refused included.

    """

    def __init__(self, arrivals: Arrivals, refusals: Refusals) -> None:
        self._arrivals = arrivals
        self._refusals = refusals
        self._peers: set[Peer] = set()
        self._takes_none = False
        self.opened_count = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._peers))

    def opened(self, peer: Peer) -> None:
        """A connection has come; it may be closed at once."""
        self.opened_count += 1
        self._peers.add(peer)
        why = self._arrivals.opened(peer.channel.address)
        if why or self._takes_none:
            self._refusals.count(why or "connection while stopping", peer.channel.address)
            peer.channel.abort()

    def closed(self, peer: Peer) -> None:
        """A connection has gone, or has become a link."""
        if peer in self._peers:
            self._peers.discard(peer)
            self._arrivals.closed(peer.channel.address)

    def take_no_more(self) -> None:
        """The broker stops."""
        self._takes_none = True
