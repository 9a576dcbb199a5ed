"""An error that is to end a test ends it, and nothing that a callback raises passes in silence."""

from __future__ import annotations

import asyncio

import pytest
from virtual_loop import VirtualLoop


class OverTimeError(BaseException):
    """An error that a time limit raises, in whatever code runs at that moment."""


def _raise(error: BaseException) -> None:
    raise error


async def _raise_in_a_task(error: BaseException) -> None:
    raise error


def test_a_time_limit_that_strikes_in_a_callback_ends_the_test() -> None:
    loop = VirtualLoop()
    loop.call_later(1, _raise, OverTimeError())
    with pytest.raises(OverTimeError):
        loop.run_until_complete(asyncio.sleep(2))
    loop.run_until_complete(asyncio.sleep(1))  # what is left behind can be put away
    loop.close()


def test_nothing_is_called_before_its_time_however_short_the_rest_is() -> None:
    loop = VirtualLoop()
    times = [16.000000000000004, 16.000000000000007]
    called: list[float] = []
    for when_s in times:
        loop.call_at(when_s, lambda: called.append(loop.time()))
    loop.run_until_complete(asyncio.sleep(17))
    loop.close()

    assert all(when_s <= at_s for when_s, at_s in zip(times, called, strict=True))


def test_what_a_callback_or_a_task_raised_is_noted() -> None:
    loop = VirtualLoop()
    in_callback, in_task = ValueError("callback"), ValueError("task")

    async def work() -> None:
        loop.call_soon(_raise, in_callback)
        asyncio.ensure_future(_raise_in_a_task(in_task))  # noqa: RUF006  # nobody waits for it
        await asyncio.sleep(1)

    loop.run_until_complete(work())
    loop.close()
    assert loop.unforeseen == [in_callback, in_task]


@pytest.mark.soak
def test_a_long_check_has_no_time_limit_unless_one_is_given(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.option.timeout is not None
