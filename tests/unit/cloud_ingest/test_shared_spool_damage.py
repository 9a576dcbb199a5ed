"""What damage took from a spool is not told to other collectors as held."""

from __future__ import annotations

from pathlib import Path

import msgpack

from cloud_ingest.collector import shared_spool
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers

STREAM = ("gw-a", 1)


def opened(folder: Path) -> MessageLog:
    log = MessageLog(folder, segment_bytes=300, mark=True)
    log.open()
    return log


def test_a_collector_does_not_say_that_it_has_what_damage_took(tmp_path: Path) -> None:
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
    kept, _ = shared_spool._read(again)
    assert kept.mine[STREAM].missing(1, 20) == [(held[0].first, held[-1].last)]
    again.close()
