"""Each device has one call in the drivers' threads at most, and so many threads there are."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.sensors.threads import DriverBusyError, DriverThreads


async def test_who_has_a_call_under_way_begins_no_second_one() -> None:
    threads, end = DriverThreads(), threading.Event()
    first = asyncio.create_task(threads.call("pump", lambda: end.wait(20.0)))
    try:
        while not threads.busy:
            await asyncio.sleep(0)
        with pytest.raises(DriverBusyError, match=r"^an earlier call has not come back$"):
            await asyncio.wait_for(threads.call("pump", lambda: None), 5.0)
        assert await threads.call("lamp", lambda: "lit") == "lit", "another one waits for nobody"
        over = threads.over("pump")
        assert over is not None
        assert not over.done()
    finally:
        end.set()
    assert await first is True
    assert (threads.busy, threads.over("pump")) == (frozenset(), None)
    assert await threads.call("pump", lambda: "again") == "again"
    threads.close()
