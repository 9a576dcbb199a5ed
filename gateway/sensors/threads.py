"""Threads for drivers that wait: few of them, and a driver that hangs keeps no more than its own.

A thread can't be ended from outside. So each sensor has one call under way at most, the threads
are bounded, and they are daemons: one that hangs keeps no process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from gateway.base.printable import said
from light_dataclasses import dataclass

MAX_THREADS: Final = 16
"""As many drivers may hang before all others have to wait for one of them."""


class DriverBusyError(Exception):
    """A driver has not come back from an earlier call."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for a thread or is under way.

    Attributes:
        over: done when it is.
        done: what comes of it, for who waits.
        ticket: runs from when a thread begins the call; one that is cancelled is not begun.

    """

    over: asyncio.Future[None]
    done: asyncio.Future[Any]
    ticket: Future[None]


class DriverThreads:
    """Calls drivers in threads.

    Args:
        most: threads at a time.

    """

    def __init__(self, most: int = MAX_THREADS) -> None:
        self._most = most
        self._threads = 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._busy: dict[object, _Call] = {}
        """The calls that are not over, by whose they are."""

    @property
    def busy(self) -> frozenset[object]:
        """Return the owners of calls that are under way, or wait for a thread."""
        return frozenset(self._busy)

    def over(self, who: object) -> asyncio.Future[None] | None:
        """Return what is done when the call of somebody is over; None if there is none."""
        call = self._busy.get(who)
        return None if call is None else call.over

    def withdraw(self, who: object) -> bool:
        """Let the call of somebody not begin any more; return False if it has begun, or is over."""
        call = self._busy.get(who)
        return call is not None and call.ticket.cancel()

    async def call(self, who: object, work: Callable[[], Any]) -> Any:
        """Call something and wait for what it returns; to give up waiting does not end the call.

        Args:
            who: has one call under way at most.
            work: is called in a thread.

        Raises:
            DriverBusyError: an earlier call of it is under way.
            Exception: what ``work`` raises.

        """
        if who in self._busy:
            raise DriverBusyError("an earlier call has not come back")
        if len(self._busy) >= self._threads < self._most:
            self._threads += 1
            threading.Thread(target=_serve, args=(self._calls,), name="driver", daemon=True).start()
        loop = asyncio.get_running_loop()
        call = self._busy[who] = _Call(loop.create_future(), loop.create_future(), Future())
        self._calls.put(partial(self._run, who, work, call, loop))
        try:
            return await call.done
        finally:
            call.ticket.cancel()  # what nobody waits for does not begin

    def close(self) -> None:
        """Let the threads end that are not in a call."""
        for _ in range(self._threads):
            self._calls.put(None)
        self._threads = 0

    def _run(
        self,
        who: object,
        work: Callable[[], Any],
        call: _Call,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        outcome, error = None, None
        if call.ticket.set_running_or_notify_cancel():
            try:
                outcome = work()
            except Exception as raised:  # a driver is a developer's own code: it may raise anything
                error = raised
            except BaseException as raised:  # and may not end the gateway
                error = RuntimeError(said(raised))
        if isinstance(error, StopIteration):  # no future takes it
            error = RuntimeError(said(error))
        with suppress(RuntimeError):  # the loop is closed: the gateway has stopped
            loop.call_soon_threadsafe(self._over, who, outcome, error)

    def _over(self, who: object, outcome: Any, error: Exception | None) -> None:
        call = self._busy.pop(who)
        call.over.set_result(None)
        if call.done.done():
            return
        if error is None:
            call.done.set_result(outcome)
        else:
            call.done.set_exception(error)


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
