"""Event loop of a process: uvloop's where that is installed, else asyncio's own.

uvloop is faster where messages come singly, and nothing depends on it: there is no build of it
for every machine that a gateway runs on.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

CHOICE_VARIABLE = "HEDGEROW_EVENT_LOOP"
"""The environment variable that asks for one: ``asyncio`` or ``uvloop``."""

PATIENCE_S = 5.0
"""A task that is cancelled at the end has so long to end."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class EventLoopError(RuntimeError):
    """The loop that was asked for is not there; the message names it."""


def run(main: Coroutine[Any, Any, T], patience_s: float = PATIENCE_S) -> T:
    """Run a coroutine to its end, as `asyncio.run` does.

    `asyncio.run` waits for ever for a task that swallows its cancellation, as a driver of a sensor
    may that an operator wrote. Here such a task is named and left.

    Args:
        main: what is run.
        patience_s: how long the tasks that are left over at its end have to end, in seconds.

    Raises:
        EventLoopError: the environment asks for a loop that is unknown or not installed.

    """
    try:
        factory = loop_factory(os.environ.get(CHOICE_VARIABLE, ""))
    except EventLoopError:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            return runner.run(main)
        finally:
            runner.run(_end_others(patience_s))


async def _end_others(patience_s: float) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return
    for task in (await asyncio.wait(others, timeout=patience_s))[1]:
        _log.warning("task %s does not end when it is told to, and is left", task.get_name())
        # The loop's own end would wait for it again ("Extending asyncio", task lifetime support).
        asyncio._unregister_task(task)


def loop_factory(choice: str = "") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the loop, None for asyncio's own way; an empty choice takes the fastest.

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
    from gateway.base.punctual_loop import PunctualLoop  # noqa: PLC0415  # not on every machine

    return PunctualLoop


async def listen(
    accepted: Callable[[], asyncio.Protocol],
    host: str,
    port: int,
    *,
    backlog: int = 100,
    hops: int | None = None,
) -> asyncio.Server:
    """Listen on an address, as a loop's ``create_server`` does.

    The socket is made here. Given an address uvloop 0.23 has four threads look it up, which stay.
    And where another process begins to listen on the port between its bind and its listen, it
    raises nothing, and calls a server that listens nowhere one that serves.

    Args:
        accepted: makes what serves a connection.
        host: a numeric address of this machine.
        port: 0 takes a free one.
        backlog: connections that may wait to be accepted.
        hops: so far what is sent goes: with 1 through no router, so that only neighbours come to a
            connection; None for as far as the system has it.

    Raises:
        OSError: the address is in use or not this machine's.

    """
    loop = asyncio.get_running_loop()
    listening = _bound(host, port, hops)
    try:
        listening.listen(backlog)
        return await loop.create_server(accepted, sock=listening, backlog=backlog)
    except BaseException:
        listening.close()
        raise


def _bound(host: str, port: int, hops: int | None) -> socket.socket:
    """Make a socket as a loop's ``create_server`` does."""
    # Bytes: of a str Python asks whether it is an international name, and loads what that takes.
    found = socket.getaddrinfo(
        host.encode(),
        port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST,
    )
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if hops is not None and family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
        elif hops is not None:
            bound.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def running() -> str:
    """Return the name of the loop that runs here: ``asyncio`` or ``uvloop``."""
    kinds = type(asyncio.get_running_loop()).__mro__
    packages = (kind.__module__.partition(".")[0] for kind in kinds)
    return next(name for name in packages if name in {"asyncio", "uvloop"})
