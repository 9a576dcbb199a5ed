"""Responders: they answer at once, in the engine's own turn, without aiocoap or a task."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from coap_engine.message import CoapPeer, CoapRequest, CoapResponse

RespondTo = Callable[[int, CoapResponse, bool], None]
"""Takes an exchange, a response to it, and whether that is the last one."""


AskForBody = Callable[[CoapRequest, Callable[[CoapResponse | None], None]], None]
"""Asks the peer whose request is being answered; hands on its response, None if there is none."""
AskPeer = Callable[[CoapPeer, CoapRequest, Callable[[CoapResponse | None], None]], None]
"""Asks any peer likewise."""


class KeptResponse(CoapResponse):
    """A response that is right for a time, for all who may make the request that it answers.

    Args:
        response: what it says.
        until: that time, on the event loop's clock.

    """

    __slots__ = ("until",)

    def __init__(self, response: CoapResponse, until: float) -> None:
        super().__init__(response.code, response.options, response.payload)
        self.until = until

    def take_back(self) -> None:
        """Be right no more: what it says has changed."""
        self.until = -math.inf


class PendingResponse(Protocol):
    """An answer that takes some more turns of the event loop, and no task."""

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> Callable[[], None]:
        """Work it out.

        Args:
            done: takes it, in a later turn.
            ask: asks the peer that is to be answered.

        Returns:
            What ends it when nobody waits for it any more.

        """


class WithoutTurn:
    """A `PendingResponse` that changes nothing at the path it is asked by: it takes no turn of it.

    All registrants ask by one path, and each writes to a registration of its own. Taking turns
    there, one that never tells its links would keep all others waiting.
    """


class OwnTurn(WithoutTurn):
    """A `PendingResponse` to a write that waits for a turn of its responder's.

    Attributes:
        has_begun: something may be done; before that, who may no more is refused.

    """

    def __init__(self) -> None:
        self.has_begun = False


class ImmediateResponder(Protocol):
    """Something that can answer some requests within a fraction of a millisecond."""

    @property
    def segments(self) -> frozenset[bytes] | None:
        """First segments of the paths below which it may answer; None if it answers requests that
        have a Request-Id, whatever their path."""

    def answer(
        self, request: CoapRequest, peer: CoapPeer, now: float
    ) -> CoapResponse | PendingResponse | None:
        """Answer a request that its peer may make.

        Args:
            request: whole.
            peer: who asks.
            now: the event loop's time.

        Returns:
            The response, or what will have it; None if a resource has to be asked, which says what
            is wrong with the request, too. A `KeptResponse` is given again without asking while it
            is right.

        """

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        """Return whether the exchange of a request just answered is told of changes from now on.

        Args:
            exchange: to respond to.
            request: as in `answer`.
            respond: takes what there is to tell.

        """

    def ended(self, exchange: int) -> None:
        """An exchange, if it is one of these, is told nothing any more."""
