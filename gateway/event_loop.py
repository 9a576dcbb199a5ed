"""Which event loop a process runs on: uvloop's where that is installed, else asyncio's own.

uvloop is faster where messages come singly, and nothing depends on it: there is no build of it
for every machine that a gateway runs on.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

CHOICE_VARIABLE = "HEDGEROW_EVENT_LOOP"
"""The environment variable that asks for one: ``asyncio`` or ``uvloop``."""

T = TypeVar("T")


class EventLoopError(RuntimeError):
    """The loop that was asked for is not there; the message names it."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, as `asyncio.run` does.

    Raises:
        EventLoopError: the environment asks for a loop that is unknown or not installed.

    """
    try:
        factory = loop_factory(os.environ.get(CHOICE_VARIABLE, ""))
    except EventLoopError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def loop_factory(choice: str = "") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop, None for asyncio's own way; an empty choice takes the fastest.

    Raises:
        EventLoopError: the choice is unknown or not installed.

    """
    if choice not in {"", "asyncio", "uvloop"}:
        raise EventLoopError(f"{CHOICE_VARIABLE}: {choice!r} is neither asyncio nor uvloop")
    if choice == "asyncio":
        return None
    if importlib.util.find_spec("uvloop") is None:
        if choice:
            raise EventLoopError(f"{CHOICE_VARIABLE}: uvloop is not installed: pip install uvloop")
        return None
    import uvloop  # noqa: PLC0415  # not on every machine

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def running() -> str:
    """The name of the loop that runs here: ``asyncio`` or ``uvloop``."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]
