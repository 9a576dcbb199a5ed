"""A small file of records that others have told, and that the log may not hold any more.

What an error keeps a start from reading is there all the same. So a file that could not be read is
read again before long, and is not written before that: its records are taken then, behind those
that came meanwhile.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import Final

import msgpack

from gateway.base.kept_file import KeptFile
from gateway.base.pauses import GrowingPause
from tree_handler.errors import ProtocolError

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
"""A file that can't be read is tried again after a pause, which grows from the one to the other."""

_log = logging.getLogger(__name__)


class RecordFile:
    """The file of one part.

    Args:
        file: which one.
        what: its records are of, for the log.
        take: takes a record of the file, which may be older than what is known, in its wire form;
            raises `ProtocolError` for what is none.

    """

    def __init__(self, file: KeptFile, what: str, take: Callable[[bytes], None]) -> None:
        self._file = file
        self._what = what
        self._take = take
        self._was_read = False
        self._pause = GrowingPause(FIRST_PAUSE_S, LONGEST_PAUSE_S)

    def recall(self) -> None:
        """Take what the file has, if it can be read now."""
        try:
            records = self._file.read(_records)
        except OSError as unread:
            told = "only what the log tells of %s is known until this can be read: %s"
            _log.error(told, self._what, unread)
            return
        self._was_read = True
        for packed in records or ():
            # One by one: an earlier version took records that are none any more.
            try:
                self._take(packed)
            except ProtocolError as error:
                _log.warning("%s: a record is left out: %s", self._file.path, error)

    def next_timer(self) -> float:
        """Return when `handle_timer` is due, in seconds; infinity once the file was read."""
        return math.inf if self._was_read else self._pause.until_s

    def handle_timer(self, now: float) -> None:
        """Read the file if that is still to be done, and time to try again."""
        if now >= self.next_timer():
            self._pause.failed(now)
            self.recall()

    def save(self, records: Callable[[], Iterable[bytes]]) -> None:
        """Write all that is known; a file that still can't be read stays as it is.

        Args:
            records: returns them, in their wire form; called behind the reading.

        """
        if not self._was_read:
            self.recall()
        if not self._was_read:
            return
        try:
            self._file.write(msgpack.packb(list(records())))
        except OSError as error:
            _log.error("%s are not kept, so a restart may not know all: %s", self._what, error)


def _records(data: bytes) -> list[bytes]:
    return [bytes(record) for record in msgpack.unpackb(data)]
