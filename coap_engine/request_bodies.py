"""Bodies of requests that come in blocks (RFC 7959, section 2.5; RFC 9175, section 3)."""

from __future__ import annotations

from coap_engine import codes, option_numbers
from coap_engine.blocks import DEFAULT_LIMITS, BadBlockError, Block, BodyLimits
from coap_engine.held_bodies import BodyKey, HeldBodies, HeldBody, body_key
from coap_engine.message import CoapPeer, CoapResponse, Option, value_of
from coap_engine.shares import Shares
from coap_engine.uint import decode_uint, encode_uint


class WholeBody:
    """The body of a request is whole.

    Args:
        payload: all of it.
        block1: what the final response says as Block1; None if the request had no such option.

    """

    __slots__ = ("block1", "payload")

    def __init__(self, payload: bytes, block1: bytes | None) -> None:
        self.payload = payload
        self.block1 = block1

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WholeBody)
            and other.payload == self.payload
            and other.block1 == self.block1
        )

    def __hash__(self) -> int:
        return hash((self.payload, self.block1))


class RequestBodies:
    """Puts bodies of requests together, in order.

    The engine calls `take` for each request that is no repetition and that it would serve, before
    anything else looks at its payload. A `CoapResponse` is sent as it is; of a `WholeBody` the
    payload becomes the request's, and its ``block1`` goes into the response that follows, whatever
    its code (RFC 7959, section 2.3).

    Args:
        shares: bytes in assembly are taken from ``shares.held_bytes``.
        limits: see `BodyLimits`.

    """

    def __init__(self, shares: Shares, limits: BodyLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._bodies: HeldBodies[bytearray] = HeldBodies(shares, limits.assembly_s)

    @property
    def in_assembly(self) -> int:
        """Return how many bodies are not whole yet."""
        return len(self._bodies)

    def take(
        self, peer: CoapPeer, code: int, options: tuple[Option, ...], payload: bytes, now: float
    ) -> WholeBody | CoapResponse:
        """Take a request's payload, which is a block if there is a Block1 option.

        Args:
            peer: who sent it.
            code: its method.
            options: all of its options, as they came.
            payload: its payload.
            now: in seconds.

        Returns:
            The body, if this was the last block or there are none; else what to answer: 2.31
            Continue; 4.08 Request Entity Incomplete where blocks before this one are missing;
            4.13 Request Entity Too Large with Size1; 4.00 or 4.02 for a block that can't be; 5.03
            or 4.29 where there is no room.

        """
        value = value_of(options, option_numbers.BLOCK1)
        if value is None:
            return WholeBody(payload, None)
        try:
            block = Block.decode(value)
        except BadBlockError as error:
            return CoapResponse(error.code)
        return self._take_block(body_key(peer, code, options), peer, block, options, payload, now)

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what a peer has sent: its session is gone."""
        self._bodies.forget_peer(peer)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None while there is nothing to wait for."""
        return self._bodies.next_timer()

    def handle_timer(self, now: float) -> None:
        """Forget bodies whose rest has not come."""
        self._bodies.handle_timer(now)

    def _take_block(
        self,
        key: BodyKey,
        peer: CoapPeer,
        block: Block,
        options: tuple[Option, ...],
        payload: bytes,
        now: float,
    ) -> WholeBody | CoapResponse:
        size_bytes = len(payload)
        if size_bytes > block.size_bytes or (block.more and size_bytes < block.size_bytes):
            return CoapResponse(codes.BAD_REQUEST)
        held = self._bodies.get(key)
        if self._is_too_large(options, block.offset + size_bytes):
            if held is not None:
                self._bodies.drop(held)
            return self._too_large()
        if block.number == 0:
            return self._begin(peer, key, block, payload, now)
        if held is None or block.offset > len(held.content):
            return CoapResponse(codes.REQUEST_ENTITY_INCOMPLETE)
        if block.offset < len(held.content):
            return self._again(held, block, payload, now)
        return self._append(held, block, payload, now)

    def _begin(
        self, peer: CoapPeer, key: BodyKey, block: Block, payload: bytes, now: float
    ) -> WholeBody | CoapResponse:
        if not block.more:
            before = self._bodies.get(key)
            if before is not None:
                self._bodies.drop(before)
            return WholeBody(payload, self._echoed(block))
        refusal = self._bodies.add(peer, key, bytearray(payload), len(payload), now)
        return self._continue(block) if refusal is None else refusal.response()

    def _append(
        self, held: HeldBody[bytearray], block: Block, payload: bytes, now: float
    ) -> WholeBody | CoapResponse:
        if not block.more:
            self._bodies.drop(held)
            return WholeBody(bytes(held.content) + payload, self._echoed(block))
        refusal = self._bodies.grow(held, len(payload), now)
        if refusal is not None:
            self._bodies.drop(held)
            return refusal.response()
        held.content += payload
        self._bodies.touch(held, now)
        return self._continue(block)

    def _again(
        self, held: HeldBody[bytearray], block: Block, payload: bytes, now: float
    ) -> CoapResponse:
        """Take a block that is there already, which changes nothing if it says the same."""
        if not block.more or not held.content.startswith(payload, block.offset):
            return CoapResponse(codes.REQUEST_ENTITY_INCOMPLETE)
        self._bodies.touch(held, now)
        return self._continue(block)

    def _is_too_large(self, options: tuple[Option, ...], size_bytes: int) -> bool:
        announced = value_of(options, option_numbers.SIZE1)
        if announced is not None:
            size_bytes = max(size_bytes, decode_uint(announced))
        return size_bytes > self._limits.body_bytes

    def _too_large(self) -> CoapResponse:
        size1 = encode_uint(self._limits.body_bytes)
        return CoapResponse(codes.REQUEST_ENTITY_TOO_LARGE, ((option_numbers.SIZE1, size1),))

    def _continue(self, block: Block) -> CoapResponse:
        return CoapResponse(codes.CONTINUE, ((option_numbers.BLOCK1, self._echoed(block)),))

    def _echoed(self, block: Block) -> bytes:
        """Return the block as the answer names it: of the size wished for (RFC 7959, section
        2.5)."""
        size_exponent = min(block.size_exponent, self._limits.size_exponent)
        return Block(block.number, block.more, size_exponent).encode()
