"""Room for bodies, of requests and of responses alike: who makes room for whose.

Stated here and nowhere else, where a share of bytes is used up:

- Where a holder has its part, its own body makes room that was idle for longest, if for `IDLE_S`.
  So transfers under way go on, and the one too many waits.
- Where all together have theirs, the oldest body of who holds most does, if that is more than the
  asker would hold. So nobody keeps out those that hold less.
- A stranger takes nothing away from who is authenticated.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

from coap_engine import codes
from coap_engine.message import CoapPeer
from coap_engine.share import Share, ShareRefusal

IDLE_S: Final = 10.0
"""The silence after which a transfer is likely over: two retransmissions take less."""

_Holder = tuple[bool, Hashable]
"""True if a peer is authenticated; and its name, or the host that it comes from."""


class Holding(Protocol):
    """A body that is held.

    Attributes:
        peer: whose share it takes.
        taken_bytes: of it.
        touched_at: when something last came of it, in seconds.

    """

    peer: CoapPeer
    taken_bytes: int
    touched_at: float

    def end(self) -> None:
        """Hold it no longer: `BodyRoom.leave` is called."""


class BodyRoom:
    """All bodies that are held, by who holds them; those idle for longest stand first.

    Args:
        share: bounds the bytes of one peer, of strangers and of all.

    """

    def __init__(self, share: Share) -> None:
        self._share = share
        self._by_holder: dict[_Holder, dict[int, Holding]] = {}
        self._bytes_of: dict[_Holder, int] = {}

    def enter(self, held: Holding, now: float, *, is_owed: bool) -> ShareRefusal | None:
        """Let a body in, for which others may have to go; or say why there is no room.

        Args:
            held: it; ``taken_bytes`` says how much it takes.
            now: in seconds.
            is_owed: its peer is told of a refusal, which is counted; else it costs time alone.

        """
        peer, taken_bytes = held.peer, held.taken_bytes
        refusal = self._make(peer, taken_bytes, None, now)
        if refusal is not None and not is_owed:
            return refusal
        refusal = self._share.take(peer, taken_bytes)
        if refusal is None:
            holder = _holder(peer)
            self._by_holder.setdefault(holder, {})[id(held)] = held
            self._bytes_of[holder] = self._bytes_of.get(holder, 0) + taken_bytes
        return refusal

    def grow(self, held: Holding, more_bytes: int, now: float) -> ShareRefusal | None:
        """Let a body take more, for which others may have to go; or say why there is no room."""
        self._make(held.peer, more_bytes, held, now)
        refusal = self._share.take(held.peer, more_bytes)
        if refusal is None:
            held.taken_bytes += more_bytes
            self._bytes_of[_holder(held.peer)] += more_bytes
        return refusal

    def touched(self, held: Holding) -> None:
        """Put a body behind those of its holder that are idle for longer."""
        of_holder = self._by_holder[_holder(held.peer)]
        of_holder[id(held)] = of_holder.pop(id(held))

    def leave(self, held: Holding) -> None:
        """Give back what a body took."""
        holder = _holder(held.peer)
        of_holder = self._by_holder[holder]
        del of_holder[id(held)]
        self._bytes_of[holder] -= held.taken_bytes
        if not of_holder:
            del self._by_holder[holder], self._bytes_of[holder]
        self._share.give_back(held.peer, held.taken_bytes)

    def _make(
        self, peer: CoapPeer, more_bytes: int, but: Holding | None, now: float
    ) -> ShareRefusal | None:
        """End what has to make room, but not one of them; return why there is none all the same."""
        while (lack := self._share.lacks(peer, more_bytes)) is not None:
            if lack.code == codes.TOO_MANY_REQUESTS:
                giver = self._idle(peer, but, now)
            else:
                giver = self._of_the_greatest(peer, more_bytes, but)
            if giver is None:
                return lack
            giver.end()
        return None

    def _idle(self, peer: CoapPeer, but: Holding | None, now: float) -> Holding | None:
        for held in self._by_holder.get(_holder(peer), {}).values():
            if now < held.touched_at + IDLE_S:
                return None
            if held is not but:
                return held
        return None

    def _of_the_greatest(
        self, peer: CoapPeer, more_bytes: int, but: Holding | None
    ) -> Holding | None:
        asker = _holder(peer)
        greatest, most = None, self._bytes_of.get(asker, 0) + more_bytes
        # As many as there are holders: few, where one of them holds much.
        for holder, held_bytes in self._bytes_of.items():
            if held_bytes > most and (asker[0] or not holder[0]):
                greatest, most = holder, held_bytes
        if greatest is None:
            return None
        return next((held for held in self._by_holder[greatest].values() if held is not but), None)


def _holder(peer: CoapPeer) -> _Holder:
    return peer.principal is not None, peer.host
