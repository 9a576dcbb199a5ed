"""A body that is got in blocks, by a request of our own (RFC 7959, section 2.4)."""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import (
    DEFAULT_LIMITS,
    BadBlockError,
    Block,
    BodyLimits,
    with_options,
)
from coap_engine.errors import CoapError
from coap_engine.message import CoapPeer, CoapResponse, Option, value_of
from coap_engine.shares import Shares
from coap_engine.uint import decode_uint

_OF_BLOCKS: Final = frozenset((option_numbers.BLOCK2, option_numbers.SIZE2))


class FetchFailedError(CoapError):
    """The blocks of a response make no body: too long, of two bodies, or not those asked for."""


class BodyFetch:
    """Gets one response's body.

    The engine makes one for each request of its own, sends the request with `options`, and gives
    each response to `take`: either the request is then sent again (new token and message id, the
    payload only if it is a FETCH) with the options returned, or the response is whole. `close` when
    the request is over, however it ended.

    Args:
        peer: who is asked; what has come is taken from its part of ``shares.held_bytes``.
        options: of the request, without Block2.
        shares: see above.
        limits: `BodyLimits.body_bytes` bounds the body, `size_exponent` the blocks asked for.

    Attributes:
        options: of the first request: Block2 says the block size that is wished for.

    """

    def __init__(
        self,
        peer: CoapPeer,
        options: tuple[Option, ...],
        shares: Shares,
        limits: BodyLimits = DEFAULT_LIMITS,
    ) -> None:
        self._peer = peer
        self._share = shares.held_bytes
        self._limits = limits
        self._plain_options = options
        self._body = bytearray()
        self._etag: bytes | None = None
        self._taken_bytes = 0
        self.options = self._asking(Block(0, False, limits.size_exponent))

    def take(self, response: CoapResponse) -> CoapResponse | tuple[Option, ...]:
        """Take a response as it came.

        Returns:
            The options of the next request, or the whole response, without Block2 and Size2.

        Raises:
            FetchFailedError: see there. The request has failed.

        """
        value = value_of(response.options, option_numbers.BLOCK2)
        if not codes.is_success(response.code) or (value is None and not self._body):
            self._check_size(len(response.payload))
            return self._whole(response, response.payload)
        if value is None:
            raise FetchFailedError(f"no Block2 after {len(self._body)} bytes")
        try:
            block = Block.decode(value)
        except BadBlockError as error:
            raise FetchFailedError(str(error)) from error
        self._check_block(block, response)
        if not block.more:
            return self._whole(response, bytes(self._body) + response.payload)
        refusal = self._share.take(self._peer, len(response.payload))
        if refusal is not None:
            raise FetchFailedError(f"no room for more than {len(self._body)} bytes")
        self._taken_bytes += len(response.payload)
        self._body += response.payload
        size_exponent = min(block.size_exponent, self._limits.size_exponent)
        return self._asking(Block(len(self._body) >> (size_exponent + 4), False, size_exponent))

    def close(self) -> None:
        """Give back the bytes that were taken. Doing it twice does no harm."""
        self._share.give_back(self._peer, self._taken_bytes)
        self._taken_bytes = 0
        self._body = bytearray()

    def _check_block(self, block: Block, response: CoapResponse) -> None:
        size_bytes = len(response.payload)
        if block.offset != len(self._body):
            raise FetchFailedError(f"block at {block.offset} in place of {len(self._body)}")
        if size_bytes > block.size_bytes or (block.more and size_bytes < block.size_bytes):
            raise FetchFailedError(f"{size_bytes} bytes in a block of {block.size_bytes}")
        announced = value_of(response.options, option_numbers.SIZE2)
        self._check_size(decode_uint(announced) if announced is not None else 0)
        self._check_size(block.offset + size_bytes)
        etag = value_of(response.options, option_numbers.ETAG)
        if self._body and etag != self._etag:
            raise FetchFailedError("the resource changed while its blocks were fetched")
        self._etag = etag

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._limits.body_bytes:
            raise FetchFailedError(f"a body of {size_bytes} bytes")

    def _asking(self, block: Block) -> tuple[Option, ...]:
        return with_options(self._plain_options, (option_numbers.BLOCK2, block.encode()))

    def _whole(self, response: CoapResponse, body: bytes) -> CoapResponse:
        options = tuple([o for o in response.options if o[0] not in _OF_BLOCKS])
        return CoapResponse(response.code, options, body)
