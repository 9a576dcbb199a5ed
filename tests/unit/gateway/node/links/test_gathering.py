"""QoS 0 messages of full turns share a batch; a few wait for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.node.links.gathering import GATHER_S, MANY, Gathering
from gateway.node.links.outbox import Outbox
from tree_handler.batch import MAX_ENTRIES, Entry, Flags, Row

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


async def test_who_has_gone_is_told_nothing_and_others_hear_that_the_log_refused() -> None:
    outbox = Outbox(lambda: None)
    gone, waiting, kept = (outbox.add(Entry("t", b"", 1), control=False) for _ in range(3))
    assert outbox.add(Entry("t", b""), control=False) is None
    assert gone is not None
    assert waiting is not None
    assert kept is not None
    gone.cancel()
    rows, done = outbox.take()
    assert {flags: len(some) for flags, some in rows.items()} == {Flags.LOGGED: 3, Flags.NONE: 1}
    refused = OSError("full")
    for tell, error in zip(done, (refused, refused, None), strict=True):
        tell(error)
    assert (gone.cancelled(), waiting.exception(), kept.result()) == (True, refused, None)
    assert outbox.take() == ({}, [])
