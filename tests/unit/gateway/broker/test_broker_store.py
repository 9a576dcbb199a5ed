"""The file of checkpoints is used by threads: one call waits for another to end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.durability.journal import Journal
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store, StoreError
from gateway.log.message_log import MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.node import TreeNode
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.process.state_folder.history import LogHistory
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over
from tree_handler.spanning.spanning_tree import Identity, Parameters


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


def test_thirty_years_of_restarts_leave_no_more_than_the_lives_that_are_not_over(
    tmp_path: Path,
) -> None:
    journal = Journal(("gw-a", 1))
    store = Store(tmp_path / "s")
    last_of: dict[str, int] = {}
    for day in range(30 * 365):  # a neighbour starts again each day, and four lives stay
        epoch = day + 1
        last_of["gw-b"] = epoch
        journal.has_delivered(("gw-b", epoch), 10)
        if day % 100 == 99:  # a checkpoint
            journal.forget(lambda stream: stream[1] < last_of["gw-b"] - 4)
            store.save(Checkpoint(delivered=dict(journal.delivered)))
    assert sorted(journal.delivered) == [("gw-b", epoch) for epoch in range(10_896, 10_951)]
    journal.forget(lambda stream: stream[1] < last_of["gw-b"] - 4)
    store.save(Checkpoint(delivered=dict(journal.delivered)))
    assert store.load().delivered == {("gw-b", epoch): 10 for epoch in range(10_946, 10_951)}
    store.close()


async def test_what_a_note_of_the_log_says_is_over_is_known_to_be(tmp_path: Path) -> None:
    log = MessageLog(tmp_path / "log")
    log.open()
    log.have[("gw-b", 2)] = Intervals([(1, 5)])
    for _, header in epochs_over.notes(log.have, "gw-b", [1], [2]):
        log.have[header.stream] = Intervals([(header.first, header.last)])
    settings = NodeSettings(
        Credentials("gw-a", "tree", bytes(32), epoch=1),
        Identity("gw-a", 1, 1.0, "127.0.0.1"),
        Parameters(),
    )
    node = TreeNode(settings, log, NodeReceiver(lambda entry, header: None))
    history = LogHistory(node, ("gw-a", 1))
    assert history.is_over(("gw-b", 1))
    assert not history.is_over(("gw-b", 2))
    assert not history.is_over(("gw-c", 1))  # it may yet come
    await node.stop()
    log.close()
