"""Calls with which a gateway reaches its disk, its clients and its clocks, of which the n-th fails.

Of the disk only calls for what stands below one folder are counted, so whatever else the process
does goes on untouched. A call that is to fail raises the error that the kernel or SQLite would
give; a short write does a part of its work before it raises, and a sync that fails loses what it
was to force. A write to a client that is to fail loses the connection, and a look at the wall clock
finds it years from where it was.
"""

from __future__ import annotations

import errno
import io
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OF_PATHS = ("open", "rename", "replace", "unlink", "mkdir", "stat", "chmod")
"""Functions of `os` whose first argument is a path."""
OF_DESCRIPTORS = ("write", "fsync", "fdatasync", "ftruncate", "dup", "fchmod")
"""Functions of `os` whose first argument is a descriptor."""
STATEMENTS = "sqlite"
_SYNCS = frozenset(("fsync", "fdatasync"))


DISK, SOCKET, CLOCK = "disk", "socket", "clock"
YEARS_US = 10 * 365 * 86_400 * 1_000_000


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and for how long.

    Attributes:
        name: in words, for the test's name.
        number: the error's number.
        lasts: how many calls fail, the first included.
        is_partial: a write does half of its work before.
        place: what is reached by the calls that are counted and fail.
        shift_us: by so much the wall clock is wrong.

    """

    name: str
    number: int = 0
    lasts: int = 1
    is_partial: bool = False
    place: str = DISK
    shift_us: int = 0

    def __str__(self) -> str:
        return self.name


FOR_EVER = 1 << 60
FAULTS = (
    Fault("EIO-once", errno.EIO),
    Fault("EIO-for-some-calls", errno.EIO, 5),
    Fault("EIO-for-ever", errno.EIO, FOR_EVER),
    Fault("ENOSPC-once", errno.ENOSPC),
    Fault("ENOSPC-for-ever", errno.ENOSPC, FOR_EVER),
    Fault("EMFILE-once", errno.EMFILE),
    Fault("EMFILE-for-some-calls", errno.EMFILE, 5),
    Fault("EINTR-once", errno.EINTR),
    Fault("short-write", errno.ENOSPC, is_partial=True),
    Fault("connection-lost", place=SOCKET),
    Fault("connections-lost", lasts=5, place=SOCKET),
    Fault("lost-in-mid-write", is_partial=True, place=SOCKET),
    Fault("clock-ahead", lasts=FOR_EVER, place=CLOCK, shift_us=YEARS_US),
    Fault("clock-behind", lasts=FOR_EVER, place=CLOCK, shift_us=-YEARS_US),
    Fault("clock-ahead-for-a-while", lasts=40, place=CLOCK, shift_us=YEARS_US),
)


class Disk:
    """What of the log's segments has reached the device.

    A sync that fails leaves pages behind that the kernel takes for written: no later sync of the
    same file brings them to the device.
    """

    def __init__(self) -> None:
        self._synced: dict[str, int] = {}
        self._holes: dict[str, list[tuple[int, int]]] = {}

    def synced(self, fd: int, *, has_failed: bool) -> None:
        """Take note of a sync of the file behind a descriptor."""
        path, size = _path_of(fd), os.fstat(fd).st_size
        before = self._synced.get(path, 0)
        if has_failed and size > before:
            self._holes.setdefault(path, []).append((before, size))
        self._synced[path] = max(before, size)

    def cut_power(self, folder: Path) -> None:
        """Leave of each segment what the device has."""
        for path in folder.glob("log/*.log"):
            data = bytearray(path.read_bytes()[: self._synced.get(str(path), 0)])
            for begin, end in self._holes.pop(str(path), []):
                data[begin:end] = bytes(len(data[begin:end]))
            path.write_bytes(data)
            self._synced[str(path)] = len(data)


class FailingCalls:
    """Counts the calls for one folder, and fails those that it is told to.

    Args:
        folder: what stands below it is counted.
        patch: undoes the replacement at the end of the test.

    Attributes:
        counts: calls so far, by what they reach.
        made: how many of each kind; a test sees from it that what it means to break is broken.
        failed: the calls that failed, in their order.

    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.made: Counter[str] = Counter()
        self.failed: list[str] = []
        self._disk = Disk()
        self._folder = str(folder)
        self._fault: Fault | None = None
        self._from = 0
        for name in OF_PATHS:
            patch.setattr(os, name, self._of_path(name, getattr(os, name)))
        for name in OF_DESCRIPTORS:
            patch.setattr(os, name, self._of_descriptor(name, getattr(os, name)))
        patch.setattr(io, "open", self._of_path("open for reading", io.open))
        patch.setattr(sqlite3, "connect", self._connecting(sqlite3.connect))

    def fail(self, number: int, fault: Fault) -> None:
        """From the call with this number on, counted from now, let calls fail."""
        self._from, self._fault = self.counts[fault.place] + number, fault

    def cut_power(self) -> None:
        """Take from the log's segments what no sync has forced to the disk."""
        fault, self._fault = self._fault, None
        self._disk.cut_power(Path(self._folder))
        self._fault = fault

    def mend(self) -> None:
        """Let no call fail any more."""
        self._fault = None

    def reached(self, what: str, place: str = DISK, *, is_write: bool = False) -> Fault | None:
        """Count a call; return the fault with which it ends, if it does."""
        self.made[what] += 1
        self.counts[place] += 1
        fault = self._fault
        if fault is None or fault.place != place:
            return None
        if not self._from <= self.counts[place] < self._from + fault.lasts:
            return None
        if fault.is_partial and not is_write:
            self._from += 1  # it waits for the next write
            return None
        self.failed.append(what)
        return fault

    def _is_meant(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)

    def _of_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def reach(path: Any, *more: Any, **options: Any) -> Any:
            if self._is_meant(path) and (fault := self.reached(name)) is not None:
                raise OSError(fault.number, os.strerror(fault.number), str(path))
            return call(path, *more, **options)

        return reach

    def _of_descriptor(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def reach(fd: int, *more: Any, **options: Any) -> Any:
            if self._is_meant(_path_of(fd)):
                fault = self.reached(name, is_write=name == "write")
                if name in _SYNCS:
                    self._disk.synced(fd, has_failed=fault is not None)
                if fault is not None:
                    if fault.is_partial and more and isinstance(more[0], bytes):
                        return call(fd, more[0][: len(more[0]) // 2])
                    raise OSError(fault.number, os.strerror(fault.number))
            return call(fd, *more, **options)

        return reach

    def _connecting(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        calls = self

        class Connection(sqlite3.Connection):
            """Fails as SQLite does: with its own error, and nothing of the statement done."""

            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                # What undoes a transaction reaches no disk that it would have to wait for.
                fault = None if statement == "ROLLBACK" else calls.reached(STATEMENTS)
                if fault is not None:
                    raise sqlite3.OperationalError(_said_by_sqlite(fault))
                return super().execute(statement, *values)

        def reach(path: Any, *more: Any, **options: Any) -> Any:
            if self._is_meant(path) and (fault := self.reached("sqlite open")) is not None:
                raise sqlite3.OperationalError(_said_by_sqlite(fault))
            return connect(path, *more, factory=Connection, **options)

        return reach


def _said_by_sqlite(fault: Fault) -> str:
    if fault.number == errno.ENOSPC:
        return "database or disk is full"
    return "unable to open database file" if fault.number == errno.EMFILE else "disk I/O error"


def _path_of(fd: int) -> str:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return ""
