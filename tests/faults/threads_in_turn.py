"""Threads of which one runs at a time, the event loop's included: calls in them may take long.

A call that takes long lets time pass. In a thread all others go on meanwhile, and so does the event
loop; on the event loop nothing does. The order of all calls is the same each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from virtual_loop import VirtualLoop

_new_lock = threading.Lock
LOOK_S = 0.05
"""A thread that waits for another looks so often."""


EARLY_S = 1e-6
"""A timer of the event loop may ring so much too early."""


class KilledError(BaseException):
    """The process is dead: its threads do nothing any more."""


class _Worker(threading.Thread):
    """One call in a thread.

    Attributes:
        process: of which it is a thread.
        due_s: when it goes on.
        is_over: it has returned or raised.

    """

    def __init__(self, work: Callable[[], Any], loop: VirtualLoop) -> None:
        super().__init__(daemon=True)
        self.process = loop.process()
        self._work = work
        self._loop = loop
        self._own_turn, self._turn_of_others = threading.Semaphore(0), threading.Semaphore(0)
        self._future: asyncio.Future[Any] = loop.create_future()
        self._value: Any = None
        self._error: BaseException | None = None
        self.due_s = 0.0
        self.is_over = self.is_dead = False

    def begin(self) -> asyncio.Future[Any]:
        self.start()
        self.go_on()
        return self._future

    def run(self) -> None:
        self._own_turn.acquire()
        try:
            self._value = self._work()
        except BaseException as error:  # it is raised where it is waited for
            self._error = error
        self.is_over = True
        self._turn_of_others.release()

    def go_on(self) -> None:
        """Let it run until it waits or ends; called on the event loop."""
        if self.is_over or self._loop.time() < self.due_s - EARLY_S:
            return
        self._own_turn.release()
        self._turn_of_others.acquire()
        if not self.is_over:
            self._loop.call_at(self.due_s, self.go_on)
        elif not self._future.done() and not self.is_dead:
            if self._error is not None:
                self._future.set_exception(self._error)
            else:
                self._future.set_result(self._value)

    def wait(self, seconds: float) -> None:
        """Let others go on for so long; called in the thread."""
        self.due_s = self._loop.time() + seconds
        self._turn_of_others.release()
        self._own_turn.acquire()
        self.look()

    def look(self) -> None:
        if self.is_dead:
            raise KilledError

    def kill(self) -> None:
        self.is_dead, self.due_s = True, 0.0
        self.go_on()


class ThreadsInTurn:
    """Those of all gateways of one life.

    Args:
        loop: where time passes.
        is_needed: whether a call in a thread that begins may take long.

    """

    def __init__(self, loop: VirtualLoop, is_needed: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_needed = is_needed
        self._workers: list[_Worker] = []
        self._is_in_none = False
        self.held_up_s = 0.0
        """For so long the event loop waited for a thread."""

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """In place of `asyncio.to_thread`; what takes no time beside nothing needs no thread."""
        self._workers = [worker for worker in self._workers if not worker.is_over]
        if not self._workers and not self._is_needed():
            self._is_in_none = True
            try:
                return work(*arguments)
            finally:
                self._is_in_none = False
        worker = _Worker(lambda: work(*arguments), self._loop)
        self._workers.append(worker)
        return await worker.begin()

    def wait(self, seconds: float) -> None:
        """Take so long, in whichever thread this is called."""
        assert not self._is_in_none, "what takes long here was to have a thread"
        worker = threading.current_thread()
        if isinstance(worker, _Worker):
            worker.wait(seconds)
        else:
            self._loop.pass_s(seconds)

    def look(self) -> None:
        """Go no further in a thread of a process that was killed."""
        worker = threading.current_thread()
        if isinstance(worker, _Worker):
            worker.look()

    def let_others_go_on(self) -> None:
        """Wait for what another thread holds."""
        if isinstance(threading.current_thread(), _Worker):
            self.wait(LOOK_S)
            return
        next_one = min((w for w in self._workers if not w.is_over), key=lambda w: w.due_s)
        left_s = max(0.0, next_one.due_s - self._loop.time())
        self.held_up_s += left_s
        self._loop.pass_s(left_s)
        next_one.go_on()

    @contextlib.contextmanager
    def locks(self) -> Iterator[None]:
        """Have locks that are made meanwhile be waited for in turn, too."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading, "Lock", lambda: LockInTurn(self))
            yield

    def kill(self, process: object) -> None:
        """End all of a process in the midst of what they do."""
        for worker in self._workers:
            if worker.process is process:
                worker.kill()
        self._workers = [worker for worker in self._workers if not worker.is_over]


class LockInTurn:
    """A lock for which time passes while it is waited for."""

    def __init__(self, threads: ThreadsInTurn) -> None:
        self._threads = threads
        self._lock = _new_lock()

    def __enter__(self) -> None:
        while not self._lock.acquire(blocking=False):
            self._threads.let_others_go_on()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
