"""Looks at gateways again and again: asks, takes in what is told, draws, and obeys keys."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gateway.tools.top.fleet_sample import FleetAnswers, FleetHistory
from gateway.tools.top.frame import COLUMN_COUNTS, FrameTime, drawn
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.sample import GatewayAnswers, read
from gateway.tools.top.top_view import TopView

if TYPE_CHECKING:
    from gateway.tools.top.terminal import Terminal

TICK_S: Final = 1.0
"""While there is no answer, a frame says so often for how long; one left out is drawn then."""
EMPTY_READS_MAX: Final = 100
"""A keyboard that can be read so often and has no key is one that has gone."""
UNREADABLE: Final = "it told nothing that can be read"

AskGateways = Callable[[], Awaitable[GatewayAnswers | FleetAnswers]]
"""Asks once; raises `NotToldError`."""


class NotToldError(Exception):
    """A gateway did not tell its status; the message says why."""


def take(history: GatewayHistory | FleetHistory, answers: GatewayAnswers | FleetAnswers) -> None:
    """Take answers in, those that say nothing too."""
    if isinstance(history, FleetHistory):
        if isinstance(answers, FleetAnswers):
            history.take(answers)
        return
    sample = read(answers) if isinstance(answers, GatewayAnswers) else None
    if sample is None:
        history.missed(UNREADABLE, answers.at_s)
    else:
        history.take(sample)


class LiveTop:
    """The live display, which runs until the user ends it.

    Args:
        ask: asks the gateways once.
        history: takes what is told.
        view: what is looked at first.
        screen: shows it.

    """

    def __init__(
        self,
        ask: AskGateways,
        history: GatewayHistory | FleetHistory,
        view: TopView,
        screen: Terminal,
    ) -> None:
        self._ask = ask
        self._history = history
        self._view = view
        self._screen = screen
        self._has_ended = asyncio.Event()
        self._is_due = asyncio.Event()
        self._reads_without_key = 0
        self._is_drawn = False

    async def run(self, keyboard: int) -> None:
        """Go on until a key or a signal ends it.

        Args:
            keyboard: the descriptor that can be read when a key was pressed.

        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._has_ended.set)
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_reader(keyboard, self._keyed)
        self._draw()
        tasks = [asyncio.create_task(one) for one in (self._go_on(), self._tick())]
        ending = asyncio.create_task(self._has_ended.wait())
        try:
            await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(keyboard)
            for task in (*tasks, ending):
                task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    async def _go_on(self) -> None:
        while True:
            self._is_due.clear()
            if not self._view.is_paused:
                await self._look()
            try:
                async with asyncio.timeout(self._view.interval_s):
                    await self._is_due.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        try:
            answers = await self._ask()
        except NotToldError as error:
            self._history.missed(str(error), time.monotonic())
        else:
            take(self._history, answers)
        self._draw()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._history.failure or not self._is_drawn:
                self._draw()

    def _keyed(self) -> None:
        before = self._view
        self._reads_without_key += 1
        for key in self._screen.pressed():
            self._view = self._view.pressed(key, COLUMN_COUNTS)
            self._reads_without_key = 0
        if self._view.has_ended or self._reads_without_key > EMPTY_READS_MAX:
            self._has_ended.set()
            return
        if self._view.interval_s != before.interval_s or before.is_paused:
            self._is_due.set()
        self._draw()

    def _resized(self) -> None:
        self._screen.resized()
        self._draw()

    def _draw(self) -> None:
        at = FrameTime(time.monotonic(), time.time())
        frame = drawn(self._history, self._view, self._screen.size, at)
        self._is_drawn = self._screen.draw(frame)
