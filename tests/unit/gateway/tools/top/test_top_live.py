"""The live display obeys keys, and ends with them, with a signal, or with its keyboard."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from told_gateways import answers

from gateway.tools.top.frame import FrameSize
from gateway.tools.top.history import GatewayHistory
from gateway.tools.top.live import EMPTY_READS_MAX, AskGateways, LiveTop, NotToldError
from gateway.tools.top.sample import GatewayAnswers
from gateway.tools.top.styled_text import TopFrame
from gateway.tools.top.terminal import Terminal
from gateway.tools.top.top_view import TopView

LIMIT_S = 60


class HeldScreen:
    """A terminal whose keyboard is a pipe.

    Attributes:
        frames: what was drawn.
        left: keys for each time that the keyboard can be read; behind the last there is none.
        reads: how often it was read.

    """

    def __init__(self) -> None:
        self.keyboard, self._keys = os.pipe()
        self.frames: list[str] = []
        self.left: list[list[str]] = []
        self.reads = 0
        self.resizes = 0
        self.drawn = asyncio.Event()

    @property
    def size(self) -> FrameSize:
        return FrameSize(100, 30)

    def resized(self) -> None:
        self.resizes += 1

    def draw(self, frame: TopFrame) -> bool:
        self.frames.append(frame.as_text())
        self.drawn.set()
        return True

    def pressed(self) -> Iterator[str]:
        self.reads += 1
        keys = self.left.pop(0) if self.left else []
        if not self.left:
            self.stays_silent()
        yield from keys

    def stays_silent(self) -> None:
        """Have nothing to be read any more."""
        os.set_blocking(self.keyboard, False)
        with contextlib.suppress(BlockingIOError):
            os.read(self.keyboard, 100)

    def press(self, *reads: list[str]) -> None:
        self.left += reads
        os.write(self._keys, b"x")

    def close(self) -> None:
        os.close(self.keyboard)
        os.close(self._keys)


class GoneScreen(HeldScreen):
    """A terminal whose keyboard can be read for ever, and has no key but those of a test."""

    def stays_silent(self) -> None:
        pass


def live(screen: HeldScreen, ask: AskGateways, **view: Any) -> LiveTop:
    shown = TopView(**({"interval_s": 3600.0} | view))
    return LiveTop(ask, GatewayHistory(), shown, cast(Terminal, screen))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0)


class Told:
    """Answers, one step further each time."""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self) -> GatewayAnswers:
        self.asked += 1
        return answers(self.asked)


@pytest.fixture
async def screen() -> Any:
    made = HeldScreen()
    yield made
    made.close()


async def test_what_is_told_is_drawn_and_a_key_ends_it(screen: HeldScreen) -> None:
    told = Told()
    running = asyncio.create_task(live(screen, told.ask).run(screen.keyboard))
    await until(lambda: "gw-north" in screen.frames[-1] if screen.frames else False)
    assert "gw-north" not in screen.frames[0], "it is drawn before anything is told"
    drawn = len(screen.frames)
    screen.press(["2"])
    await until(lambda: len(screen.frames) == drawn + 1)
    assert screen.frames[-1] != screen.frames[-2]
    assert told.asked == 1
    screen.press(["q"])
    async with asyncio.timeout(LIMIT_S):
        await running
    assert len(screen.frames) == drawn + 1


async def test_another_interval_and_the_end_of_a_pause_ask_at_once(screen: HeldScreen) -> None:
    told = Told()
    running = asyncio.create_task(live(screen, told.ask, is_paused=True).run(screen.keyboard))
    await until(lambda: bool(screen.frames))
    screen.press(["+"])
    await until(lambda: screen.reads == 1)
    for _ in range(5):
        await asyncio.sleep(0)
    assert told.asked == 0, "it stands still"
    screen.press(["p"])
    await until(lambda: told.asked == 1)
    screen.press(["-"])
    await until(lambda: told.asked == 2)
    screen.press(["2"])
    await until(lambda: screen.reads == 4)
    for _ in range(5):
        await asyncio.sleep(0)
    assert told.asked == 2
    screen.press(["q"])
    async with asyncio.timeout(LIMIT_S):
        await running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_it_and_a_new_size_is_drawn(
    number: signal.Signals, screen: HeldScreen
) -> None:
    running = asyncio.create_task(live(screen, Told().ask).run(screen.keyboard))
    await until(lambda: len(screen.frames) == 2)
    os.kill(os.getpid(), signal.SIGWINCH)
    await until(lambda: len(screen.frames) == 3)
    assert screen.resizes == 1
    os.kill(os.getpid(), number)
    async with asyncio.timeout(LIMIT_S):
        await running
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH):
        loop.remove_signal_handler(one)


async def test_why_nothing_was_told_is_drawn_and_a_fault_is_raised(screen: HeldScreen) -> None:
    came: list[Exception] = [NotToldError("it is away"), ZeroDivisionError()]

    async def ask() -> GatewayAnswers:
        raise came.pop(0)

    running = asyncio.create_task(live(screen, ask).run(screen.keyboard))
    await until(lambda: len(screen.frames) == 2)
    assert "it is away" in screen.frames[-1]
    screen.press(["-"])
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(LIMIT_S):
            await running


async def test_a_keyboard_that_can_be_read_and_has_no_key_has_gone() -> None:
    screen = GoneScreen()
    nothing = [list[str]() for _ in range(EMPTY_READS_MAX)]
    try:
        screen.press(*nothing, ["x"], *nothing, [])
        async with asyncio.timeout(LIMIT_S):
            await live(screen, Told().ask).run(screen.keyboard)
        # At first, for what was told, and for each read before the last: a key begins anew.
        assert len(screen.frames) == 2 + 2 * EMPTY_READS_MAX + 1
    finally:
        screen.close()
