"""`hedgerow top` looks at gateways: once, as documents, or on the terminal until a key ends it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

from gateway.tools.commands import asking
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.log_lines import LogSource, find_source
from gateway.tools.commands.output import WAITING, going_on
from gateway.tools.commands.top_answers import LogEnd, TopAsker
from gateway.tools.top import top_json
from gateway.tools.top.fleet_sample import FleetHistory
from gateway.tools.top.frame import FrameSize, FrameTime, drawn
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.live import AskGateways, LiveTop, NotToldError, take
from gateway.tools.top.sample import LOG_LINES_MAX
from gateway.tools.top.top_view import FLEET, OF_FLEET, TopView

_INTERVAL_S: Final = 2.0
_OF_FLEET_S: Final = 5.0
_ONCE_S: Final = 1.0


def run(options: argparse.Namespace) -> int:
    """Look; return the exit code."""
    if not options.once and not options.json and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUseError("top: this is no terminal: --once, or --json for scripts")
    asking.find_way(options)
    asking.run(_look(options), options)
    return 0


async def _look(options: argparse.Namespace) -> None:
    history: GatewayHistory | FleetHistory = FleetHistory() if options.fleet else GatewayHistory()
    async with _log_of(options) as log, TopAsker(options, log) as gateway:
        ask: AskGateways = gateway.fleet if options.fleet else gateway.ask
        if options.once:
            await _twice(ask, history, options.interval or _ONCE_S)
            _print(history, options)
        elif options.json:
            await _again_and_again(ask, history, options)
        else:
            await _live(ask, history, options)


async def _twice(ask: AskGateways, history: GatewayHistory | FleetHistory, apart_s: float) -> None:
    for wait_s in (apart_s, 0.0):
        try:
            take(history, await ask())
        except NotToldError as error:
            raise FailedError(str(error)) from error
        if history.failure:
            raise FailedError(history.failure)
        await asyncio.sleep(wait_s)


async def _again_and_again(
    ask: AskGateways, history: GatewayHistory | FleetHistory, options: argparse.Namespace
) -> None:
    while True:
        try:
            take(history, await ask())
        except NotToldError as error:
            history.missed(str(error), time.monotonic())
        sys.stdout.write(json.dumps(_as_json(history)) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(_interval_s(options))


async def _live(
    ask: AskGateways, history: GatewayHistory | FleetHistory, options: argparse.Namespace
) -> None:
    from gateway.tools.top import terminal  # noqa: PLC0415  # what is printed needs no curses

    try:  # what is wrong at once is told in a line, and not on a screen that is gone then
        with going_on(WAITING):
            take(history, await ask())
    except NotToldError as error:
        raise FailedError(str(error)) from error
    view = TopView(interval_s=_interval_s(options))
    if options.fleet:
        view = TopView(OF_FLEET, FLEET, interval_s=view.interval_s)
    try:
        with terminal.opened() as screen:
            await LiveTop(ask, history, view, screen).run(sys.stdin.fileno())
    except terminal.TerminalError as error:
        raise FailedError(f"{error}: --once needs no terminal") from error


def _print(history: GatewayHistory | FleetHistory, options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(json.dumps(_as_json(history), indent=1) + "\n")
        return
    size = shutil.get_terminal_size((80, 40))
    at = FrameTime(time.monotonic(), time.time())
    view = TopView(OF_FLEET, FLEET) if options.fleet else TopView()
    frame = drawn(history, view, FrameSize(size.columns, size.lines), at, has_keys=False)
    sys.stdout.write(frame.as_text().rstrip() + "\n")


def _as_json(history: GatewayHistory | FleetHistory) -> dict[str, Any]:
    if isinstance(history, FleetHistory):
        return top_json.of_fleet(history)
    return top_json.of_gateway(history)


def _interval_s(options: argparse.Namespace) -> float:
    given: float | None = options.interval
    return given or (_OF_FLEET_S if options.fleet else _INTERVAL_S)


@contextlib.asynccontextmanager
async def _log_of(options: argparse.Namespace) -> AsyncIterator[LogEnd | None]:
    """Yield the end of the log of a gateway of this machine."""
    if options.fleet or options.gateway is not None or options.way:
        yield None
        return
    try:
        source = find_source(options.config, None)
    except (FailedError, WrongUseError) as error:
        why = str(error)
        yield LogEnd(tuple, lambda: why)
        return
    async with _followed(source) as log:
        yield log


@contextlib.asynccontextmanager
async def _followed(source: LogSource) -> AsyncIterator[LogEnd]:
    lines: deque[str] = deque(maxlen=LOG_LINES_MAX)
    trouble = ""

    async def follow() -> None:
        nonlocal trouble
        try:
            async for line in source.lines(last=LOG_LINES_MAX, follows=True):
                lines.append(line)
        except FailedError as error:
            trouble = str(error)

    task = asyncio.create_task(follow())
    try:
        yield LogEnd(lambda: list(lines), lambda: trouble)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
