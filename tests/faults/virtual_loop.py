"""An event loop whose clock jumps to the next timer when nothing else is left to do."""

from __future__ import annotations

import asyncio
import contextvars
import math
import selectors
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_PROCESS: contextvars.ContextVar[object] = contextvars.ContextVar("process", default=None)


_NO_DESCRIPTOR = "socket.accept() out of system resource"
"""The message of asyncio where it tries again by itself."""


class StuckError(Exception):
    """All wait, and nothing is left that could wake one of them."""


class _Instant(selectors.DefaultSelector):
    """Waits for no time: it says how long that would have been.

    Attributes:
        passed_s: how long all waits were.
        silent_until_s: descriptors of which nothing is heard before some time, by (descriptor,
            event).

    """

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0
        self.silent_until_s: dict[tuple[int, int], float] = {}

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if self.silent_until_s:
            ready, timeout = self._heard(ready, timeout)
        if not ready:
            if timeout is None:
                raise StuckError
            if (
                timeout > 0
            ):  # never a rounding short of it: who finds it is not due would ask for ever
                self.passed_s = math.nextafter(self.passed_s + timeout, math.inf)
        return ready

    def _heard(self, ready: Any, timeout: float | None) -> Any:
        """Return what may be heard of what is ready, and how long to wait at most."""
        silent = self.silent_until_s
        for what in [what for what, until_s in silent.items() if until_s <= self.passed_s]:
            del silent[what]
        heard = []
        for key, events in ready:
            for event in (selectors.EVENT_READ, selectors.EVENT_WRITE):
                if (key.fd, event) in silent:
                    events &= ~event  # noqa: PLW2901  # what is left of them
            if events:
                heard.append((key, events))
        if silent:
            next_s = min(silent.values()) - self.passed_s
            timeout = next_s if timeout is None else min(timeout, next_s)
        return heard, timeout


class VirtualLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in their order; a second of waiting takes no time.

    It runs several processes, each of which may be killed: tasks, timers and callbacks are of the
    process that made them.

    Attributes:
        unforeseen: what callbacks and tasks raised that nobody dealt with. An event loop only logs
            that, and a life would go on without what it should have done.

    """

    def __init__(self) -> None:
        self._instant = _Instant()
        super().__init__(self._instant)
        self.unforeseen: list[BaseException] = []
        self._interrupted: BaseException | None = None
        self.set_exception_handler(self._take_note)
        self._process_of: weakref.WeakKeyDictionary[asyncio.Task[Any], object]
        self._process_of = weakref.WeakKeyDictionary()
        self._dead: list[object] = []
        self.set_task_factory(self._make_task)

    @property
    def _clock_resolution(self) -> float:
        """Nothing is called before its time; asyncio calls what is due within a nanosecond.

        Who finds that it is not due yet would be called for ever, for this clock stands meanwhile.
        """
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, measured: float) -> None:
        """Ignore the resolution of the machine's clock, which is not asked here."""

    def run_until_complete(self, future: Any) -> Any:
        """Run, and raise what was to end the test, wherever it came: a time limit, say."""
        try:
            return super().run_until_complete(future)
        finally:
            interrupted, self._interrupted = self._interrupted, None
            if interrupted is not None:
                raise interrupted

    def _take_note(self, _: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None or str(context["message"]).startswith(_NO_DESCRIPTOR):
            return
        if isinstance(error, Exception):
            self.unforeseen.append(error)
        else:  # an event loop takes it for a callback's own, and goes on
            self._interrupted = error
            self.stop()

    def time(self) -> float:
        """Return the seconds that were waited so far."""
        return self._instant.passed_s

    def pass_s(self, seconds: float) -> None:
        """Let time pass while nothing goes on: a call on this loop takes so long."""
        self._instant.passed_s += seconds

    def silence(self, descriptor: int, event: int, seconds: float) -> None:
        """Hear nothing of an event of a descriptor for so long."""
        self._instant.silent_until_s[descriptor, event] = self.time() + seconds

    def hear(self, descriptor: int | None = None) -> None:
        """Hear of a descriptor again, or of all."""
        silent = self._instant.silent_until_s
        for what in [what for what in silent if descriptor in (None, what[0])]:
            del silent[what]

    # -- processes -------------------------------------------------------------------------------

    def process(self) -> object:
        """Return which process runs; None for that of the test."""
        return _PROCESS.get()

    def begin_process(self, process: object) -> None:
        """Have a process run in this context."""
        _PROCESS.set(process)

    def is_killed(self) -> bool:
        """Return whether the process that runs was killed."""
        return self.process() in self._dead

    async def run_in(self, process: object, work: Coroutine[Any, Any, T]) -> T:
        """Do something in a process."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, process)
        return await context.run(self.create_task, work)

    def kill(self, process: object) -> None:
        """Let nothing of a process go on, nor begin."""
        self._dead.append(process)
        for handle in [*self._scheduled, *self._ready]:  # type: ignore[attr-defined]  # have no types
            # A task has to meet that it is cancelled.
            is_task = isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)
            if handle._context.get(_PROCESS) is process and not is_task:
                handle.cancel()
        for task in [task for task, of in self._process_of.items() if of is process]:
            task.cancel()

    def call_at(self, when: float, *what: Any, **options: Any) -> asyncio.TimerHandle:
        """Call back at some time, unless who asks for it is dead."""
        timer = super().call_at(when, *what, **options)
        if self.process() in self._dead:
            timer.cancel()
        return timer

    def _make_task(self, loop: Any, work: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, context=context)
        self._process_of[task] = _PROCESS.get() if context is None else context.get(_PROCESS)
        return task
