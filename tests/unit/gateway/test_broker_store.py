"""The file of checkpoints is used by threads: one call waits for another to end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gateway.broker.durability.saved import Checkpoint, SavedMessage
from gateway.broker.durability.store import Store, StoreError


class SlowCheckpoint(Checkpoint):
    """One that is being written until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(position=7)
        self.is_being_written = threading.Event()
        self.may_go_on = threading.Event()

    def messages(self) -> list[SavedMessage]:
        self.is_being_written.set()
        assert self.may_go_on.wait(30)
        return []


async def test_a_file_is_let_go_of_when_the_checkpoint_under_way_is_written(tmp_path: Path) -> None:
    store, checkpoint = Store(tmp_path / "s"), SlowCheckpoint()
    saving = asyncio.create_task(asyncio.to_thread(store.save, checkpoint))
    assert await asyncio.to_thread(checkpoint.is_being_written.wait, 30)
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    checkpoint.may_go_on.set()
    await saving
    await closing
    again = Store(tmp_path / "s")
    assert again.load().position == 7
    again.close()


def test_a_checkpoint_for_a_file_that_was_let_go_of_is_an_error_that_names_it(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "s")
    store.close()
    with pytest.raises(StoreError, match="/s: "):
        store.save(Checkpoint())
