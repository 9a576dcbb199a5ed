"""A sync that takes long keeps nobody who appends, whatever the frame looks like."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.batch_walk import START


def append(log: MessageLog, number: int) -> None:
    """Append a batch that is noted before, since it has the start of another within."""
    entries = [Entry("t", START, 1)]
    frame = batch.encode("gw", 1, number, entries, flags=Flags.LOGGED, origin_time_us=0)
    log.append(frame, batch.check(frame))


def test_what_has_the_start_of_a_batch_within_is_appended_while_a_sync_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MessageLog(tmp_path)
    log.open()
    append(log, 1)
    begun, may_end, sync = threading.Event(), threading.Event(), os.fdatasync

    def slow(fd: int) -> None:
        begun.set()
        may_end.wait()
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    syncing = threading.Thread(target=log.start_sync())
    syncing.start()
    begun.wait()
    append(log, 2)
    assert syncing.is_alive()
    may_end.set()
    syncing.join()
    log.sync()
    log.close()
    again = MessageLog(tmp_path)
    again.open()
    assert len(list(again.read_from(0))) == 2
    again.close()
