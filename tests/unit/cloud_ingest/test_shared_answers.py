"""Answers of the dashboard that took work are kept, within bounds."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

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
