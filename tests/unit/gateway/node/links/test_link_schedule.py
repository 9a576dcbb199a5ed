"""Goal: the timer of links goes on, whatever what is due comes to."""

from __future__ import annotations

import asyncio
import math

import pytest

import gateway.node.links.schedule as schedule_module
from gateway.node.links.schedule import LinkTimers


async def test_what_failed_is_tried_again_later_and_not_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule_module, "FAILED_S", 0.05)
    loop = asyncio.get_running_loop()
    told: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    tried_at: list[float] = []
    due = [loop.time()]
    succeeded = asyncio.Event()

    def handle(now: float) -> None:
        tried_at.append(now)
        if len(tried_at) < 3:
            raise ValueError("what a neighbour said")
        due[0] = math.inf
        timers.set()
        succeeded.set()

    timers = LinkTimers(lambda: due[0], handle)
    timers.set()
    async with asyncio.timeout(60):
        await succeeded.wait()
    assert [type(error) for error in told] == [ValueError, ValueError]
    assert tried_at[1] - tried_at[0] > 0.04  # a clock of whole milliseconds
    await asyncio.sleep(0.1)
    assert len(tried_at) == 3
