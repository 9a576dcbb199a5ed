"""Writes without a condition, which begin when nobody has their resource alone (`WriteTurns`).

What is at hand is written within one turn of the event loop, and needs no turn of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coap_engine.message import CoapRequest, CoapResponse
from gateway.coap.at_hand import Ask, Later
from gateway.coap.conditional import resource_of
from gateway.coap.rendering import Tell
from gateway.write_turns import WriteTurn, WriteTurns

End = Callable[[], None]


class WriteInTurn:
    """A write that is answered later: see `gateway.coap.at_hand.Later`.

    Args:
        later: carries it out.
        request: it.
        turns: of all who write.

    """

    def __init__(self, later: Later, request: CoapRequest, turns: WriteTurns) -> None:
        self._later = later
        self._request = request
        self._turns = turns

    def begin(self, done: Callable[[CoapResponse], None], ask: Ask) -> End:
        """Begin the write when its turn has come; returns what ends it, or its waiting."""

        def write(leave: End) -> End:
            def told(response: CoapResponse) -> None:
                leave()
                done(response)

            return self._later.begin(told, ask)

        return _begin(write, self._request, self._turns)


def rendered_in_turn(
    begin: Callable[[Tell], End], tell: Tell, request: CoapRequest, turns: WriteTurns
) -> End:
    """Have a write rendered when its turn has come; returns what ends it, or its waiting.

    Args:
        begin: has it rendered, and tells of each answer and whether it is the last.
        tell: is told of them.
        request: the write.
        turns: of all who write.

    """

    def write(leave: End) -> End:
        def told(answer: Any, is_last: bool) -> None:
            if is_last:
                leave()
            tell(answer, is_last)

        return begin(told)

    return _begin(write, request, turns)


def _begin(write: Callable[[End], End], request: CoapRequest, turns: WriteTurns) -> End:
    ends: list[End] = []

    def leave() -> None:
        turns.leave(turn)

    def end() -> None:
        for one in ends:
            one()
        leave()

    turn = WriteTurn(resource_of(request), lambda: ends.append(write(leave)))
    turns.enter(turn)
    return end
