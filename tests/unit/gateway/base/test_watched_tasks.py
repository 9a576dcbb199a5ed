"""Goal: no task of the process dies unseen."""

from __future__ import annotations

import asyncio

import pytest

import gateway.base.watched_tasks as module
from gateway.base.watched_tasks import WatchedTasks


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> WatchedTasks:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.002)
    return WatchedTasks()


async def test_a_task_that_fails_is_told_shown_and_begun_again(
    watched: WatchedTasks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, well = 0, asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 4:
            raise ValueError(f"time {begun}")
        assert watched.failing == {"follower": "ValueError: time 3"}
        monkeypatch.setattr(module, "STEADY_S", 0.0)
        well.set()
        await asyncio.get_running_loop().create_future()

    watched.start("follower", work)
    async with asyncio.timeout(30):
        await well.wait()
    assert caplog.records[0].levelname == "ERROR"
    assert "ValueError: time 1" in caplog.text
    await watched.stop()


async def test_what_has_run_for_long_since_it_failed_is_well_again(
    watched: WatchedTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STEADY_S", 0.01)
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise ValueError
        await asyncio.get_running_loop().create_future()

    watched.start("follower", work)
    async with asyncio.timeout(30):
        while begun < 2 or watched.failing:
            await asyncio.sleep(0.001)
    await watched.stop()


async def test_what_waits_after_a_failure_is_tried_once_more_at_the_end_and_at_once(
    watched: WatchedTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 3_600.0)
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        raise ValueError

    task = watched.start("file", work)
    async with asyncio.timeout(30):
        while begun < 1:
            await asyncio.sleep(0.001)
        watched.begin_last()
        await task
    assert begun == 2
    await watched.stop()


async def test_what_is_done_is_not_begun_again_and_the_end_ends_all(watched: WatchedTasks) -> None:
    done = 0

    async def work() -> None:
        nonlocal done
        done += 1

    async def last() -> None:
        await asyncio.get_running_loop().create_future()

    watched.start("one", work)
    watched.start("other", last)
    for _ in range(10):
        await asyncio.sleep(0)
    assert done == 1
    async with asyncio.timeout(30):
        await watched.stop()
    assert watched.failing == {}


async def test_a_task_that_is_cancelled_by_nobody_is_begun_again_as_any_that_fails(
    watched: WatchedTasks,
) -> None:
    begun, well = 0, asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise asyncio.CancelledError
        well.set()
        await asyncio.Event().wait()

    keeper = watched.start("follower", work)
    await well.wait()
    assert "nobody cancelled it" in watched.failing["follower"]
    keeper.cancel()
    await asyncio.wait([keeper])
    assert keeper.cancelled()


def test_what_is_told_not_to_work_is_shown_until_it_is_told_to_work_again() -> None:
    watched = WatchedTasks()
    watched.tell("listener", "no address\n" + "x" * module.SAID_CHARACTERS_MAX)
    assert "\n" not in watched.failing["listener"]
    assert "no address" in watched.failing["listener"]
    watched.tell("disk", "full")
    watched.tell("listener", "")
    watched.tell("listener", "")
    assert watched.failing == {"disk": "full"}


def test_why_a_part_fails_is_shown_beside_what_fails_elsewhere() -> None:
    watched = WatchedTasks()
    watched.of_part().tell("listener", "no address")
    assert watched.failing == {"listener": "no address"}
