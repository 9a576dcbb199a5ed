"""Bodies of responses that go out in blocks (RFC 7959, section 2.4)."""

from __future__ import annotations

import hashlib
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import (
    DEFAULT_LIMITS,
    BadBlockError,
    Block,
    BodyLimits,
    with_options,
)
from coap_engine.held_bodies import BodyKey, HeldBodies, body_key
from coap_engine.message import CoapPeer, CoapResponse, Option, value_of
from coap_engine.shares import Shares
from coap_engine.uint import encode_uint

_TAG_BYTES: Final = 8
_NO_TAG: Final = b""
"""Of a request without a body, as most that are answered with much."""


class _Kept:
    """A whole response, and what tells the body of its request from others."""

    __slots__ = ("request_tag", "response")

    def __init__(self, response: CoapResponse, request_tag: bytes) -> None:
        self.response = response
        self.request_tag = request_tag


class ResponseBodies:
    """Cuts bodies of responses into blocks and serves the blocks after the first.

    The engine asks `following` with each whole request, and sends what it gives instead of handing
    the request out as `RequestReceived`. What is responded to a `RequestReceived` goes through
    `cut`, notifications too, with the options of the request as they came; it takes the place of
    what was kept. A body that is not kept, for want of room, costs another `RequestReceived` for
    each further block of a GET; its ETag tells the client whether the blocks are of one body.

    Args:
        shares: bytes kept are taken from ``shares.held_bytes``.
        limits: see `BodyLimits`.

    Attributes:
        block_bytes: how long a block is at most.
        bodies: what is kept, to be looked at only.

    """

    def __init__(self, shares: Shares, limits: BodyLimits = DEFAULT_LIMITS) -> None:
        self.block_bytes = 16 << limits.size_exponent
        self.bodies: HeldBodies[_Kept] = HeldBodies(shares, limits.kept_s)
        self._limits = limits
        # What is cut again for each block is most often the body that was cut last.
        self._tagged = (b"", _tag(b""))

    @property
    def kept(self) -> int:
        """Return how many bodies are kept."""
        return len(self.bodies)

    def following(
        self, peer: CoapPeer, code: int, options: tuple[Option, ...], payload: bytes, now: float
    ) -> CoapResponse | None:
        """Answer a request for a later block from what was kept.

        Args:
            peer: who sent it.
            code: its method.
            options: all of its options, as they came.
            payload: its body; empty in requests for later blocks of what a body of several
                blocks was answered with.
            now: in seconds.

        Returns:
            The block; 4.00 beyond the end of the body, or for a Block2 option that can't be; 4.08
            where nothing is kept and the method would have to be carried out a second time. None
            if the resource is to be asked.

        """
        value = value_of(options, option_numbers.BLOCK2)
        if value is None:
            return None
        try:
            block = self._asked(value)
        except BadBlockError as error:
            return CoapResponse(error.code)
        if block.number == 0:
            return None
        held = self.bodies.get(body_key(peer, code, options))
        if held is None or (payload and held.content.request_tag != _tag(payload)):
            # A FETCH of a body in blocks is asked on without the body, which is gone by now.
            if code == codes.GET or (code == codes.FETCH and payload):
                return None
            return CoapResponse(codes.REQUEST_ENTITY_INCOMPLETE)
        answer = self._slice(held.content.response, block, options)
        is_last = block.offset + block.size_bytes >= len(held.content.response.payload)
        if is_last and code == codes.GET:
            self.bodies.drop(held)
        else:
            self.bodies.touch(held, now)
        return answer

    def cut(
        self,
        peer: CoapPeer,
        code: int,
        options: tuple[Option, ...],
        payload: bytes,
        response: CoapResponse,
        now: float,
    ) -> CoapResponse:
        """Return the part of a response that was asked for; all of it if it fits into one block.

        Args:
            peer: who is answered.
            code: the method of the request.
            options: of the request, as they came: its Block2 says which block and of what size.
            payload: the request's body.
            response: all of the response.
            now: in seconds.

        Returns:
            The response with the block as payload, Block2, Size2 (in the first block, and where
            asked for) and for 2.05 an ETag, if the resource gave none. 4.00 where the body ends
            before the block begins; 5.00 for a body longer than `BodyLimits.body_bytes`.

        """
        value = value_of(options, option_numbers.BLOCK2)
        size_bytes = len(response.payload)
        if value is None and size_bytes <= self.block_bytes:
            if self.bodies.by_key:
                self._replace(peer, code, options, response)
            return response
        if size_bytes > self._limits.body_bytes:
            return CoapResponse(codes.INTERNAL_SERVER_ERROR)
        block = Block(0, False, self._limits.size_exponent)
        if value is not None:
            try:
                block = self._asked(value)
            except BadBlockError as error:
                return CoapResponse(error.code)
        if not codes.is_success(response.code):
            # An error in place of a later block is a body of its own, and most often short.
            block = Block(0, False, block.size_exponent)
            if size_bytes <= block.size_bytes:
                return response
        elif not response.payload:
            return response
        if size_bytes <= block.size_bytes:
            self._replace(peer, code, options, response)
        else:
            response = self._with_etag(response)
            if block.offset + block.size_bytes < size_bytes:
                self._keep(peer, body_key(peer, code, options), payload, response, now)
        return self._slice(response, block, options)

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what is kept for a peer: its session is gone."""
        self.bodies.forget_peer(peer)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None while there is nothing to wait for."""
        return self.bodies.next_timer()

    def handle_timer(self, now: float) -> None:
        """Forget bodies that nobody asked for since."""
        self.bodies.handle_timer(now)

    def _asked(self, value: bytes) -> Block:
        """Return the block asked for; if it is larger than ours, the one of our size at its
        place."""
        block = Block.decode(value)
        smaller = block.size_exponent - self._limits.size_exponent
        if smaller <= 0:
            return block
        return Block(block.number << smaller, False, self._limits.size_exponent)

    def _slice(
        self, response: CoapResponse, asked: Block, request_options: tuple[Option, ...]
    ) -> CoapResponse:
        body = response.payload
        begin, end = asked.offset, asked.offset + asked.size_bytes
        if begin >= len(body) and begin > 0:
            return CoapResponse(codes.BAD_REQUEST)
        block = Block(asked.number, end < len(body), asked.size_exponent)
        added = [(option_numbers.BLOCK2, block.encode())]
        is_asked_for = value_of(request_options, option_numbers.SIZE2) is not None
        if is_asked_for or (begin == 0 and block.more):
            added.append((option_numbers.SIZE2, encode_uint(len(body))))
        return CoapResponse(response.code, with_options(response.options, *added), body[begin:end])

    def _with_etag(self, response: CoapResponse) -> CoapResponse:
        if response.code != codes.CONTENT:
            return response
        if value_of(response.options, option_numbers.ETAG) is not None:
            return response
        body, tag = self._tagged
        if body is not response.payload:
            body, tag = self._tagged = (response.payload, _tag(response.payload))
        etag = (option_numbers.ETAG, tag)
        return CoapResponse(response.code, with_options(response.options, etag), body)

    def _replace(
        self, peer: CoapPeer, code: int, options: tuple[Option, ...], response: CoapResponse
    ) -> None:
        """Keep nothing of what a response takes the place of that fits into one block."""
        if codes.is_success(response.code):
            before = self.bodies.get(body_key(peer, code, options))
            if before is not None:
                self.bodies.drop(before)

    def _keep(
        self, peer: CoapPeer, key: BodyKey, payload: bytes, response: CoapResponse, now: float
    ) -> None:
        # Where there is no room the resource is asked again for each block.
        kept = _Kept(response, _tag(payload))
        self.bodies.add(peer, key, kept, len(response.payload), now, is_owed=False)


def _tag(body: bytes) -> bytes:
    if not body:
        return _NO_TAG
    return hashlib.blake2b(body, digest_size=_TAG_BYTES).digest()
