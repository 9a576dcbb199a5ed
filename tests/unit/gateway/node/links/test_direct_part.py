"""A message for one gateway goes over one link, or to all where nobody knows which."""

from __future__ import annotations

import math

import pytest
from loop_turns import turns
from memory_link import MemoryLink

from gateway.node.links.direct_part import QUEUED_BYTES_MAX, DirectPart
from gateway.node.links.locator_part import LocatorPart
from tree_handler.routing.direct import HOPS, DirectMessage
from tree_handler.routing.locator import ReachUpdate

TO = b"$hedgerow/to"


class DirectWorld:
    """gw-a with gw-b on link 1, behind which is gw-z, and gw-c on link 2."""

    def __init__(self) -> None:
        self.far = {number: MemoryLink(number) for number in (1, 2)}
        locator = LocatorPart(("gw-a", 1), lambda: frozenset((1, 2)), lambda *_: None)
        locator.tree_changed(0.0)
        for link, names in ((1, ("gw-b", "gw-z")), (2, ("gw-c",))):
            update = ReachUpdate(True, dict.fromkeys(names, 1))
            locator.receive(link, b"$hedgerow/behind", update.encode(), 0.0)
        self.flooded: list[tuple[str, bytes]] = []
        self.got: list[tuple[str, bytes, int]] = []
        self.links = {number: far.link for number, far in self.far.items()}
        self.part = DirectPart(
            "gw-a",
            locator,
            self.links,
            lambda topic, payload: self.flooded.append((topic, payload)),
        )
        self.part.hand_to(lambda *one: self.got.append(one))

    async def told(self, number: int) -> list[DirectMessage]:
        await turns(2)
        found = self.far[number].told()
        assert {topic for topic, _ in found} <= {TO}
        return [DirectMessage.decode(payload) for _, payload in found]


@pytest.fixture
async def world() -> DirectWorld:
    return DirectWorld()


async def test_a_message_goes_over_the_link_behind_which_its_gateway_is(world: DirectWorld) -> None:
    world.part.send("gw-z", "ask", b"payload")
    (message,) = await world.told(1)
    assert (message.topic, message.payload) == ("ask", b"payload")
    assert await world.told(2) == []
    assert world.flooded == []


async def test_a_message_goes_to_all_while_nobody_knows_where_its_gateway_is(
    world: DirectWorld,
) -> None:
    world.part.send("gw-y", "ask", b"payload")
    assert world.flooded == [("ask", b"payload")]
    for number in (1, 2):
        assert await world.told(number) == []


async def test_what_a_neighbour_hands_over_is_taken_or_passed_on(world: DirectWorld) -> None:
    for receiver in ("gw-z", "gw-a", "gw-y", "gw-c"):  # the third is nowhere, the last is there
        message = DirectMessage(receiver, HOPS - 3, "ask", receiver.encode())
        world.part.receive(2, TO, message.encode(), 0.0)
    (passed,) = await world.told(1)
    assert (passed.payload, passed.gateways_on_the_way) == (b"gw-z", 4)
    assert world.got == [("ask", b"gw-a", 3)]
    assert await world.told(2) == []
    assert world.flooded == []


async def test_a_link_that_is_gone_or_on_which_much_waits_is_given_nothing(
    world: DirectWorld,
) -> None:
    link = world.links[1]
    assert world.part.counters.dropped == 0
    link.send_batch(b"$hedgerow/batch", bytes(QUEUED_BYTES_MAX))
    while link.queued_bytes > QUEUED_BYTES_MAX:
        await turns(1)
    world.part.send("gw-z", "ask", b"first")
    assert world.part.counters.dropped == 0
    link.send_batch(b"$hedgerow/batch", bytes(QUEUED_BYTES_MAX))
    world.part.send("gw-z", "ask", b"second")
    assert world.part.counters.dropped == 1
    del world.links[1]
    world.part.send("gw-z", "ask", b"third")
    assert world.part.counters.dropped == 2
    assert world.part.next_timer() == math.inf
