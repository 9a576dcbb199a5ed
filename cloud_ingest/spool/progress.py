"""Progress of collectors when nothing comes: it tells a silent gateway from a silent collector.

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
    """Return the time until which a collector heard the tree and the tables have all that it heard.

    Args:
        spools: folders that collectors fill.
        query: the name of the tables' job, as in `cloud_ingest.spool.committed`.

    Returns:
        Microseconds since 1970 by the collector's clock, the latest of all of them; None where no
        collector has a link that forwards, or tables are behind one that they have something of.

    """
    known = list(spools)
    found = [_progress_us(spool, query) for spool in known]
    if any(_is_behind(spool, query) for spool in known):
        return None  # who is collected into that one is not silent since it is not read yet
    return max((one for one in found if one is not None), default=None)


def _is_behind(spool: Path, query: str) -> bool:
    """Return whether tables lack what a spool has, and have had something of it.

    Where the job can't note how far it is, which a spool that it may only read has, nothing is
    known.
    """
    try:
        marked = position_of(read_mark(spool))
    except (OSError, SpoolError):
        return False
    return 0 < committed.position(spool, [query]) < marked


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
