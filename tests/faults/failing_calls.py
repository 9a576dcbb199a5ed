"""Calls with which a gateway reaches its disk, other machines and its clocks; the n-th fails.

Of the disk only calls for what stands below one folder are counted, so whatever else the process
does goes on untouched. A call that is to fail raises the error that the kernel or SQLite would
give; a short write does a part of its work before it raises, a sync that fails loses what it was to
force, and one that is slow has forced nothing before its end. What becomes of connections
`failing_sockets` says. A look at the wall clock that is to fail finds it years from where it was.

Faults that differ in the error's number alone are the same to a gateway that asks for no number: an
error of the disk takes note of who asks for its own, so that a life need not be lived again.
"""

from __future__ import annotations

import errno
import io
import os
import pathlib
import socket
import sqlite3
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

OF_PATHS = ("open", "rename", "replace", "unlink", "mkdir", "stat", "chmod", "listdir", "scandir")
"""Functions of `os` whose first argument is a path."""
OF_DESCRIPTORS = ("write", "fsync", "fdatasync", "ftruncate", "dup", "fchmod")
"""Functions of `os` whose first argument is a descriptor."""
OPEN = "open for reading"
STATEMENTS = "sqlite"
_readlink = os.readlink
_open = io.open
_MOVES = frozenset(("rename", "replace"))
_SYNCS = frozenset(("fsync", "fdatasync"))


DISK, NETWORK, CLOCK = "disk", "network", "clock"
YEARS_US = 10 * 365 * 86_400 * 1_000_000
FOR_EVER = 1 << 60
SLOW_S = 30.0
SILENT_S = 3_600.0


@dataclass(frozen=True)
class Fault:
    """A fault of calls, and how long it lasts.

    Attributes:
        name: in words, for the test's name.
        number: the error's number; 0 for a call that goes well, late or in part.
        lasts: how many calls fail, the first included.
        is_partial: a write does half of its work before.
        place: what is reached by the calls that are counted and fail, or the one call of it.
        shift_us: by so much the wall clock is wrong.
        slow_s: the call takes so long, or its connection is silent for so long.
        raises: what is raised, where that has no number.

    """

    name: str
    number: int = 0
    lasts: int = 1
    is_partial: bool = False
    place: str = DISK
    shift_us: int = 0
    slow_s: float = 0.0
    raises: type[Exception] | None = None

    def __str__(self) -> str:
        return self.name

    def error(self) -> Exception:
        """Return what the call raises."""
        if self.raises is not None:
            return self.raises("it fails")
        if self.place == "getaddrinfo":
            return socket.gaierror(self.number, "no name for now")
        return OSError(self.number, os.strerror(self.number))

    def is_like(self, other: Fault) -> bool:
        """Return whether all but the error's number is the same: its type, too."""
        if not self.number or type(self.error()) is not type(other.error()):
            return False
        return replace(self, name="", number=0) == replace(other, name="", number=0)


def alike(faults: Iterable[Fault]) -> list[tuple[Fault, ...]]:
    """Return faults, those together that differ in the error's number alone."""
    groups: list[tuple[Fault, ...]] = []
    for fault in faults:
        at = next((at for at, group in enumerate(groups) if fault.is_like(group[0])), None)
        if at is None:
            groups.append((fault,))
        else:
            groups[at] += (fault,)
    return groups


class NumberedError(OSError):
    """An error of the disk that takes note of who asks for its number.

    Its text is for people. `pathlib` asks whether it says that there is no file; none here does.
    """

    calls: FailingCalls

    def __getattribute__(self, name: str) -> Any:
        if name in ("errno", "args"):
            asks = sys._getframe(1).f_code.co_filename
            self.calls.is_told_apart |= asks != pathlib.__file__
        return super().__getattribute__(name)


