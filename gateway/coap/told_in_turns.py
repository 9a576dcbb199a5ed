"""Observers who are told of a change, some in each turn of the event loop: they may be many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final

from coap_engine.message import CoapResponse
from gateway.base.in_turns import SHORT_PAUSE_S
from gateway.coap.responders import RespondTo

TOLD_AT_ONCE: Final = 64
"""So many are told in one turn: some milliseconds on a Pi."""


class ToldInTurns:
    """Tells observers, in the order in which they were to be told.

    Who waits still is told only the newest, in its place.

    Args:
        failed: takes what goes wrong at one of them; the others are told all the same.

    """

    def __init__(self, failed: Callable[[Exception, int], None]) -> None:
        self._failed = failed
        self._waiting: dict[int, tuple[RespondTo, CoapResponse, bool]] = {}
        self._is_called = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def add(
        self, exchange: int, respond: RespondTo, response: CoapResponse, *, is_last: bool
    ) -> None:
        """Tell one more, with the next `go_on`."""
        self._waiting[exchange] = respond, response, is_last

    def forget(self, exchange: int) -> None:
        """Tell one nothing that it was not told yet."""
        self._waiting.pop(exchange, None)

    def go_on(self) -> None:
        """Tell some now, and the others in turns that follow."""
        if not self._is_called:
            self._tell()

    def _tell(self) -> None:
        self._is_called = False
        for exchange in list(islice(self._waiting, TOLD_AT_ONCE)):
            waiting = self._waiting.pop(exchange, None)
            if waiting is None:  # telling another one has ended it
                continue
            respond, response, is_last = waiting
            try:
                respond(exchange, response, is_last)
            except Exception as error:  # nobody foresaw it
                self._failed(error, exchange)
        if self._waiting:
            self._is_called = True
            asyncio.get_running_loop().call_later(SHORT_PAUSE_S, self._tell)
