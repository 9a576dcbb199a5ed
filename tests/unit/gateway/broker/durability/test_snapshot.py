"""Snapshots for checkpoints: what has changed is in the next one, whatever fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from surroundings import hooks

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.snapshot import Snapshots
from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client
from gateway.broker.limits import Limits
from tests.simulation.memory_log import Disk, MachineClocks, MemoryLog
from tree_handler.batch import Row


class Kept:
    """A broker whose state is kept, and its snapshots."""

    def __init__(self, folder: Path) -> None:
        clocks = MachineClocks()
        log = MemoryLog(Disk(), 1, 1 << 30, clocks, sync=False)
        self.durable = DurablePersistence(log, LastingClock(clocks, 1), lambda: 0.0)
        self.core = DataPlane(hooks(commit=log.commit), Limits(), self.durable, now=lambda: 0.0)
        self.store = Store(folder / "broker.sqlite3")
        self.core.recover(self.durable, log, self.store, self.store.load())
        self.fails = False
        retention = self.core.retention
        self.snapshots = Snapshots(self.core.sessions, retention, self.durable, self._now)

    def _now(self) -> float:
        if self.fails:
            raise RuntimeError("no time")
        return 0.0

    def retained(self, topic: str) -> None:
        rows: list[Row] = [(topic, 1 | 4, b"x", {-1: (5, 0)})]
        self.core.remote_delivery.publish_batch(rows, ("other", 7), 1)


@pytest.fixture
async def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


async def test_what_a_snapshot_that_failed_was_to_say_the_next_one_says(kept: Kept) -> None:
    kept.retained("t")
    kept.fails = True
    with pytest.raises(RuntimeError, match="no time"):
        kept.snapshots.take(1)
    kept.fails = False
    taken = kept.snapshots.take(2)
    assert list(taken.changes.retained) == list(taken.retained) == ["t"]
    kept.snapshots.failed(taken)
    again = kept.snapshots.take(3)
    assert list(again.changes.retained) == ["t"]
    kept.snapshots.saved(again)
    assert list(kept.snapshots.take(4).changes.retained) == []


async def test_a_session_is_in_each_snapshot_until_one_is_saved_and_again_when_it_changes(
    kept: Kept,
) -> None:
    session = kept.core.sessions.new(Client("c", None, "", 5))
    session.expiry_s = 60
    kept.durable.session_opened(session)
    kept.core.sessions.restore(session)
    kept.core.sessions.wait(session, 0.0)
    kept.durable.write()

    def numbers() -> list[int]:
        taken = kept.snapshots.take(1)
        kept.snapshots.saved(taken)
        return list(taken.cursors)

    assert [numbers(), numbers()] == [[1], []]
    kept.durable.session_away(session)
    assert numbers() == [1]
    taken = kept.snapshots.take(1)
    kept.snapshots.failed(taken)
    assert numbers() == []
