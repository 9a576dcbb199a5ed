"""Answers of the dashboard that took work are kept, within bounds."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cloud_ingest.dashboard.shared_answers import SharedAnswers, TooManyQuestionsError
from gateway.web.ready_answer import ReadyAnswer


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


class Work:
    """Makes answers, and counts how often."""

    def __init__(self, text: str = "x") -> None:
        self.count = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self._text = text

    def __call__(self) -> ReadyAnswer:
        self.count += 1
        self.may_end.wait()
        return ReadyAnswer.of([self._text, self.count])


async def test_fifty_who_ask_the_same_are_answered_by_one_piece_of_work(
    threads: ThreadPoolExecutor,
) -> None:
    kept, work = SharedAnswers(threads), Work()
    work.may_end.clear()
    asked = [asyncio.ensure_future(kept.answer(("tree", 1), work)) for _ in range(50)]
    await asyncio.sleep(0)
    work.may_end.set()
    assert {each.tag for each in await asyncio.gather(*asked)} == {ReadyAnswer.of(["x", 1]).tag}
    await kept.answer(("tree", 1), work)
    assert work.count == 1


async def test_what_is_asked_after_a_table_changed_is_worked_out_anew(
    threads: ThreadPoolExecutor,
) -> None:
    kept, work = SharedAnswers(threads), Work()
    before = await kept.answer(("tree", 1), work)
    assert (await kept.answer(("tree", 2), work)).tag != before.tag


async def test_who_asked_first_may_go_and_the_others_are_answered(
    threads: ThreadPoolExecutor,
) -> None:
    kept, work = SharedAnswers(threads), Work()
    work.may_end.clear()
    first = asyncio.ensure_future(kept.answer(("tree", 1), work))
    other = asyncio.ensure_future(kept.answer(("tree", 1), work))
    await asyncio.sleep(0)
    first.cancel()
    work.may_end.set()
    assert (await other).body
    assert work.count == 1


async def test_what_failed_is_tried_again(threads: ThreadPoolExecutor) -> None:
    kept, work = SharedAnswers(threads), Work()

    def failing() -> ReadyAnswer:
        raise OSError("the disk is gone")

    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            await kept.answer(("tree", 1), failing)
    assert (await kept.answer(("tree", 1), work)).body


async def test_no_more_is_kept_than_there_is_room_for_and_the_oldest_goes(
    threads: ThreadPoolExecutor,
) -> None:
    kept, work = SharedAnswers(threads, bytes_max=20_000), Work("y" * 5_000)
    for number in range(40):
        await kept.answer(("sensor", number), work)
        assert kept.size_bytes <= 20_000
    assert work.count == 40
    await kept.answer(("sensor", 39), work)
    assert work.count == 40
    await kept.answer(("sensor", 0), work)
    assert work.count == 41


async def test_long_questions_count_too(threads: ThreadPoolExecutor) -> None:
    kept, work = SharedAnswers(threads, bytes_max=20_000), Work()
    for number in range(40):
        await kept.answer(("latency", "n" * 2_000, number), work)
    assert kept.size_bytes <= 20_000


async def test_only_so_many_wait_and_further_ones_are_told_to_come_later(
    threads: ThreadPoolExecutor,
) -> None:
    kept, work = SharedAnswers(threads, work_max=3), Work()
    work.may_end.clear()
    asked = [asyncio.ensure_future(kept.answer(("tree", at), work)) for at in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyQuestionsError, match="3 questions"):
        await kept.answer(("tree", 9), work)
    work.may_end.set()
    await asyncio.gather(*asked)
    assert (await kept.answer(("tree", 9), work)).body


async def test_what_failed_or_was_given_up_is_told_to_who_asked_and_to_nobody_else(
    threads: ThreadPoolExecutor,
) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    kept, work = SharedAnswers(threads), Work()

    def failing() -> ReadyAnswer:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        await kept.answer(("tree", 1), failing)
    work.may_end.clear()
    asked = [asyncio.ensure_future(kept.answer(("tree", at), work)) for at in range(3)]
    while work.count < 2:  # both threads have one, and the third waits
        await asyncio.sleep(0.001)
    threads.shutdown(wait=False, cancel_futures=True)
    work.may_end.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [False, False, True]
    assert not told
    assert kept.size_bytes == 2 * size_of(ReadyAnswer.of(["x", 1]), "tree")


def size_of(answer: ReadyAnswer, *texts: str) -> int:
    """Return how much an answer counts, with the texts of its question."""
    return 400 + sum(4 * len(each) for each in texts) + len(answer.body) + len(answer.zipped)


@pytest.mark.parametrize(("fewer_bytes", "again"), [(0, 0), (1, 1)])
async def test_answers_fill_the_room_to_its_last_byte(
    threads: ThreadPoolExecutor, fewer_bytes: int, again: int
) -> None:
    work = Work("y" * 5_000)
    size = size_of(ReadyAnswer.of(["y" * 5_000, 1]), "sensor", "unit")
    kept = SharedAnswers(threads, bytes_max=2 * size - fewer_bytes)
    for number in (1, 2, 2, 1):
        await kept.answer(("sensor", number, None, "unit"), work)
        assert kept.size_bytes in (size, 2 * size)
    assert work.count == 2 + again


async def test_what_was_asked_for_longest_ago_goes_first(threads: ThreadPoolExecutor) -> None:
    work = Work()
    kept = SharedAnswers(threads, bytes_max=2 * size_of(ReadyAnswer.of(["x", 1]), "tree"))
    for number in (1, 2, 1, 3, 1):
        await kept.answer(("tree", number), work)
    assert work.count == 3
    await kept.answer(("tree", 2), work)
    assert work.count == 4
