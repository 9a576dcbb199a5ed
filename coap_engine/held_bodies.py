"""Bodies that are held for peers for a while: in assembly, or for blocks that may be asked for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from coap_engine.blocks import cache_key
from coap_engine.message import CoapPeer, Option
from coap_engine.share_refusal import ShareRefusal
from coap_engine.shares import Shares

BodyKey = tuple[Hashable, int, tuple[Option, ...]]
"""Whose body it is, and of which operation: address, method, and options that count."""

TOUCHED_S: Final = 1.0
"""What was touched so lately stays where it stands: blocks come by the thousand."""
OVERHEAD_BYTES: Final = 256
"""What holding a body takes beside its bytes, about."""

Content = TypeVar("Content")


def body_key(peer: CoapPeer, code: int, options: tuple[Option, ...]) -> BodyKey:
    """What messages about one body have in common (RFC 7959, section 2.4 and 2.5)."""
    return (peer.address, code, cache_key(options))


class HeldBody(Generic[Content]):
    """One body.

    Attributes:
        peer: whose share it takes.
        key: see `BodyKey`.
        content: what is held.
        taken_bytes: of the peer's share.
        touched_at: when something last came of it, in seconds.

    """

    __slots__ = ("content", "key", "peer", "taken_bytes", "touched_at")

    def __init__(
        self, peer: CoapPeer, key: BodyKey, content: Content, taken_bytes: int, now: float
    ) -> None:
        self.peer = peer
        self.key = key
        self.content = content
        self.taken_bytes = taken_bytes
        self.touched_at = now


class HeldBodies(Generic[Content]):
    """All that are held for one purpose; what nothing came of for longest stands first.

    Args:
        shares: bytes are taken from ``shares.held_bytes``.
        per_peer: bodies at most for one address; its oldest makes room for another.
        lifetime_s: how long after it was last touched a body is held.

    """

    def __init__(self, shares: Shares, per_peer: int, lifetime_s: float) -> None:
        self._share = shares.held_bytes
        self._per_peer = per_peer
        self._lifetime_s = lifetime_s
        self._by_key: dict[BodyKey, HeldBody[Content]] = {}
        self._by_address: dict[Hashable, dict[BodyKey, HeldBody[Content]]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: BodyKey) -> HeldBody[Content] | None:
        """The body of an operation; None if none is held."""
        return self._by_key.get(key)

    def add(
        self, peer: CoapPeer, key: BodyKey, content: Content, size_bytes: int, now: float
    ) -> ShareRefusal | None:
        """Hold a body, in place of one with the same key; or say why there is no room."""
        before = self._by_key.get(key)
        if before is not None:
            self.drop(before)
        of_peer = self._by_address.get(peer.address)
        if of_peer is not None and len(of_peer) >= self._per_peer:
            self.drop(next(iter(of_peer.values())))
        taken_bytes = size_bytes + OVERHEAD_BYTES
        refusal = self._share.take(peer, taken_bytes)
        if refusal is None:
            held = HeldBody(peer, key, content, taken_bytes, now)
            self._by_key[key] = held
            self._by_address.setdefault(peer.address, {})[key] = held
        return refusal

    def grow(self, held: HeldBody[Content], more_bytes: int) -> ShareRefusal | None:
        """Take more bytes for a body; or say why there is no room."""
        refusal = self._share.take(held.peer, more_bytes)
        if refusal is None:
            held.taken_bytes += more_bytes
        return refusal

    def touch(self, held: HeldBody[Content], now: float) -> None:
        """Something came of a body: it is held for its full time from now on, to a second."""
        if now < held.touched_at + TOUCHED_S:
            return
        held.touched_at = now
        self._by_key[held.key] = self._by_key.pop(held.key)
        of_peer = self._by_address[held.key[0]]
        of_peer[held.key] = of_peer.pop(held.key)

    def drop(self, held: HeldBody[Content]) -> None:
        """Hold a body no longer."""
        del self._by_key[held.key]
        of_peer = self._by_address[held.key[0]]
        del of_peer[held.key]
        if not of_peer:
            del self._by_address[held.key[0]]
        self._share.give_back(held.peer, held.taken_bytes)

    def forget_peer(self, peer: CoapPeer) -> None:
        """Hold nothing for a peer any longer."""
        for held in list(self._by_address.get(peer.address, {}).values()):
            self.drop(held)

    def next_timer(self) -> float | None:
        """When `handle_timer` is due; None while nothing is held."""
        for held in self._by_key.values():
            return held.touched_at + self._lifetime_s
        return None

    def handle_timer(self, now: float) -> None:
        """Drop what nothing came of for the lifetime."""
        while self._by_key:
            oldest = next(iter(self._by_key.values()))
            if now < oldest.touched_at + self._lifetime_s:
                return
            self.drop(oldest)
