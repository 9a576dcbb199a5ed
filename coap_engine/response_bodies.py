"""Bodies of responses that go out in blocks (RFC 7959, section 2.4)."""

from __future__ import annotations

from coap_engine.blocks import DEFAULT_LIMITS, BodyLimits
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.shares import Shares


class ResponseBodies:
    """Cuts bodies of responses into blocks and serves the blocks after the first.

    The engine asks `following` with each whole request, and sends what it gives instead of handing
    the request out as `Asked`. What is responded to an `Asked` goes through `cut`, notifications
    too, with the options of the request as they came. A body that is not kept, for want of room or
    because ``keep`` is False, costs another `Asked` for each further block of a GET; its ETag
    tells the client whether the blocks are of one body.

    Args:
        shares: bytes kept are taken from ``shares.held_bytes``.
        limits: see `BodyLimits`.

    """

    def __init__(self, shares: Shares, limits: BodyLimits = DEFAULT_LIMITS) -> None:
        self._shares = shares
        self._limits = limits

    @property
    def kept(self) -> int:
        """How many bodies are kept."""
        raise NotImplementedError

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
        raise NotImplementedError

    def cut(
        self,
        peer: CoapPeer,
        code: int,
        options: tuple[Option, ...],
        payload: bytes,
        response: CoapResponse,
        now: float,
        *,
        keep: bool = True,
    ) -> CoapResponse:
        """The part of a response that was asked for; all of it if it fits into one block.

        Args:
            peer: who is answered.
            code: the method of the request.
            options: of the request, as they came: its Block2 says which block and of what size.
            payload: the request's body.
            response: all of the response.
            now: in seconds.
            keep: keep the body for requests for further blocks, if there is room.

        Returns:
            The response with the block as payload, Block2, Size2 (in the first block, and where
            asked for) and for 2.05 an ETag, if the resource gave none. 4.00 where the body ends
            before the block begins; 5.00 for a body longer than `BodyLimits.body_bytes`.

        """
        raise NotImplementedError

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what is kept for a peer: its session is gone."""
        raise NotImplementedError

    def next_timer(self) -> float | None:
        """When `handle_timer` is due; None while there is nothing to wait for."""
        raise NotImplementedError

    def handle_timer(self, now: float) -> None:
        """Forget bodies that nobody asked for since."""
        raise NotImplementedError
