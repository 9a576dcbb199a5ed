"""The file of checkpoints is used by threads: one call waits for another to end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store, StoreError


async def test_a_file_is_let_go_of_when_the_checkpoint_under_way_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_being_written, may_go_on = threading.Event(), threading.Event()

    class SlowFile(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement == "COMMIT":
                is_being_written.set()
                assert may_go_on.wait(30)
            return super().execute(statement, *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=SlowFile))
    may_go_on.set()
    store = Store(tmp_path / "s")
    for each in (is_being_written, may_go_on):
        each.clear()
    saving = asyncio.create_task(asyncio.to_thread(store.save, Checkpoint(position=7)))
    assert await asyncio.to_thread(is_being_written.wait, 30)
    closing = asyncio.create_task(asyncio.to_thread(store.close))
    may_go_on.set()
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
