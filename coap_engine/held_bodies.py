"""Bodies that are held for peers for a while: in assembly, or for blocks that may be asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from coap_engine.blocks import cache_key
from coap_engine.message import CoapPeer, Option
from coap_engine.share import ShareRefusal
from coap_engine.shares import Shares

BodyKey = tuple[Hashable, int, tuple[Option, ...]]
"""The owner of a body and its operation: address, method, and options that count."""

TOUCHED_S: Final = 1.0
"""A body touched so lately stays where it stands: blocks come by the thousand."""
OVERHEAD_BYTES: Final = 1_024
"""The memory that a held body takes beside its bytes and options, about."""
OPTION_BYTES: Final = 128
"""The memory that an option takes beside its value, about."""

Content = TypeVar("Content")


def body_key(peer: CoapPeer, code: int, options: tuple[Option, ...]) -> BodyKey:
    """Return what messages about one body have in common (RFC 7959, section 2.4 and 2.5)."""
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

    __slots__ = ("_among", "content", "key", "peer", "taken_bytes", "touched_at")

    def __init__(
        self,
        among: HeldBodies[Content],
        peer: CoapPeer,
        key: BodyKey,
        content: Content,
        taken_bytes: int,
        now: float,
    ) -> None:
        self._among = among
        self.peer = peer
        self.key = key
        self.content = content
        self.taken_bytes = taken_bytes
        self.touched_at = now

    def end(self) -> None:
        """Drop the body."""
        self._among.drop(self)


class HeldBodies(Generic[Content]):
    """All that are held for one purpose; what nothing came of for longest stands first.

    Args:
        shares: ``shares.bodies`` bounds their bytes, and nothing else how many there are.
        lifetime_s: how long after it was last touched a body is held.

    Attributes:
        by_key: all of them; only these methods change it.

    """

    def __init__(self, shares: Shares, lifetime_s: float) -> None:
        self._room = shares.bodies
        self._lifetime_s = lifetime_s
        # A plain dict looks for its first entry among all that were dropped before it.
        self.by_key: OrderedDict[BodyKey, HeldBody[Content]] = OrderedDict()
        self._by_address: dict[Hashable, dict[BodyKey, HeldBody[Content]]] = {}

    def __len__(self) -> int:
        return len(self.by_key)

    def get(self, key: BodyKey) -> HeldBody[Content] | None:
        """Return the body of an operation; None if none is held."""
        return self.by_key.get(key)

    def add(
        self,
        peer: CoapPeer,
        key: BodyKey,
        content: Content,
        size_bytes: int,
        now: float,
        *,
        is_owed: bool = True,
    ) -> ShareRefusal | None:
        """Hold a body, in place of one with the same key; or say why there is no room.

        Args:
            peer: whose share it takes.
            key: see `BodyKey`.
            content: what is held.
            size_bytes: of the body.
            now: in seconds.
            is_owed: see `coap_engine.body_room.BodyRoom.enter`.

        """
        before = self.by_key.get(key)
        if before is not None:
            self.drop(before)
        taken_bytes = size_bytes + OVERHEAD_BYTES
        for _, value in key[2]:
            taken_bytes += OPTION_BYTES + len(value)
        held = HeldBody(self, peer, key, content, taken_bytes, now)
        refusal = self._room.enter(held, now, is_owed=is_owed)
        if refusal is None:
            self.by_key[key] = held
            self._by_address.setdefault(peer.address, {})[key] = held
        return refusal

    def grow(self, held: HeldBody[Content], more_bytes: int, now: float) -> ShareRefusal | None:
        """Take more bytes for a body; or say why there is no room."""
        return self._room.grow(held, more_bytes, now)

    def touch(self, held: HeldBody[Content], now: float) -> None:
        """Something came of a body: it is held for its full time from now on, to a second."""
        if now < held.touched_at + TOUCHED_S:
            return
        held.touched_at = now
        self.by_key.move_to_end(held.key)
        self._room.touched(held)

    def drop(self, held: HeldBody[Content]) -> None:
        """Hold a body no longer."""
        del self.by_key[held.key]
        of_peer = self._by_address[held.key[0]]
        del of_peer[held.key]
        if not of_peer:
            del self._by_address[held.key[0]]
        self._room.leave(held)

    def forget_peer(self, peer: CoapPeer) -> None:
        """Hold nothing for a peer any longer."""
        for held in list(self._by_address.get(peer.address, {}).values()):
            self.drop(held)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None while nothing is held."""
        for held in self.by_key.values():
            return held.touched_at + self._lifetime_s
        return None

    def handle_timer(self, now: float) -> None:
        """Drop what nothing came of for the lifetime."""
        while self.by_key:
            oldest = next(iter(self.by_key.values()))
            if now < oldest.touched_at + self._lifetime_s:
                return
            self.drop(oldest)
