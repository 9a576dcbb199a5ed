"""An audit trail: what was changed, by whom and when, one JSON object a line, in a bounded file.

For changes of keys, policy and membership. It holds no secrets: who appends names things, and never
their content. The trail is appended to by several processes; when it has grown to `MOST_BYTES` it
becomes ``NAME.1``, in place of the one before, and a new one begins.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from light_dataclasses import dataclass

FILE_NAME = "audit.jsonl"
"""Of a trail, in the folder that it tells of."""
MOST_BYTES = 1 << 20
"""Some 5,000 changes; as many are kept in the file before."""
TEXT_CHARACTERS = 256
"""Of each text in a change."""
_APPENDED = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC

Detail = str | int | bool | None | list[str]


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """One change.

    Attributes:
        time_s: when, in seconds since 1970.
        who: who made it: a user of the machine, or a principal.
        what: the kind of change: ``certificate issued``.
        of: what it says of it, by name.

    """

    time_s: float
    who: str
    what: str
    of: dict[str, Detail] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the line's object."""
        return {"time_s": round(self.time_s, 3), "who": self.who, "what": self.what, **self.of}


class AuditTrail:
    """The trail in one file.

    Args:
        path: the file; its folder is there.
        most_bytes: how long it grows.

    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self._most_bytes = most_bytes

    def append(self, who: str, what: str, time_s: float | None = None, **of: Detail) -> None:
        """Write a change behind all others; it is on the disk when this returns.

        It waits for the disk: nothing for an event loop, unlike `remark`.

        Args:
            who: who made it.
            what: its kind.
            time_s: when, in seconds since 1970; None for now.
            of: what else there is to say; no secrets.

        Raises:
            OSError: it can't be written.

        """
        at_s = time.time() if time_s is None else time_s
        with self._locked() as descriptor:
            os.write(descriptor, _line(at_s, who, what, of))
            # An event loop that has a remark to make waits for no disk.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.fsync(descriptor)

    def remark(self, who: str, what: str, **of: Detail) -> None:
        """Write a change behind all others, which a power cut may take back.

        Args:
            who: who made it.
            what: its kind.
            of: what else there is to say; no secrets.

        Raises:
            OSError: it can't be written.

        """
        with self._locked() as descriptor:
            os.write(descriptor, _line(time.time(), who, what, of))

    def changes(self) -> Iterator[AuditedChange]:
        """Yield all that are kept, the oldest first; lines that can't be read are left out.

        Raises:
            OSError: a file is there and can't be read.

        """
        for path in (self._older, self.path):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                for line in file:
                    change = _read(line)
                    if change is not None:
                        yield change

    def newest(self, count: int) -> list[AuditedChange]:
        """Return the newest ones, the newest first; the lines of no others are read.

        Args:
            count: how many at most; lines among the newest that can't be read are left out.

        Raises:
            OSError: a file is there and can't be read.

        """
        lines: deque[bytes] = deque(maxlen=count)
        for path in (self._older, self.path):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                lines.extend(file)
        found = map(_read, reversed(lines))
        return [change for change in found if change is not None]

    def changes_of(self, what: str) -> Iterator[AuditedChange]:
        """Yield those of one kind that are kept, the oldest first; no other lines are read.

        Args:
            what: the kind.

        Raises:
            OSError: a file is there and can't be read.

        """
        written = json.dumps(what).encode()
        for path in (self._older, self.path):
            with contextlib.suppress(FileNotFoundError):
                data = path.read_bytes()
                at = data.find(written)
                while at >= 0:
                    end = data.find(b"\n", at) + 1 or len(data)
                    change = _read(data[data.rfind(b"\n", 0, at) + 1 : end])
                    if change is not None and change.what == what:
                        yield change
                    at = data.find(written, end)

    @property
    def _older(self) -> Path:
        return self.path.with_name(f"{self.path.name}.1")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """Yield the file to append to, which no other process puts aside meanwhile."""
        while True:
            descriptor = os.open(self.path, _APPENDED, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not self._is_current(descriptor):
                    continue
                if os.fstat(descriptor).st_size >= self._most_bytes:
                    self.path.replace(self._older)
                    continue
                _end_line(descriptor)
                yield descriptor
                return
            finally:
                os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False


def _end_line(descriptor: int) -> None:
    """End a line that a power cut has cut off, lest the next one is a part of it."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


def _line(time_s: float, who: str, what: str, of: Mapping[str, Detail]) -> bytes:
    details = {name: _bounded(value) for name, value in of.items()}
    return json.dumps(AuditedChange(time_s, _short(who), what, details).as_json()).encode() + b"\n"


def current_user() -> str:
    """Return who runs this process, and who became that user by sudo."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number that no user has, as in a container
        user = str(os.getuid())
    before = os.environ.get("SUDO_USER", "")
    return f"{user} (sudo by {before})" if before and before != user else user


def _bounded(value: Detail) -> Detail:
    if isinstance(value, str):
        return _short(value)
    return [_short(one) for one in value] if isinstance(value, list) else value


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else f"{text[: TEXT_CHARACTERS - 3]}..."


def _read(line: bytes) -> AuditedChange | None:
    try:
        row = json.loads(line)
        time_s, who, what = float(row.pop("time_s")), str(row.pop("who")), str(row.pop("what"))
    except (ValueError, KeyError, TypeError, AttributeError):  # cut off by a power cut
        return None
    return AuditedChange(time_s, who, what, row)
