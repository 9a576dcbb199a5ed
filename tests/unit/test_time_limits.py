"""A test that waits for ever is ended, also in an event loop that keeps what signals raise."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def own_limit() -> Iterator[None]:
    """Keep this test's own limit as it is."""
    handler, left_s = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    yield
    signal.setitimer(signal.ITIMER_REAL, left_s)
    signal.signal(signal.SIGALRM, handler)


@pytest.fixture
def ended_soon(own_limit: None, pytestconfig: pytest.Config) -> None:
    """Have the signal of a limit handled as pytest-timeout's is."""
    (conftest,) = (
        plugin
        for plugin in pytestconfig.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(CONFTEST)
    )

    def told(_number: int, _frame: Any) -> None:
        raise TimeoutError("it took too long")

    signal.signal(signal.SIGALRM, conftest.ending_tasks(told))


@pytest.mark.usefixtures("ended_soon")
def test_a_test_that_waits_for_ever_tells_where_each_of_its_tasks_waits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def deep() -> None:
        await asyncio.Event().wait()

    async def wait() -> None:
        await asyncio.gather(asyncio.create_task(deep(), name="the one that waits"))

    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGALRM)).start()
    with pytest.raises(TimeoutError, match="it took too long"):
        asyncio.run(wait())
    said = capsys.readouterr().err
    assert "the one that waits" in said
    assert "await asyncio.Event().wait()" in said


@pytest.mark.usefixtures("ended_soon")
def test_a_test_that_waits_for_ever_in_uvloop_is_ended() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = uvloop.new_event_loop()
    try:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGALRM)).start()
        with pytest.raises(asyncio.CancelledError, match="it took too long"):
            loop.run_until_complete(asyncio.Event().wait())
    finally:
        loop.close()
