"""A collector claims no batch that damage took from its spool, and keeps unreadable files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgpack
import pytest
from unreadable_files import Unopened

from cloud_ingest.collector import shared_spool
from cloud_ingest.collector.shared_spool import SharedSpool
from cloud_ingest.collector.sharing import SharingLimits
from gateway.log.message_log import MessageLog
from gateway.node.links.node import TreeNode
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers

STREAM = ("gw-a", 1)


def opened(folder: Path) -> MessageLog:
    log = MessageLog(folder, segment_bytes=300, mark=True)
    log.open()
    return log


async def test_a_collector_does_not_say_that_it_has_what_damage_took(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for number in range(1, 21):
        rows = [Entry("t", b"21.5")]
        frame = batch.encode(*STREAM, number, rows, flags=Flags.LOGGED, origin_time_us=0)
        log.append(frame, batch.check(frame))
    log.sync()
    known = [pack_numbers({STREAM: Intervals([(1, 20)])}), pack_numbers({}), log.position]
    (tmp_path / shared_spool.FILE_NAME).write_bytes(msgpack.packb(known))
    log.close()
    second = sorted(tmp_path.glob("*.log"))[1]
    held = [header for _, header in batch.frames(second.read_bytes())]
    second.write_bytes(b"")
    again = opened(tmp_path)
    spool = SharedSpool(("c-1", 1), ["c-1", "c-2"], again, SharingLimits(), None)
    assert spool.core.kept.mine[STREAM].missing(1, 20) == [(held[0].first, held[-1].last)]
    again.close()


async def test_a_start_that_cannot_read_what_is_in_which_spool_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    file = tmp_path / shared_spool.FILE_NAME
    elsewhere = pack_numbers({STREAM: Intervals([(1, 20)])})
    file.write_bytes(msgpack.packb([pack_numbers({}), elsewhere, log.position]))
    before = file.read_bytes()
    unopened = Unopened(monkeypatch, shared_spool.FILE_NAME)
    spool = SharedSpool(("c-1", 1), ["c-1", "c-2"], log, SharingLimits(), None)
    assert unopened.tries
    unopened.end()
    node = SimpleNamespace(
        direct=SimpleNamespace(hand_to=lambda receive: None),
        replication=SimpleNamespace(have=log.have),
    )
    spool.ride_on(cast(TreeNode, node))
    spool.write()
    assert file.read_bytes() == before
    log.close()
