"""Tasks beside the data path: one that fails is told of and ends no other."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.tasks import Tasks


async def test_one_that_fails_is_told_of_and_the_others_go_on_until_they_are_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    tasks = Tasks(Failures(CountedLines(logging.getLogger("of-tasks"), loop.time)))
    ends = list[str]()

    async def fail() -> None:
        raise OSError("no route")

    async def wait() -> None:
        try:
            await loop.create_future()
        finally:
            ends.append("waited")

    async def end() -> None:
        ends.append("ended")

    for work in (fail(), wait(), end()):
        tasks.start(work)
    while "task beside the data path" not in caplog.text:
        await asyncio.sleep(0)
    assert "OSError: no route" in caplog.text
    assert ends == ["ended"]
    caplog.clear()
    tasks.stop()
    while len(ends) < 2:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (ends, caplog.text) == (["ended", "waited"], "")
