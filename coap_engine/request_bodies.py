"""Bodies of requests that come in blocks (RFC 7959, section 2.5; RFC 9175, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from coap_engine.blocks import DEFAULT_LIMITS, BodyLimits
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.shares import Shares


@dataclass(frozen=True, slots=True)
class WholeBody:
    """The body of a request is whole.

    Attributes:
        payload: all of it.
        block1: what the final response says as Block1; None if the request had no such option.

    """

    payload: bytes
    block1: bytes | None


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
        self._shares = shares
        self._limits = limits

    @property
    def in_assembly(self) -> int:
        """How many bodies are not whole yet."""
        raise NotImplementedError

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
        raise NotImplementedError

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what a peer has sent: its session is gone."""
        raise NotImplementedError

    def next_timer(self) -> float | None:
        """When `handle_timer` is due; None while there is nothing to wait for."""
        raise NotImplementedError

    def handle_timer(self, now: float) -> None:
        """Forget bodies whose rest has not come."""
        raise NotImplementedError
