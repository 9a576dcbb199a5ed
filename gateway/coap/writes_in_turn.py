"""Writes without a condition, which begin when nobody has their resource alone (`WriteTurns`).

What is at hand is written within one turn of the event loop, and needs no turn of these.

A write that has begun goes on though who asked has gone, as it may have been done already. So it
has its turn until it is over, else somebody could look at its resource in the midst of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from coap_engine.message import CoapRequest, CoapResponse
from gateway.base.write_turns import WriteTurn, WriteTurns
from gateway.coap.conditional import resource_of
from gateway.coap.rendering import OnRendered
from gateway.coap.responders import AskForBody, PendingResponse

EndOfTurn = Callable[[], None]
RefusalByNow = Callable[[], CoapResponse | None]
"""Returns what is told to who may not make a write any more when its turn has come."""


class BeginRendering(Protocol):
    """A call that begins to answer a write, as `gateway.coap.rendering.Renderings.begin` does."""

    def __call__(self, tell: OnRendered, over: EndOfTurn) -> object:
        """Have a request answered."""


class WriteInTurn:
    """A write that is answered later: see `gateway.coap.responders.PendingResponse`.

    Args:
        later: carries it out, and tells what comes of it though nobody may wait for that.
        request: it.
        turns: of all who write.
        refusal_by_now: asked when its turn has come.

    """

    def __init__(
        self,
        later: PendingResponse,
        request: CoapRequest,
        turns: WriteTurns,
        refusal_by_now: RefusalByNow,
    ) -> None:
        self._refusal_by_now = refusal_by_now
        self._later = later
        self._request = request
        self._turns = turns
        self._turn: TurnOfWrite | None = None

    @property
    def has_begun(self) -> bool:
        """Return whether the write may have been carried out, in part at least."""
        return self._turn is not None and self._turn.has_begun

    def begin(self, done: Callable[[CoapResponse], None], ask: AskForBody) -> EndOfTurn:
        """Begin the write when its turn has come; returns what ends the waiting for it."""

        def write(turn: TurnOfWrite) -> None:
            def told(response: CoapResponse) -> None:
                turn.leave()
                if turn.is_wanted:
                    done(response)

            refusal = self._refusal_by_now()
            if refusal is None:
                self._later.begin(told, ask)
            else:
                told(refusal)

        self._turn = turn = TurnOfWrite(write, self._request, self._turns)
        turn.enter()
        return turn.end


def rendered_in_turn(
    begin: BeginRendering, tell: OnRendered, request: CoapRequest, turns: WriteTurns
) -> TurnOfWrite:
    """Have a write rendered when its turn has come; returns that.

    Args:
        begin: has it rendered.
        tell: is told of them.
        request: the write.
        turns: of all who write.

    """

    def write(turn: TurnOfWrite) -> None:
        def told(answer: Any, is_last: bool) -> None:
            if turn.is_wanted:
                tell(answer, is_last)

        begin(told, turn.leave)

    turn = TurnOfWrite(write, request, turns)
    turn.enter()
    return turn


class TurnOfWrite:
    """The turn of one write.

    Args:
        write: begins it; it has its turn until it leaves it.
        request: the write.
        turns: of all who write.

    Attributes:
        is_wanted: somebody waits for what comes of it.
        has_begun: something may be done already.

    """

    def __init__(
        self, write: Callable[[TurnOfWrite], None], request: CoapRequest, turns: WriteTurns
    ) -> None:
        self.is_wanted = True
        self._write: Callable[[TurnOfWrite], None] | None = write
        self._turns = turns
        self.has_begun = False
        self._turn = WriteTurn(resource_of(request), self._begin)

    def enter(self) -> None:
        """Begin the write now, or when its turn has come."""
        self._turns.enter(self._turn)

    def leave(self) -> None:
        """The write is over."""
        self._turns.leave(self._turn)

    def _begin(self) -> None:
        self.has_begun = True
        write, self._write = self._write, None  # it holds who holds this turn
        if write is not None:
            write(self)

    def end(self) -> None:
        """End the waiting for it: what has not begun never will."""
        self.is_wanted = False
        if not self.has_begun:
            self._write = None
            self.leave()
