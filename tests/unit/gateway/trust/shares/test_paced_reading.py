"""Reads that are handed on in turns, and what becomes of a connection whose turn fails."""

from __future__ import annotations

import asyncio

from memory_transport import MemoryTransport
from tree_host import until

from gateway.trust.shares import paced_reading
from gateway.trust.shares.paced_reading import PacedReading, PacedTransport


async def test_a_turn_that_fails_ends_its_connection_which_would_be_read_no_more() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told_of: told.append(told_of))
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        if len(taken) > 1:
            raise RuntimeError("nobody foresaw it")
        until_s = loop.time() + 2 * paced_reading.PART_S
        while loop.time() < until_s:
            pass  # so long that the rest waits for another turn
        return True

    loop = asyncio.get_running_loop()
    transport, reading = MemoryTransport(), PacedReading(take, lambda: None)
    reading.begin(transport)
    reading.feed(bytes(2 * paced_reading.PIECE_BYTES))
    assert not transport.is_closed
    await until(lambda: bool(told))
    assert transport.is_closed


async def test_a_connection_that_ends_within_a_turn_takes_no_more_and_tells_nobody() -> None:
    taken: list[int] = []
    turns: list[int] = []

    def take(data: bytes) -> bool:
        taken.append(len(data))
        reading.end()
        return True

    transport, reading = MemoryTransport(), PacedReading(take, lambda: turns.append(len(taken)))
    reading.begin(transport)
    reading.feed(bytes(3 * paced_reading.PIECE_BYTES))
    reading.feed(b"more")
    assert (taken, turns) == ([paced_reading.PIECE_BYTES], [])


class Flow(MemoryTransport):
    """Notes when it is read and when not."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[bool] = []

    def pause_reading(self) -> None:
        self.reads.append(False)

    def resume_reading(self) -> None:
        self.reads.append(True)


class NoLayer:
    """A layer that carries nothing."""

    def send(self, data: bytes) -> None:
        raise AssertionError(data)

    def close(self) -> None:
        raise AssertionError


async def test_what_is_held_up_is_not_read_and_what_was_read_waits() -> None:
    taken: list[bytes] = []
    turns: list[int] = []

    def take(data: bytes) -> bool:
        taken.append(data)
        return data != b"last"

    below = Flow()
    reading = PacedReading(take, lambda: turns.append(len(taken)))
    reading.begin(below)
    carried = PacedTransport(below, NoLayer(), reading)
    carried.pause_reading()
    carried.pause_reading()
    reading.feed(b"one")
    assert (below.reads, taken) == ([False], [])
    carried.resume_reading()
    while not taken:
        await asyncio.sleep(0)
    assert (below.reads, taken, turns) == ([False, True], [b"one"], [1])
    reading.feed(b"last")
    reading.feed(b"x" * 1_025)
    assert [len(one) for one in taken] == [3, 4, 1_024, 1]
    assert turns == [1, 2, 4]
    assert below.reads == [False, True]
