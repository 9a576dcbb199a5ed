"""A collector without links: what stands on its input is spooled, and told when it is on disk.

    python round_collector.py SPOOL CLOCK_S

It keeps its spool as `hedgerow collector` does, trimmed of what the tables have. Its input is
batches, each behind its length; its output is one byte for each that is safe.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from shifted_clock import shift

from cloud_ingest.collector import keeping
from cloud_ingest.spool.progress import STATUS_NAME
from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import LogError, MessageLog
from gateway.process.configuration.config import LogSection
from tree_handler import batch

JOB = "ingest"
LENGTH_BYTES = 4
KEPT = LogSection(segment_bytes=65_536, max_bytes=2 * 65_536)
RETRY_S = 0.1
MOST_AT_ONCE = 64


def main() -> None:
    """Collect until the input ends."""
    folder, clock_s = Path(sys.argv[1]), float(sys.argv[2])
    shift(clock_s)
    frames: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(frames,), daemon=True).start()
    log = _opened(folder)
    refusals = CountedLines(logging.getLogger(__name__), time.monotonic)
    while True:
        took = [frames.get()]
        while not frames.empty() and len(took) < MOST_AT_ONCE:
            took.append(frames.get())
        whole = [frame for frame in took if frame is not None]
        for frame in whole:
            _append(log, frame, refusals)
        _sync(log)
        os.write(1, b"." * len(whole))
        _trim(log, refusals)
        _tell(folder)
        if len(whole) < len(took):
            log.close()
            return


def _listen(frames: SimpleQueue[bytes | None]) -> None:
    source = sys.stdin.buffer
    while head := source.read(LENGTH_BYTES):
        frames.put(source.read(int.from_bytes(head)))
    frames.put(None)


def _opened(folder: Path) -> MessageLog:
    """Open the spool, as soon as the disk allows it: a unit is started again until then."""
    while True:
        try:
            return keeping.opened(folder, [JOB], KEPT)
        except LogError:
            time.sleep(RETRY_S)


def _append(log: MessageLog, frame: bytes, refusals: CountedLines) -> None:
    """Append a batch, as soon as the disk takes it: what tables have goes meanwhile."""
    while True:
        try:
            log.append(frame, batch.check(frame))
            return
        except LogError:
            time.sleep(RETRY_S)
            _trim(log, refusals)


def _trim(log: MessageLog, refusals: CountedLines) -> None:
    keeping.keep(log, [JOB], refusals)
    with contextlib.suppress(OSError):  # a full disk: the next time
        log.trim()


def _sync(log: MessageLog) -> None:
    while True:
        try:
            log.sync()
            return
        except OSError:
            time.sleep(RETRY_S)


def _tell(folder: Path) -> None:
    """Say that it hears the tree, when it says so by its own clock."""
    path = folder / STATUS_NAME
    fresh = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        fresh.write_text(json.dumps({"neighbours": [{"forwarding": True}]}))
        os.utime(fresh, (max(0.0, time.time()),) * 2)
        fresh.replace(path)


if __name__ == "__main__":
    main()
