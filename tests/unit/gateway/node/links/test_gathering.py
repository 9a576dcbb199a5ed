"""QoS 0 messages of full turns share a batch; a few wait for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.node.links.gathering import GATHER_S, MANY, Gathering
from tree_handler.batch import MAX_ENTRIES, Entry, Row

ROW = Entry("t", b"x").row()


async def test_a_few_messages_wait_for_nothing() -> None:
    gathering = Gathering(lambda _: None)
    assert gathering.add([ROW] * (MANY - 1)) == [ROW] * (MANY - 1)


async def test_many_wait_for_those_of_the_next_turns_and_not_for_long() -> None:
    sent: list[Sequence[Row]] = []
    gathering = Gathering(sent.append)
    numbered = [Entry("t", b"%d" % n).row() for n in range(2 * MANY)]
    assert not gathering.add(numbered[:MANY])
    assert not gathering.add(numbered[MANY:-1])
    assert not gathering.add(numbered[-1:])  # behind those that wait
    await asyncio.sleep(5 * GATHER_S)
    assert sent == [numbered]


async def test_a_full_batch_does_not_wait() -> None:
    sent: list[Sequence[Row]] = []
    gathering = Gathering(sent.append)
    assert not gathering.add([ROW] * (MAX_ENTRIES - 1))
    assert len(gathering.add([ROW])) == MAX_ENTRIES
    gathering.add([ROW] * MANY)
    gathering.end()
    gathering.end()
    assert sent == [[ROW] * MANY]
    await asyncio.sleep(2 * GATHER_S)
    assert len(sent) == 1
