"""Notes the names of writes before these are carried out, for a later life of the gateway.

A client sends its message again by itself (RFC 7252, section 4.2), and that copy says what the
first one said: nothing in it tells a gateway that has started meanwhile that an earlier life had
the write. So its name stands on the disk first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.base.kept_file import KeptFile
from gateway.base.printable import told
from tree_handler.remote.request_ids import MAX_NAMED, NOTE_BYTES

NAME: Final = "named-writes"
_CHECK_BYTES: Final = 4
_RECORD_BYTES: Final = NOTE_BYTES + _CHECK_BYTES
MAX_RECORDS: Final = 2 * MAX_NAMED
"""Then the file is written anew, with those that count: so many are read at a start, and among them
may be many of what was refused, which count for nothing."""

_log = logging.getLogger(__name__)

AfterNote = Callable[[str], None]
"""Is told that a name is on the disk, or why it is not; empty if it is."""


class NotedNames:
    """The names in one file of the state folder.

    Args:
        path: of the file.

    Attributes:
        earlier: the names that earlier lives have noted.

    Raises:
        OSError: it can't be read now; nothing has changed.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        without = "which named writes were carried out before the start"
        self._file = KeptFile(path, without, is_durable=True)
        found = self._file.read(_records, _salvaged) or []
        self.earlier = frozenset(found[-MAX_RECORDS:])
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self._is_whole = False
        """True if the file ends behind a whole record of this life's."""
        self._count = 0
        self._gathered: list[tuple[bytes, AfterNote]] = []
        self._counting: Callable[[], Collection[bytes]] = frozenset
        self._writing: asyncio.Task[None] | None = None

    def note(self, name: bytes, counting: Callable[[], Collection[bytes]], done: AfterNote) -> None:
        """Have a name on the disk.

        Args:
            name: of `NOTE_BYTES`.
            counting: all names that are to be there, if the file is written anew now.
            done: is told when it is there, or why it is not.

        """
        self._gathered.append((name, done))
        self._counting = counting
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="note names of writes")

    async def stop(self) -> None:
        """Wait until what was gathered is written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        while self._gathered:  # what comes while one waits for the disk shares the next sync
            batch, self._gathered = self._gathered, []
            names = [name for name, _ in batch]
            is_anew = not self._is_whole or self._count + len(names) > MAX_RECORDS
            failure = ""
            try:
                put = partial(self._replace, self._counting()) if is_anew else self._append
                await asyncio.to_thread(put, names)
            except Exception as error:  # whoever asked is told
                failure = told(error)
            for _, done in batch:
                self._failures.tried("begin a named write", partial(done, failure))
        self._writing = None

    def _replace(self, counting: Collection[bytes], names: list[bytes]) -> None:
        """Write the file anew, in a thread; raises OSError."""
        wanted = dict.fromkeys((*counting, *names))
        self._file.write(b"".join(map(_record, wanted)))
        self._count, self._is_whole = len(wanted), True

    def _append(self, names: list[bytes]) -> None:
        """Write what is new, in a thread; raises OSError."""
        self._is_whole = False  # until all is known to be there
        data = b"".join(map(_record, names))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError(f"{self._path}: not written as a whole")
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._count += len(names)
        self._is_whole = True


def _record(name: bytes) -> bytes:
    return name + zlib.crc32(name).to_bytes(_CHECK_BYTES, "big")


def _records(data: bytes) -> list[bytes]:
    """Return the names; what is torn at the end was not noted.

    Raises:
        ValueError: a record is none.

    """
    found = _salvaged(data)
    if len(found) != len(data) // _RECORD_BYTES:
        raise ValueError("a record is damaged")
    return found


def _salvaged(data: bytes) -> list[bytes]:
    """Return the names that are right."""
    starts = range(0, len(data) - _RECORD_BYTES + 1, _RECORD_BYTES)
    records = (data[at : at + _RECORD_BYTES] for at in starts)
    return [one[:NOTE_BYTES] for one in records if _record(one[:NOTE_BYTES]) == one]
