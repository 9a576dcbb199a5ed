"""Sessions over crashes, in seeded runs: nothing acknowledged lost, nothing of QoS 2 doubled."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from broker_world import World
from surroundings import hooks

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.journal import Journal, SessionRecord
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.outbound.channel import Channel
from gateway.broker.sessions import backlog
from tree_handler import batch
from tree_handler.batch import Entry, Header

STEPS = 400


SMALL_HEAD = 700
"""Bytes of two messages or three: all others that wait do so in the log."""
DISKS: tuple[dict[str, int], ...] = (
    {"head_bytes": SMALL_HEAD},
    {"kept_bytes": 0},
    {"head_bytes": SMALL_HEAD, "kept_bytes": 0},
    {"head_bytes": SMALL_HEAD, "kept_bytes": 0, "spared_bytes": 0},
)


async def run(seed: int, *, sync: bool) -> World:
    world = World(seed, sync=sync, **DISKS[seed % len(DISKS)])
    world.start()
    for client in world.clients:
        client.connect(world.core)
        client.read()
    for _ in range(STEPS):
        await world.step()
    await world.drain()
    world.close()
    return world


@pytest.mark.drawn(1)
@pytest.mark.parametrize("sync", [False, True], ids=["write", "sync"])
async def test_a_broker_that_is_killed_anywhere_keeps_every_promise(
    sync: bool, pytestconfig: pytest.Config
) -> None:
    crashes = acknowledged = trimmed = spared = 0
    for seed in range(2_000 if pytestconfig.getoption("--soak") else 24):
        world = await run(seed, sync=sync)
        assert world.broken() == [], f"seed {seed}, sync {sync}"
        crashes += world.crashes
        trimmed += world.told_trimmed
        spared += world.spared
        acknowledged += sum(len(client.acknowledged) for client in world.clients)
    assert crashes > 100
    assert acknowledged > 1_000
    if Path(backlog.__file__).suffix == ".py":  # compiled, heads are not small: most waits there
        assert trimmed > 10  # where nothing is put by
    assert spared > 100


async def faults(*, sync: bool, seeds: range = range(25)) -> set[str]:
    """Return what goes wrong first, in words; a run that recovery finds odd counts too."""
    for seed in seeds:
        try:
            world = await run(seed, sync=sync)
        except AssertionError as error:
            return {str(error)}
        if found := world.broken():
            return set(found)
    return set()


async def test_without_the_publishers_identifiers_a_message_is_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Journal, "publishes", lambda *_: None)
    assert any("times" in fault for fault in await faults(sync=False))


async def test_without_marks_a_late_subscriber_takes_the_place_of_an_early_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Journal, "has_delivered", lambda *_: None)
    assert await faults(sync=False)


async def test_what_leaves_before_the_journal_is_safe_is_sent_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Channel, "stands_on", lambda *_: 0)
    assert await faults(sync=True)


async def test_without_what_was_sent_a_message_comes_under_another_identifier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionRecord, "sent", lambda *_: None)
    assert await faults(sync=False)


async def test_a_checkpoint_without_retained_messages_loses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DurablePersistence, "retained_changed", lambda *_: None)
    assert await faults(sync=False, seeds=range(30, 60))  # those before lose nothing by it


async def test_a_start_decodes_each_batch_of_the_log_once_however_often_it_is_referred_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await run(0, sync=False)
    decode, decoded = batch.decode, Counter[bytes]()

    def counted(frame: bytes, header: Header) -> list[Entry]:
        decoded[frame] += 1
        return decode(frame, header)

    monkeypatch.setattr(batch, "decode", counted)
    monkeypatch.setattr(backlog, "HEAD_BYTES", 1 << 30)  # else queues are read back from the log
    world.log.is_dead = False
    durable = DurablePersistence(world.log, LastingClock(world.clocks, world.epoch), world.core.now)
    core = DataPlane(hooks(commit=world.log.commit), durability=durable)
    found = core.recover(durable, world.log, world.failing_store, Checkpoint())
    assert found.sessions == len(world.clients)
    assert len(decoded) > 100
    assert set(decoded.values()) == {1}
