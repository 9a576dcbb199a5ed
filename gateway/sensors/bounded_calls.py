"""Calls what may run a driver's own code, which may wait or hang, for a bounded time.

A module that is imported and a constructor are a developer's own code, as `read` is. Where what
they make is to stay, they can't have a process of their own. So they have threads, few of them, and
one that hangs is left alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from gateway.base.printable import said

LIMIT_S: Final = 10.0
"""As long as a gateway waits for a driver."""
MOST: Final = 4
"""Calls that may be under way, or hang."""

T = TypeVar("T")


class CallHangsError(Exception):
    """A call does not come back in time, or too many others do not; the message says which."""


class BoundedCalls:
    """Calls, a few at a time.

    Args:
        limit_s: in which each has to come back.
        most: that may be under way, or hang.

    """

    def __init__(self, limit_s: float = LIMIT_S, most: int = MOST) -> None:
        self._limit_s = limit_s
        self._room = threading.Semaphore(most)

    def come_of(self, work: Callable[[], T]) -> T:
        """Return what comes of a call in a thread of its own; waits for that.

        Args:
            work: is called; what it holds is lost if it comes back too late.

        Raises:
            CallHangsError: it does not come back in time, or too many others have not.
            Exception: what ``work`` raises.

        """
        if not self._room.acquire(blocking=False):
            raise CallHangsError("other drivers are called, or hang: repeat this later")
        outcome: queue.SimpleQueue[tuple[T] | Exception] = queue.SimpleQueue()

        def call() -> None:
            try:
                outcome.put((work(),))
            except Exception as error:  # a driver is a developer's own code
                outcome.put(error)
            except BaseException as error:  # and may not end the process
                outcome.put(RuntimeError(said(error)))
            finally:
                self._room.release()

        threading.Thread(target=call, name="driver made", daemon=True).start()
        try:
            came = outcome.get(timeout=self._limit_s)
        except queue.Empty:
            why = f"the driver has not come back within {self._limit_s:g} s"
            raise CallHangsError(why) from None
        if isinstance(came, Exception):
            raise came
        return came[0]
