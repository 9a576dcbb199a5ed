"""Requests whose body has come whole, and what they were answered with.

Whoever does not get the answer to the last block of a body may send that block in another message
(RFC 7959, section 2.5). By then the body is gone, and its request is not to be carried out again:
it is answered as before.
"""

from __future__ import annotations

import hashlib
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import BadBlockError, Block, BodyLimits
from coap_engine.held_bodies import HeldBodies, HeldBody, body_key
from coap_engine.message import CoapPeer, CoapResponse, Option, value_of
from coap_engine.shares import Shares
from coap_engine.uint import encode_uint

_TAG_BYTES: Final = 8
_UNDER_WAY: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE,
    ((option_numbers.MAX_AGE, encode_uint(1)),),
    b"this request is being carried out: send its last block again",
)


_NOT_CARRIED_OUT: Final = (codes.SERVICE_UNAVAILABLE, codes.TOO_MANY_REQUESTS)
"""The codes that say so: a request may be tried again, and then from the first block on."""


class FinishedBody:
    """A request whose last block has come.

    Args:
        offset: where that block began, in bytes.
        tag: of what it said.
        block1: what the answer to it says as Block1.
        bodies: those that are remembered.

    Attributes:
        block1: as given.

    """

    __slots__ = ("_bodies", "_held", "_offset", "_response", "_tag", "block1")

    def __init__(
        self, offset: int, tag: bytes, block1: bytes, bodies: HeldBodies[FinishedBody]
    ) -> None:
        self.block1 = block1
        self._offset = offset
        self._tag = tag
        self._bodies = bodies
        self._held: HeldBody[FinishedBody] | None = None
        self._response: CoapResponse | None = None

    @property
    def response(self) -> CoapResponse:
        """Return the response to the request; 5.03 as long as there is none."""
        return self._response or _UNDER_WAY

    def is_of(self, block: Block, payload: bytes) -> bool:
        """Return whether a block is this last one."""
        return not block.more and block.offset == self._offset and _tag(payload) == self._tag

    def answered(self, response: CoapResponse, now: float) -> None:
        """Remember what the request was answered with first; or nothing, if it may be retried."""
        held = self._held
        if self._response is not None:
            return
        if held is None or self._bodies.get(held.key) is not held:  # another one took its place
            return
        is_kept = response.code not in _NOT_CARRIED_OUT
        if is_kept and self._bodies.grow(held, len(response.payload), now) is None:
            self._response = response
        else:
            self._bodies.drop(held)

    def held_as(self, held: HeldBody[FinishedBody] | None) -> None:
        """Take note of where it is remembered; None for nowhere."""
        self._held = held


class FinishedBodies:
    """Remembers those that came in several blocks.

    Args:
        shares: bytes are taken from ``shares.bodies``, which says who makes room for another.
        limits: see `BodyLimits`; they are remembered for ``assembly_s``.

    """

    def __init__(self, shares: Shares, limits: BodyLimits) -> None:
        self._bodies: HeldBodies[FinishedBody] = HeldBodies(shares, limits.assembly_s)

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._bodies)

    def again(
        self, peer: CoapPeer, code: int, options: tuple[Option, ...], payload: bytes
    ) -> FinishedBody | None:
        """Return the request whose last block comes once more; None if it is no such block.

        Args:
            peer: who sent it.
            code: its method.
            options: all of its options, as they came.
            payload: its payload.

        """
        block = _block(options)
        held = None if block is None else self._bodies.get(body_key(peer, code, options))
        if block is None or held is None:
            return None
        if block.number == 0:  # another body begins
            self._bodies.drop(held)
            return None
        return held.content if held.content.is_of(block, payload) else None

    def add(
        self,
        peer: CoapPeer,
        code: int,
        options: tuple[Option, ...],
        payload: bytes,
        block1: bytes,
        now: float,
    ) -> FinishedBody | None:
        """Remember that a request's last block has come; None if it was the only one.

        Args:
            peer: who sent it.
            code: its method.
            options: all of its options, as they came.
            payload: of the last block alone.
            block1: what the answer says as Block1.
            now: in seconds.

        """
        block = _block(options)
        if block is None or not block.number:
            return None
        key = body_key(peer, code, options)
        finished = FinishedBody(block.offset, _tag(payload), block1, self._bodies)
        # Where there is no room the block is told 4.08 if it comes again.
        if self._bodies.add(peer, key, finished, 0, now, is_owed=False) is None:
            finished.held_as(self._bodies.get(key))
        return finished

    def forget_peer(self, peer: CoapPeer) -> None:
        """A peer's session is gone."""
        self._bodies.forget_peer(peer)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None while nothing is remembered."""
        return self._bodies.next_timer()

    def handle_timer(self, now: float) -> None:
        """Forget what is too old to come again."""
        self._bodies.handle_timer(now)


def _block(options: tuple[Option, ...]) -> Block | None:
    value = value_of(options, option_numbers.BLOCK1)
    if value is None:
        return None
    try:
        return Block.decode(value)
    except BadBlockError:  # it is refused where its body is put together
        return None


def _tag(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_TAG_BYTES).digest()
