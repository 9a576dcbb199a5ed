"""All connections that are open, whoever is at their other end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.broker.inbound.peer import Peer
from gateway.broker.limits import Limits
from gateway.trust.shares.connection_room import ConnectionRoom, ConnectionStage
from gateway.trust.shares.failed_attempts import network_of
from tree_handler.rate_limit import RateLimit

_ALL: Final = ""
"""Connections of a second count together, wherever they come from."""


class Connections:
    """Counts connections in and out: in all, by address, and in a second.

    Args:
        limits: how many there may be.
        refusals: is told of those that are too many.
        now: the loop's clock, in seconds.

    Attributes:
        opened_count: all that ever came, those refused included.

    """

    def __init__(self, limits: Limits, refusals: CountedLines, now: Callable[[], float]) -> None:
        self._limits = limits
        self._refusals = refusals
        self._now = now
        self._rate = RateLimit(limits.connects_per_s, limits.connects_per_s, 1)
        self._peers: set[Peer] = set()
        self._room: ConnectionRoom[Peer] = ConnectionRoom(
            limits.connections, limits.unaccepted_per_address, _standing
        )
        self._by_address: Counter[str] = Counter()
        self._takes_none = False
        self.opened_count = 0

    def __len__(self) -> int:
        """Return how many are open, with those that have sent no CONNECT yet."""
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._peers))

    def opened(self, peer: Peer) -> None:
        """A connection has come; it may be closed at once."""
        address = peer.channel.address
        self.opened_count += 1
        self._peers.add(peer)
        self._by_address[address] += 1
        if why := self._why_not(address):
            self._refuse(peer, why)
            return
        for one in self._room.opened(peer, network_of(address)):
            self._refuse(one, "connection over the limit")

    def _refuse(self, peer: Peer, why: str) -> None:
        self._refusals.count(why, peer.channel.address)
        peer.channel.abort()

    def _why_not(self, address: str) -> str:
        """Return why the connection that was just counted is too many; empty if it is not."""
        is_too_fast = not self._rate.allow(_ALL, self._now())
        if self._by_address[address] > self._limits.connections_per_address:
            return "connection over the limit of an address"
        if is_too_fast:
            return "connection over the limit of a second"
        return "connection while stopping" if self._takes_none else ""

    def closed(self, peer: Peer) -> None:
        """A connection has gone, or has become a link."""
        address = peer.channel.address
        if peer in self._peers:
            self._room.closed(peer)
            self._peers.discard(peer)
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def take_no_more(self) -> None:
        """The broker stops."""
        self._takes_none = True


def _standing(peer: Peer) -> ConnectionStage:
    if peer.publisher is not None:
        return ConnectionStage.ACCEPTED
    return ConnectionStage.ASKING if peer.waiting.verdict else ConnectionStage.SILENT
