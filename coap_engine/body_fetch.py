"""A body that is got in blocks, by a request of our own (RFC 7959, section 2.4)."""

from __future__ import annotations

from coap_engine.blocks import DEFAULT_LIMITS, BodyLimits
from coap_engine.errors import CoapError
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.shares import Shares


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
        self.options = options

    def take(self, response: CoapResponse) -> CoapResponse | tuple[Option, ...]:
        """Take a response as it came.

        Returns:
            The options of the next request, or the whole response, without Block2 and Size2.

        Raises:
            FetchFailedError: see there. The request has failed.

        """
        raise NotImplementedError

    def close(self) -> None:
        """Give back the bytes that were taken. Doing it twice does no harm."""
        raise NotImplementedError
