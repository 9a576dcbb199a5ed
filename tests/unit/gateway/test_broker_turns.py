"""When what a read brought is committed and written: at once, or with what others bring."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.broker.inbound.acceptance import Acceptance
from gateway.broker.inbound.turns import READS_ALONE, Turns


class Receiver:
    """Stands for a connection: something to write, and how often it was written."""

    def __init__(self) -> None:
        self.writes = 0

    def flush(self) -> None:
        self.writes += 1


def make(dirty: list[Any]) -> Turns:
    def flush(some: list[Any]) -> None:
        for receiver in some:
            receiver.flush()

    turns = Turns(dirty, flush, lambda: None)
    turns.acceptance = Acceptance(
        lambda *_: None,
        lambda *_: None,
        turns.kick,
        asyncio.get_running_loop().time,
        1 << 20,
        deliver_together=lambda *_: None,
        stamp=lambda message: None,
    )
    return turns


async def test_what_several_reads_bring_is_written_once() -> None:
    dirty: list[Any] = []
    turns, receiver = make(dirty), Receiver()
    for _ in range(3):
        if receiver not in dirty:
            dirty.append(receiver)
        turns.has_read()
    assert receiver.writes == 0
    await asyncio.sleep(0)
    assert (receiver.writes, dirty) == (1, [])


async def test_after_a_read_that_was_alone_the_next_few_do_not_wait() -> None:
    dirty: list[Any] = []
    turns, receiver = make(dirty), Receiver()
    dirty.append(receiver)
    turns.has_read()
    await asyncio.sleep(0)
    at_once = 0
    for _ in range(READS_ALONE + 1):
        before = receiver.writes
        dirty.append(receiver)
        turns.has_read()
        at_once += receiver.writes - before
        await asyncio.sleep(0)
    assert at_once == READS_ALONE
    assert receiver.writes == READS_ALONE + 2


async def test_after_a_turn_of_several_reads_every_read_waits() -> None:
    dirty: list[Any] = []
    turns, receiver = make(dirty), Receiver()
    for _ in range(3):
        for _ in range(2):
            dirty.append(receiver)
            turns.has_read()
        assert dirty
        await asyncio.sleep(0)
        assert not dirty


async def test_a_read_that_brings_nothing_ends_no_turn() -> None:
    ended: list[bool] = []
    turns = Turns([], lambda _: None, lambda: ended.append(True))
    turns.acceptance = make([]).acceptance
    turns.has_read()
    await asyncio.sleep(0)
    assert ended == []
