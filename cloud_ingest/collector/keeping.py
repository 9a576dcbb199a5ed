"""A collector's spool: opened, trimmed of what tables have, and tidied beside the segments."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from cloud_ingest.spool import committed, receipts
from gateway.configuration.config import ConfigError, LogSection
from gateway.log.message_log import SEGMENT_SUFFIX, MessageLog


def opened(folder: Path, queries: Sequence[str], log: LogSection) -> MessageLog:
    """Open a spool that is kept for queries as `keep` says; what came when is noted beside it.

    Raises:
        ConfigError: it would not be synced.
        LogError: it can't be opened.

    """
    if log.durability != "sync":
        raise ConfigError("log.durability", "readers of a spool need 'sync'")
    spool = MessageLog(
        folder, segment_bytes=log.segment_bytes, max_bytes=log.max_bytes, mark=receipts.note
    )
    spool.open()
    keep(spool, queries)
    return spool


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
