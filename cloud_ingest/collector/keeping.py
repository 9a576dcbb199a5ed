"""What a collector may trim of its spool, and what is left beside segments that are gone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from cloud_ingest.spool import committed, receipts
from gateway.log.message_log import SEGMENT_SUFFIX, MessageLog


def keep(log: MessageLog, queries: Sequence[str]) -> None:
    """Let the log trim what the tables of all queries have; call it now and then.

    Args:
        log: the spool.
        queries: names of the jobs whose tables are waited for; with none the log trims by its
            size alone.

    """
    if queries:
        log.may_trim(committed.position(log.folder, queries))
    _tidy(log.folder)


def _tidy(spool: Path) -> None:
    for times in spool.glob(f"*{receipts.SUFFIX}"):
        if not times.with_suffix(SEGMENT_SUFFIX).exists():
            with contextlib.suppress(OSError):
                times.unlink()
