"""Beginnings of a query that has ended, and when the job ends with it.

Spark's query ends when a process of Spark's dies, such as that of its Python source, and when a
step of ours fails. It begins again where it was: the checkpoint, the tables and the ledger say so.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import ENOSPC
from typing import Final

from cloud_ingest.spool.segments import SpoolError
from cloud_ingest.tables.delta import OtherWriterError, TableError

TRIES: Final = 5
"""In a row, without a micro-batch between."""
MOST_PAUSE_S: Final = 30.0
DISK_FULL: Final = os.strerror(ENOSPC)
_TOLD: Final = re.compile(r"terminated with exception:(.*?)(?:SQLSTATE: \w+)?$", re.MULTILINE)
MAX_WHY: Final = 300


class SparkGoneError(RuntimeError):
    """The process that Spark runs in has ended, and the session with it."""


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Give an event that SIGTERM and SIGINT set meanwhile."""
    asked = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: asked.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nothing() -> int:
    return 0


@dataclass(slots=True)
class Beginnings:
    """Decides, and waits.

    Attributes:
        follows: whether the job goes on until it is stopped: then it waits for storage, too.
        taken: how many micro-batches it has taken.
        asked: is set when the job is to end.
        say: hears why a query is begun again.

    """

    follows: bool = False
    taken: Callable[[], int] = _nothing
    asked: threading.Event = field(default_factory=threading.Event)
    say: Callable[[str], None] = lambda line: None
    _failed: int = 0
    _taken_before: int = 0

    def is_again(self, text: str) -> bool:
        """Return whether to begin again, once the pause is over; the job is not to end meanwhile.

        Args:
            text: what Spark says of the end.

        """
        pause_s = self.pause_s(text)
        if pause_s is None:
            return False
        tries = "" if is_of_storage(text) else f", try {self._failed} of {TRIES}"
        self.say(f"{_why(text)}: the query is begun again in {pause_s:g} s{tries}")
        return not self.asked.wait(pause_s)

    def pause_s(self, text: str) -> float | None:
        """Return how long to wait before the next beginning; None: there is none."""
        if self.taken() > self._taken_before:
            self._failed = 0
        self._taken_before = self.taken()
        self._failed += 1
        pause_s = min(MOST_PAUSE_S, 2.0 ** min(self._failed - 1, 10))
        if SpoolError.quoted_in(text) or OtherWriterError.__name__ in text:
            return None
        if is_of_storage(text):
            return pause_s if self.follows else None
        return pause_s if self._failed <= TRIES else None


def is_of_storage(text: str) -> bool:
    """Return whether Spark tells of a disk, or of tables that can't be written."""
    return TableError.quoted_in(text) is not None or DISK_FULL in text


def _why(text: str) -> str:
    refused = TableError.quoted_in(text)
    if refused is not None:
        return str(refused)[:MAX_WHY]
    if DISK_FULL in text:
        return DISK_FULL
    found = _TOLD.search(text)
    told = found[1].strip()[:MAX_WHY] if found else ""
    return told or "a process of Spark's is gone"
