"""A turn of the event loop ends once what it gathers, and at once where reads come alone."""

from __future__ import annotations

import asyncio

from gateway.base.turns import READS_ALONE, Turns


class Ends:
    """Counts the ends of turns; some leave something due."""

    def __init__(self) -> None:
        self.count = 0
        self.leave_due = 0
        self.turns = Turns(self._end)

    def _end(self) -> bool:
        self.count += 1
        self.turns.need()  # what the end itself makes due, it also deals with
        self.leave_due -= 1
        return self.leave_due >= 0

    def read(self, *, is_needed: bool = True) -> None:
        """A read comes, and may make something due."""
        self.turns.read_begins()
        if is_needed:
            self.turns.need()
        self.turns.read_ends()

    async def by_reads(self, count: int) -> list[int]:
        """So many reads come, each in a turn of the loop; how many ends each has had at once."""
        at_once = []
        for _ in range(count):
            before = self.count
            self.read()
            at_once.append(self.count - before)
            await asyncio.sleep(0)
        return at_once


async def test_all_that_a_turn_brings_has_one_end_and_not_before_the_turn_is_over() -> None:
    ends = Ends()
    ends.turns.need()
    ends.read()
    ends.read()
    ends.turns.need()
    assert ends.count == 0
    await asyncio.sleep(0)
    assert ends.count == 1
    await asyncio.sleep(0)
    assert ends.count == 1


async def test_after_a_read_that_came_alone_the_next_few_end_their_turns_themselves() -> None:
    ends = Ends()
    assert await ends.by_reads(READS_ALONE + 2) == [0, *[1] * READS_ALONE, 0]


async def test_after_two_reads_of_one_turn_the_next_waits_for_others() -> None:
    ends = Ends()
    ends.read()
    ends.read(is_needed=False)
    await asyncio.sleep(0)
    assert await ends.by_reads(2) == [0, 1]


async def test_after_a_turn_without_a_read_the_next_waits_for_others() -> None:
    ends = Ends()
    assert await ends.by_reads(2) == [0, 1]
    ends.turns.need()
    await asyncio.sleep(0)
    assert await ends.by_reads(2) == [0, 1]


async def test_a_read_that_makes_nothing_due_has_no_end_and_is_not_counted() -> None:
    ends = Ends()
    assert await ends.by_reads(1) == [0]
    for _ in range(READS_ALONE + 1):
        ends.read(is_needed=False)
    assert ends.count == 1
    assert await ends.by_reads(1) == [1]


async def test_what_an_end_leaves_due_has_the_end_of_the_next_turn() -> None:
    ends = Ends()
    ends.leave_due = 2
    ends.turns.need()
    for expected in (1, 2, 3, 3):
        await asyncio.sleep(0)
        assert ends.count == expected


async def test_what_a_read_that_ends_its_turn_itself_leaves_due_has_the_end_of_the_next() -> None:
    ends = Ends()
    assert await ends.by_reads(1) == [0]
    ends.leave_due = 1
    ends.read()
    assert ends.count == 2
    await asyncio.sleep(0)
    assert ends.count == 3
