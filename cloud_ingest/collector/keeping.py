"""A collector's spool: opened and named, trimmed of what tables have, and tidied."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path

from cloud_ingest.spool import committed, identity, receipts
from gateway.base import replaced_file
from gateway.base.event_log.counted_lines import CountedLines
from gateway.log.message_log import SEGMENT_SUFFIX, MessageLog
from gateway.process.configuration.config import ConfigError, LogSection


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
    _name(folder)
    if queries:
        spool.may_trim(committed.position(folder, queries))
    return spool


def _name(spool: Path) -> None:
    """Give a spool a name, if it has none.

    A disk that refuses is not told here: the next start tries again, and until then the spool is
    known by its bytes alone.
    """
    if not identity.read(spool):
        with contextlib.suppress(OSError):
            name = secrets.token_hex(identity.NAME_BYTES)
            path = spool / identity.FILE_NAME
            replaced_file.replace(path, f"{name}\n".encode(), is_durable=True)


def keep(log: MessageLog, queries: Sequence[str], refusals: CountedLines) -> None:
    """Let the log trim what the tables of all queries have; call it now and then.

    Args:
        log: the spool.
        queries: names of the jobs whose tables are waited for; with none the log trims by its
            size alone.
        refusals: what the disk did not do is counted there.

    """
    if queries:
        log.may_trim(committed.position(log.folder, queries))
    try:
        _tidy(log.folder)
    except OSError as error:
        refusals.count("folder of the spool that can't be tidied", str(error))


def _tidy(spool: Path) -> None:
    for times in spool.glob(f"*{receipts.SUFFIX}"):
        if not times.with_suffix(SEGMENT_SUFFIX).exists():
            with contextlib.suppress(OSError):
                times.unlink()
