"""With `sync` a batch goes to neighbours before this gateway's disk has it; then the power is cut.

Nobody had an acknowledgement for it. The neighbour brings it back, its publisher sends it again,
and no number ever stands for two contents: the next life numbers under an epoch of its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from memory_log import NAME
from neighboured_world import NeighbouredWorld, crash, settle

from tree_handler import batch
from tree_handler.batch import Epoch

KEPT = 3
LOST = 4


@pytest.fixture
async def world() -> AsyncIterator[NeighbouredWorld]:
    made = NeighbouredWorld(0, sync=True)
    made.start()
    made.log.crash_in = 1 << 60
    for client in made.clients:
        client.on_acknowledged = lambda _: None
    made.link()
    yield made
    made.close()


async def no_sync(world: NeighbouredWorld) -> None:
    """Turns end and the link carries what there is, and the disk is not asked."""
    for _ in range(4):
        await world.settled()
        world.exchange()


def contents(world: NeighbouredWorld) -> dict[tuple[Epoch, int], set[bytes]]:
    """Return the payloads that stand for each number, wherever a log has it."""
    found: dict[tuple[Epoch, int], set[bytes]] = {}
    for side in (world.side, world.neighbour):
        for frame, header in side.frames():
            if header.clients and not header.passed:
                for number, row in enumerate(batch.rows(frame, header), header.first):
                    found.setdefault((header.stream, number), set()).add(row[2])
    return found


@pytest.mark.parametrize("lives", [1, 3])
@pytest.mark.parametrize("qos", [1, 2])
async def test_what_neighbours_had_before_the_disk_is_brought_back_and_no_number_has_two_contents(
    world: NeighbouredWorld, qos: int, lives: int
) -> None:
    publisher, subscriber = world.clients[:2]
    await settle(world, publisher, subscriber)
    subscriber.subscribe("a/#", qos)
    await settle(world, subscriber)
    published: list[bytes] = []
    epochs = {world.epoch}
    for _ in range(lives):
        for _ in range(KEPT):
            published.append(publisher.publish("a/1", qos))
            await settle(world, publisher, subscriber)
        acknowledged = list(publisher.acknowledged)
        for _ in range(LOST):
            published.append(publisher.publish("a/1", qos))
        await no_sync(world)
        publisher.read()
        assert publisher.acknowledged == acknowledged == published[:-LOST]
        assert all(world.neighbour.has(payload) for payload in published)
        await crash(world)
        assert not set(published[-LOST:]) & on_disk(world)
        epochs.add(world.epoch)
        world.link()
        world.repair()
        await settle(world, publisher, subscriber)
        world.repair()
        await settle(world, publisher, subscriber)
        assert publisher.acknowledged == published
    found = contents(world)
    assert {stream[1] for stream, _ in found if stream[0] == NAME} == epochs
    assert all(len(payloads) == 1 for payloads in found.values())
    got = Counter(message.payload for message in subscriber.got)
    assert set(got) == set(published)
    assert qos == 1 or max(got.values()) == 1
    # Clients of the neighbour had them before, and have what was sent again as another message.
    numbers = Counter(payload for payloads in found.values() for payload in payloads)
    assert max(numbers.values()) == 2


async def test_a_number_that_the_log_refused_is_given_again_and_no_neighbour_had_it(
    world: NeighbouredWorld,
) -> None:
    publisher = world.clients[1]  # who is told of a refusal
    await settle(world, publisher)
    for _ in range(3):
        world.log.is_full = True
        refused = publisher.publish("a/1", 1)
        await settle(world, publisher)
        world.log.is_full = False
        world.ahead_s += 1.0  # the journal is tried again after a moment
        taken = publisher.publish("a/1", 1)
        await settle(world, publisher)
        assert refused in publisher.refused
        assert not world.neighbour.has(refused)
        assert world.neighbour.has(taken)
    assert all(len(payloads) == 1 for payloads in contents(world).values())


def on_disk(world: NeighbouredWorld) -> set[bytes]:
    """The messages that the gateway's own log has."""
    return {
        row[2]
        for frame, header in world.side.frames()
        if header.clients and not header.passed
        for row in batch.rows(frame, header)
    }
