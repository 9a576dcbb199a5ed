"""Tells collectors how far the tables have what is in their spools.

Beside the segments of a spool stands ``committed.<query>``, a line like the mark's: ``<segment>
<bytes>``. All before it is in tables and no longer needed by that query. It is a note for who
trims the spool, and never read by the job: what is written late or not at all loses nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from cloud_ingest.spool.segments import SpoolMark, SpoolRange, position_of

PREFIX = "committed."


def position(spool: Path, queries: Iterable[str]) -> int:
    """Return what all of some queries have read, over all segments; 0 while one has read nothing.

    Args:
        spool: its folder.
        queries: their names.

    """
    found = []
    for query in queries:
        try:
            found.append(position_of(SpoolMark.parse((spool / f"{PREFIX}{query}").read_text())))
        except (OSError, ValueError):
            return 0
    return min(found, default=0)


def withdraw(spool: Path, query: str) -> None:
    """Say that nothing of a spool is known to be in tables.

    Raises:
        OSError: the note can't be deleted.

    """
    (spool / f"{PREFIX}{query}").unlink(missing_ok=True)


def note(ranges: Iterable[SpoolRange], query: str) -> None:
    """Note what has been read up to the last of some ranges of each spool.

    Args:
        ranges: of one trigger.
        query: the name of the tables' job.

    """
    last = {one.spool: one for one in sorted(ranges, key=lambda one: one.position)}
    for spool, one in last.items():
        path = Path(spool) / f"{PREFIX}{query}"
        fresh = path.with_name(f"{path.name}.{threading.get_native_id()}.new")
        text = f"{SpoolMark(one.segment, one.end)}\n"
        with contextlib.suppress(OSError):  # a spool that is only to be read is read as well
            try:
                fresh.write_text(text)
                fresh.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    fresh.unlink()
                _write_over(path, text.encode())


def _write_over(path: Path, data: bytes) -> None:
    """Write a note where the last one stands: a full disk has no room for a second file.

    It would stay full for good, since who trims the spool waits for the note. Until all is written
    the note has no valid first digit: who reads it meanwhile, or after a kill, lets nothing go.

    Raises:
        OSError: there is no note yet, or it can't be written.

    """
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, b"-", 0)
        os.pwrite(fd, data[1:], 1)
        os.ftruncate(fd, len(data))
        os.pwrite(fd, data[:1], 0)
    finally:
        os.close(fd)
