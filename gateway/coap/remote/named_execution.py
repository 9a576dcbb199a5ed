"""Carries a write out once that its client names, whoever waits for what comes of it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.remote.noted_names import NotedNames
from tree_handler.remote.request_ids import CarryOut, Join, NamedWrites, NameKey
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

_INTERNAL_SERVER_ERROR: Final = 0xA0
_SERVICE_UNAVAILABLE: Final = 0xA3

_log = logging.getLogger(__name__)

OnNamedAnswer = Callable[[ResourceResponse, bool], None]
"""Takes a response, and whether others may follow."""


class NamedExecution:
    """The shell around `NamedWrites`. What was begun is carried out though its asker is gone: that
    one may ask again.

    Args:
        noted: where names are noted for a later life; None where there is none.

    """

    def __init__(self, noted: NotedNames | None = None) -> None:
        self._noted = noted
        earlier = () if noted is None else noted.earlier
        self._named = NamedWrites(asyncio.get_running_loop().time(), earlier)
        self._waiting: dict[NameKey, list[OnNamedAnswer]] = {}
        self._failures = Failures(CountedLines(_log, time.monotonic))

    def begin(
        self,
        request: ResourceRequest,
        via: str,
        tell: OnNamedAnswer,
        carry_out: Callable[[ResourceRequest, OnNamedAnswer], object],
    ) -> Callable[[], None] | None:
        """Execute a request that has a name.

        Args:
            request: of somebody who may do it.
            via: the gateway that vouches for who that is; empty for this one.
            tell: takes what comes of it, perhaps before this returns.
            carry_out: executes it.

        Returns:
            What ends the waiting for it; None for a request without a name, which is not begun.

        """
        now = asyncio.get_running_loop().time()
        found = self._named.begin(request, via, now)
        match found:
            case None:
                return None
            case ResourceResponse():
                tell(found, False)
                return _nothing
            case Join(key):
                self._waiting[key].append(tell)
            case CarryOut(key, note):
                self._waiting[key] = [tell]

                def told(response: ResourceResponse, _goes_on: bool) -> None:
                    self._named.answered(key, response, asyncio.get_running_loop().time())
                    for one in self._waiting.pop(key):
                        step = partial(one, response, False)
                        self._failures.tried("tell of a named write", step, request.identity or "")

                def begin(failure: str) -> None:
                    if failure:
                        why = f"its name can't be noted, so nothing was done: {failure}"
                        told(ResourceResponse(_SERVICE_UNAVAILABLE, why.encode()), False)
                    else:
                        try:
                            carry_out(request, told)
                        except Exception as error:  # else its name would be under way for ever
                            self._failures.failed("carry out a named write", error)
                            if key in self._waiting:
                                told(ResourceResponse(_INTERNAL_SERVER_ERROR), False)

                if self._noted is None:
                    begin("")
                else:
                    self._noted.note(note, self._named.notes, begin)
        return lambda: self._leave(key, tell)

    async def stop(self) -> None:
        """Wait for what is being noted."""
        if self._noted is not None:
            await self._noted.stop()

    def _leave(self, key: NameKey, tell: OnNamedAnswer) -> None:
        waiting = self._waiting.get(key, [])
        if tell in waiting:
            waiting.remove(tell)


def _nothing() -> None:
    """There is nothing to end."""
