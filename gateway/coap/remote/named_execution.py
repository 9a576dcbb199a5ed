"""Carries a write out once that its client names, whoever waits for what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tree_handler.remote.request_ids import CarryOut, Join, NamedWrites, NameKey
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

Tell = Callable[[ResourceResponse, bool], None]
"""Takes a response, and whether others may follow."""


class NamedExecution:
    """The shell around `NamedWrites`. What was begun is carried out though its asker is gone: that
    one may ask again."""

    def __init__(self) -> None:
        self._named = NamedWrites(asyncio.get_running_loop().time())
        self._waiting: dict[NameKey, list[Tell]] = {}

    def begin(
        self,
        request: ResourceRequest,
        via: str,
        tell: Tell,
        carry_out: Callable[[ResourceRequest, Tell], object],
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
            case CarryOut(key):
                self._waiting[key] = [tell]

                def told(response: ResourceResponse, _goes_on: bool) -> None:
                    self._named.answered(key, response, asyncio.get_running_loop().time())
                    for one in self._waiting.pop(key):
                        one(response, False)

                carry_out(request, told)
        return lambda: self._leave(key, tell)

    def _leave(self, key: NameKey, tell: Tell) -> None:
        waiting = self._waiting.get(key, [])
        if tell in waiting:
            waiting.remove(tell)


def _nothing() -> None:
    """There is nothing to end."""
