"""Reads that are handed on in turns, and what becomes of a connection whose turn fails."""

from __future__ import annotations

import asyncio

from memory_transport import MemoryTransport
from tree_host import until

from gateway.trust.shares import paced_reading
from gateway.trust.shares.paced_reading import PacedReading


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
