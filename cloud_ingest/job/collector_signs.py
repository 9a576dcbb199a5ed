"""Reads what spools show of their collectors, and of how far the job is with each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cloud_ingest.evidence.signs import CollectorSign, IngestSigns
from cloud_ingest.spool import committed
from cloud_ingest.spool.progress import STATUS_NAME
from cloud_ingest.spool.segments import SpoolError, position_of, read_mark

MAX_UNTOLD: Final = 32


def collector_signs(spools: Iterable[Path], query: str) -> tuple[CollectorSign, ...]:
    """Return what is seen of the collectors; a spool that can't be read shows nothing.

    Args:
        spools: folders that collectors fill.
        query: the name of the tables' job, as in `cloud_ingest.spool.committed`.

    """
    return tuple(_sign(spool, query) for spool in spools)


class UntoldBeginnings:
    """The restarts of the query, and the job's start, that nobody was told of yet."""

    def __init__(self) -> None:
        self._reasons: list[str] = []
        self._has_started = True

    def begun_again(self, why: str) -> None:
        """Note one more time, and why."""
        self._reasons = [*self._reasons, why][-MAX_UNTOLD:]

    def signs(self, collectors: tuple[CollectorSign, ...]) -> IngestSigns:
        """Return what is to be told now."""
        steady_us = time.monotonic_ns() // 1_000
        return IngestSigns(collectors, tuple(self._reasons), self._has_started, steady_us)

    def told(self, signs: IngestSigns) -> None:
        """Note that somebody was told."""
        self._has_started = False
        del self._reasons[: len(signs.begun_again)]


def _sign(spool: Path, query: str) -> CollectorSign:
    path = spool / STATUS_NAME
    status_us: int | None = None
    status: Any = None
    try:
        status_us = path.stat().st_mtime_ns // 1_000
        status = json.loads(path.read_bytes())
    except (OSError, ValueError):
        pass
    try:
        mark = read_mark(spool)
    except (OSError, SpoolError):
        mark = None
    told = status.get("refusals") if isinstance(status, Mapping) else None
    refusals = {
        name: count
        for name, count in (told.items() if isinstance(told, Mapping) else ())
        if isinstance(name, str) and isinstance(count, int) and 0 <= count < 2**63
    }
    marked = 0 if mark is None else position_of(mark)
    done = committed.position(spool, [query]) if marked else 0
    return CollectorSign(str(spool), status_us, refusals, marked, done)