OF_DISK = (
    Fault("EIO-once", errno.EIO),
    Fault("EIO-for-some-calls", errno.EIO, 5),
    Fault("EIO-for-ever", errno.EIO, FOR_EVER),
    Fault("ENOSPC-once", errno.ENOSPC),
    Fault("ENOSPC-for-ever", errno.ENOSPC, FOR_EVER),
    Fault("EMFILE-once", errno.EMFILE),
    Fault("EMFILE-for-some-calls", errno.EMFILE, 5),
    Fault("EINTR-once", errno.EINTR),
    Fault("short-write", errno.ENOSPC, is_partial=True, place="write"),
    Fault("slow-once", slow_s=SLOW_S),
    Fault("slow-for-some-calls", lasts=5, slow_s=SLOW_S),
    Fault("slow-for-ever", lasts=FOR_EVER, slow_s=1.0),
)
OF_THE_DISK = tuple(fault for fault in OF_DISK if fault.number and not fault.is_partial)
"""Those of them that say so at once."""
Draw = Callable[[int], Sequence[int]]
"""Draws which of so many calls are to fail."""
OF_CLOCKS = (
    Fault("clock-ahead", lasts=FOR_EVER, place=CLOCK, shift_us=YEARS_US),
    Fault("clock-behind", lasts=FOR_EVER, place=CLOCK, shift_us=-YEARS_US),
    Fault("clock-ahead-for-a-while", lasts=40, place=CLOCK, shift_us=YEARS_US),
)
OF_CONNECTIONS = (
    Fault("reset-in-send", errno.ECONNRESET, place="send"),
    Fault("broken-pipes", errno.EPIPE, 5, place="send"),
    Fault("no-buffers", errno.ENOBUFS, place="send"),
    Fault("sent-in-halves", lasts=20, is_partial=True, place="send"),
    Fault("reset-in-mid-send", errno.ECONNRESET, is_partial=True, place="send"),
    Fault("takes-nothing-for-long", place="send", slow_s=SLOW_S),
    Fault("reset-in-recv", errno.ECONNRESET, place="recv"),
    Fault("half-comes-and-the-rest-late", place="recv", slow_s=SLOW_S),
    Fault("half-comes-and-no-more", place="recv", slow_s=SILENT_S),
    Fault("EMFILE-in-accept", errno.EMFILE, 5, place="accept"),
    Fault("ECONNABORTED-in-accept", errno.ECONNABORTED, place="accept"),
)
OF_DIALLING = (
    Fault("no-name", socket.EAI_AGAIN, 3, place="getaddrinfo"),
    Fault("name-takes-long", place="getaddrinfo", slow_s=SLOW_S),
    Fault("refused", errno.ECONNREFUSED, 3, place="connect"),
    Fault("unreachable-after-long", errno.ETIMEDOUT, place="connect", slow_s=SLOW_S),
    Fault("EMFILE-in-connect", errno.EMFILE, 3, place="connect"),
)
OF_TLS = (
    Fault("TLS-handshake-fails", place="TLS handshake", raises=ssl.SSLError),
    Fault("TLS-read-fails", place="TLS read", raises=ssl.SSLError),
    Fault("TLS-write-fails", place="TLS write", raises=ssl.SSLError),
    Fault("no-memory-in-TLS-handshake", place="TLS handshake", raises=MemoryError),
    Fault("no-memory-in-TLS-read", place="TLS read", raises=MemoryError),
    Fault("no-memory-in-TLS-write", place="TLS write", raises=MemoryError),
)


