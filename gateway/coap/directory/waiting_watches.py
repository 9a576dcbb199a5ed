"""Watches of look-ups whose first answer is not worked out yet, so that no change is missed."""

from __future__ import annotations

from collections.abc import Iterable

from coap_engine.message import CoapRequest


class WaitingWatch:
    """One of them.

    Attributes:
        watch: its number.
        is_stale: there was a change since the look-up began, which its answer may not have.

    """

    __slots__ = ("is_stale", "request", "watch")

    def __init__(self, request: CoapRequest, watch: int) -> None:
        self.request = request  # kept, so that no other gets its id
        self.watch = watch
        self.is_stale = False


class WaitingWatches:
    """By the request, of which there may be equal ones, and by the watch."""

    def __init__(self) -> None:
        self._by_request: dict[int, WaitingWatch] = {}
        self._by_watch: dict[int, WaitingWatch] = {}

    def add(self, request: CoapRequest, watch: int) -> None:
        """Put in a watch that waits for the answer to a request."""
        waiting = WaitingWatch(request, watch)
        self._by_request[id(request)] = self._by_watch[watch] = waiting

    def note(self, changed: Iterable[int]) -> None:
        """Take note of which watches may have changed, some of which may wait."""
        for watch in changed if self._by_watch else ():
            waiting = self._by_watch.get(watch)
            if waiting is not None:
                waiting.is_stale = True

    def take(self, request: CoapRequest) -> WaitingWatch | None:
        """Take out the watch that waits for the answer to a request, if there is one."""
        waiting = self._by_request.pop(id(request), None)
        if waiting is not None:
            del self._by_watch[waiting.watch]
        return waiting
