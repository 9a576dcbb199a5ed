"""How far collectors are when nothing comes: what tells a silent gateway from a silent collector.

A collector that runs writes ``status.json`` into its spool every second (`collector.command`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from cloud_ingest.spool import committed
from cloud_ingest.spool.segments import SpoolError, position_of, read_mark

STATUS_NAME = "status.json"


def progress_us(spools: Iterable[Path], query: str) -> int | None:
    """Until when a collector heard the tree and the tables have all that it heard.

    Args:
        spools: folders that collectors fill.
        query: the name of the tables' job, as in `cloud_ingest.spool.committed`.

    Returns:
        Microseconds since 1970 by the collector's clock, the latest of all of them; None where no
        collector has a link that forwards, or tables are behind.

    """
    found = [_progress_us(spool, query) for spool in spools]
    return max((one for one in found if one is not None), default=None)


def _progress_us(spool: Path, query: str) -> int | None:
    path = spool / STATUS_NAME
    try:
        written_us = path.stat().st_mtime_ns // 1_000
        neighbours = json.loads(path.read_bytes())["neighbours"]
        hears = any(one["forwarding"] for one in neighbours)
        mark = read_mark(spool)  # after the time: what came since then is behind it
    except (OSError, ValueError, TypeError, KeyError, SpoolError):
        return None
    if not hears or (mark and committed.position(spool, [query]) < position_of(mark)):
        return None
    return written_us