class Disk:
    """The device under the log's segments, and under small files that are written anew.

    A sync that fails leaves pages behind that the kernel takes for written: no later sync of the
    same file brings them to the device. Of SQLite's files all is there, and no file that was
    removed comes back.
    """

    def __init__(self) -> None:
        self._synced: dict[str, int] = {}
        self._holes: dict[str, list[tuple[int, int]]] = {}
        self._small: set[str] = set()
        self._old: dict[str, bytes | None] = {}
        """The bytes that stood there, if any, when the names of the folder were last forced."""

    def synced(self, path: str, size: int, *, has_failed: bool) -> None:
        """Take note of a sync of a file, which had this size when it began, or of a folder."""
        before = self._synced.get(path, 0)
        if has_failed and size > before:
            self._holes.setdefault(path, []).append((before, size))
        self._synced[path] = max(before, size)
        if not has_failed:
            for name in [one for one in self._old if str(Path(one).parent) == path]:
                del self._old[name]

    def renamed(self, path: str, to: str, replaced: bytes | None) -> None:
        """Take note that another file stands in the place of one that had this content."""
        self._holes.pop(to, None)
        self._synced[to] = self._synced.pop(path, 0)
        if path in self._holes:
            self._holes[to] = self._holes.pop(path)
        if not to.endswith(".log"):
            self._small.add(to)
            self._old.setdefault(to, replaced)

    def cut_power(self, folder: Path) -> None:
        """Leave of each file what the device has: of a new one nothing before its first sync, and
        the old one where the new one's name was not forced."""
        small = {Path(name) for name in self._small if Path(name).is_relative_to(folder)}
        for path in [*folder.glob("log/*.log"), *(one for one in small if one.is_file())]:
            whole = path.read_bytes()
            data = bytearray(whole[: self._synced.get(str(path), 0)])
            for begin, end in self._holes.pop(str(path), []):
                data[begin:end] = bytes(len(data[begin:end]))
            old = self._old.pop(str(path), whole) if data == whole else data
            if old is None:
                path.unlink()
                continue
            path.write_bytes(old)
            self._synced[str(path)] = len(old)
        self._old = {name: old for name, old in self._old.items() if Path(name) not in small}


def _content(path: str) -> bytes | None:
    """Return what a file has, by a call that is not counted."""
    try:
        with _open(path, "rb") as file:
            return bytes(file.read())
    except OSError:
        return None


class Read:
    """A file that was opened by Python's own function: each reading of it is one of the calls.

    Args:
        file: as it was opened.
        calls: those that may fail.

    """

    def __init__(self, file: Any, calls: FailingCalls) -> None:
        self._file, self._calls = file, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name not in ("read", "readinto", "readline", "readlines"):
            return found

        def reach(*arguments: Any) -> Any:
            self._calls.on_disk("read")
            return found(*arguments)

        return reach

    def __enter__(self) -> Read:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Any:
        self._calls.on_disk("read")
        return iter(self._file)


