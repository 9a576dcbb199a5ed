"""A link sends all that was queued: at the end of a turn and at its own, however short it is."""

from __future__ import annotations

import asyncio

from loop_turns import turns
from memory_link import MemoryLink

from gateway.node.links.window import START_BYTES

CONTROL, BATCH, DONE = b"$hedgerow/seek", b"$hedgerow/batch", b"$hedgerow/done"


async def test_an_empty_word_at_the_end_of_a_turn_waits_for_no_other_turn() -> None:
    far = MemoryLink()
    far.link.send_control(CONTROL, b"first")
    far.link.send_batch(DONE, b"")
    await turns(2)
    assert far.told() == [(CONTROL, b"first"), (DONE, b"")]


async def test_all_that_waits_goes_before_a_link_ends_short_ones_and_empty_ones_too() -> None:
    far = MemoryLink()
    sent = [bytes([n]) for n in range(100)]
    large = bytes(30_000)
    for _ in range(START_BYTES // len(large) + 1):
        far.link.send_batch(BATCH, large)
    for frame in sent:
        far.link.send_batch(BATCH, frame)
    far.link.send_batch(DONE, b"")
    await turns(2)
    began = far.told()
    assert (BATCH, sent[0]) not in began
    finishing = asyncio.create_task(far.link.finish())
    await turns(2)
    *rest, farewell = far.told()
    assert rest == [*((BATCH, frame) for frame in sent), (DONE, b"")]
    assert farewell[0] == b""
    assert far.is_closed
    far.link.connection_lost(None)
    await finishing
