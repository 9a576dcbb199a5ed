"""Calls what may run a driver's own code, which may wait or hang, for a bounded time.

A module that is imported and a constructor are a developer's own code, as `read` is. So they have
threads of their own too, few of them, and one that hangs is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from gateway.sensors.threads import DriverThreads

LIMIT_S: Final = 10.0
"""As long as a gateway waits for a driver."""
MOST: Final = 4
"""Calls that may be under way, or hang."""

T = TypeVar("T")


class DriverHangsError(ValueError):
    """A driver does not come back in time, or too many others do not; the message says which."""


class BoundedCalls:
    """Calls, a few at a time.

    Args:
        limit_s: in which each has to come back.
        most: that may be under way, or hang.

    """

    def __init__(self, limit_s: float = LIMIT_S, most: int = MOST) -> None:
        self._limit_s = limit_s
        self._most = most
        self._threads = DriverThreads(most)

    async def come_of(self, work: Callable[[], T]) -> T:
        """Return what comes of a call in a thread.

        Args:
            work: is called; what it holds is lost if it comes back too late.

        Raises:
            DriverHangsError: it does not come back in time, or too many others have not.
            Exception: what ``work`` raises.

        """
        if len(self._threads.busy) >= self._most:
            raise DriverHangsError("other drivers are called, or hang: repeat this later")
        deadline = asyncio.timeout(self._limit_s)
        try:
            async with deadline:
                found: T = await self._threads.call(object(), work)
                return found
        except TimeoutError as error:
            if not deadline.expired():  # the driver's own
                raise
            why = f"the driver has not come back within {self._limit_s:g} s"
            raise DriverHangsError(why) from error

    def close(self) -> None:
        """Let the threads end that are not in a call."""
        self._threads.close()