class FailingCalls:
    """Counts the calls for one folder, and fails those that it is told to.

    Args:
        folder: what stands below it is counted.
        patch: undoes the replacement at the end of the test.
        also: further functions of `os` whose first argument is a descriptor.

    Attributes:
        counts: calls so far, by what they reach and by which call it is; a test sees from it that
            what it means to break is broken.
        wait: passes time for a call that takes long, and comes back when it goes on.
        look: raises an error if who calls is dead.
        failed: the calls that failed, in their order.
        is_told_apart: somebody asked with which error of the disk a call failed.

    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, also: tuple[str, ...] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: list[str] = []
        self.is_told_apart = False
        self.wait: Callable[[float], None] = lambda _: None
        self.look: Callable[[], None] = lambda: None
        self._disk = Disk()
        self._folder = str(folder)
        self._fault: Fault | None = None
        self._from = 0
        for name in OF_PATHS:
            patch.setattr(os, name, self._of_path(name, getattr(os, name)))
        for name in (*OF_DESCRIPTORS, *also):
            patch.setattr(os, name, self._of_descriptor(name, getattr(os, name)))
        patch.setattr(io, "open", self._of_path(OPEN, io.open))
        patch.setattr(sqlite3, "connect", self._connecting(sqlite3.connect))

    def fail(self, number: int, fault: Fault) -> None:
        """From the call with this number on, counted from now, let calls fail."""
        self._from, self._fault = self.counts[fault.place] + number, fault

    def cut_power(self, folder: Path) -> None:
        """Take from a log, and from small files, what no sync has forced to the disk."""
        fault, self._fault = self._fault, None
        self._disk.cut_power(folder)
        self._fault = fault

    def mend(self) -> None:
        """Let no call fail any more."""
        self._fault = None

    def may_fail_within(self, calls: int) -> bool:
        """Return whether one of so many calls to come, of whatever they reach, may fail."""
        fault = self._fault
        if fault is None:
            return False
        return self._from - calls <= self.counts[fault.place] < self._from + fault.lasts

    def reached(self, what: str, place: str = DISK, *, is_write: bool = False) -> Fault | None:
        """Count a call; return the fault with which it ends, if it does."""
        self.look()
        self.counts[what] += 1
        self.counts[place] += 1
        fault = self._fault
        if fault is None or fault.place not in (place, what):
            return None
        if not self._from <= self.counts[fault.place] < self._from + fault.lasts:
            return None
        if fault.is_partial and not is_write:
            self._from += 1  # it waits for the next write
            return None
        self.failed.append(what)
        return fault

    def _on_disk(self, what: str, *, is_write: bool = False) -> Fault | None:
        """Count a call for the disk, and let it take long; return the fault with which it ends."""
        fault = self.reached(what, is_write=is_write)
        if fault is not None and fault.slow_s:
            self.wait(fault.slow_s)
            return None
        return fault

    def on_disk(self, what: str) -> None:
        """Count a call for the disk, and fail with it."""
        fault = self._on_disk(what)
        if fault is not None:
            raise self._error(fault)

    def _error(self, fault: Fault, *of: str) -> Exception:
        plain = OSError(fault.number, os.strerror(fault.number), *of)
        if type(plain) is not OSError:
            return plain
        error = NumberedError(fault.number, os.strerror(fault.number), *of)
        error.calls = self
        return error

    def _is_meant(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)

    def _of_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def reach(path: Any, *more: Any, **options: Any) -> Any:
            if name == OPEN and isinstance(path, int) and self._is_meant(_path_of(path)):
                return Read(
                    call(path, *more, **options), self
                )  # it was opened, and counted, before
            if self._is_meant(path) and (fault := self._on_disk(name)) is not None:
                raise self._error(fault, str(path))
            if name not in _MOVES or not self._is_meant(path):
                done = call(path, *more, **options)
                is_read = name == OPEN and isinstance(path, str | os.PathLike)
                return Read(done, self) if is_read and self._is_meant(path) else done
            replaced = _content(to := os.fspath(more[0]))
            done = call(path, *more, **options)
            self._disk.renamed(os.fspath(path), to, replaced)
            return done

        return reach

    def _of_descriptor(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def reach(fd: int, *more: Any, **options: Any) -> Any:
            if self._is_meant(path := _path_of(fd)):
                size = os.fstat(fd).st_size if name in _SYNCS else 0
                fault = self._on_disk(name, is_write=name == "write")
                if name in _SYNCS:
                    self._disk.synced(path, size, has_failed=fault is not None)
                if fault is not None:
                    if fault.is_partial and more and isinstance(more[0], bytes):
                        return call(fd, more[0][: len(more[0]) // 2])
                    raise self._error(fault)
            return call(fd, *more, **options)

        return reach

    def _connecting(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        on_disk = self._on_disk

        class Connection(sqlite3.Connection):
            """Fails as SQLite does: with its own error, and nothing of the statement done."""

            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                # What undoes a transaction reaches no disk that it would have to wait for.
                fault = None if statement == "ROLLBACK" else on_disk(STATEMENTS)
                if fault is not None:
                    raise sqlite3.OperationalError(_said_by_sqlite(fault))
                return super().execute(statement, *values)

        def reach(path: Any, *more: Any, **options: Any) -> Any:
            if self._is_meant(path) and (fault := self._on_disk("sqlite open")) is not None:
                raise sqlite3.OperationalError(_said_by_sqlite(fault))
            return connect(path, *more, factory=Connection, **options)

        return reach


def _said_by_sqlite(fault: Fault) -> str:
    if fault.number == errno.ENOSPC:
        return "database or disk is full"
    return "unable to open database file" if fault.number == errno.EMFILE else "disk I/O error"


def _path_of(fd: int) -> str:
    try:
        return _readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
