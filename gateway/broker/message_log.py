"""The append-only log of batches: what an acknowledgement stands on.

A log is a folder of segments, each the plain concatenation of batch frames, named by the
position of its first byte over all segments. A full segment is sealed with an index beside it
(which numbers of which origin it holds, and all that the log ever held up to its end), so a start
reads one segment and not all. Whole segments are deleted, oldest first, and a torn tail is cut
at start. The collector's spool is this same log with a mark that tells readers how far it is
safe to read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgpack

from gateway.broker.histogram import DurationHistogram
from tree_handler import batch
from tree_handler.batch import Flags, Header
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals
from tree_handler.repair import Epoch, Summary

SEGMENT_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
MARK_NAME = "synced"

Done = Callable[[OSError | None], None]
"""Told when all that was handed in is durable, or why it is not."""


class LogError(OSError):
    """The log can't be opened or written; the message names the file and the reason."""


@dataclass(slots=True)
class _Segment:
    path: Path
    start: int
    length: int = 0
    holds: dict[Epoch, Intervals] = field(default_factory=dict)
    control: list[int] = field(default_factory=list)
    """Where its batches between gateways start."""

    def note(self, at: int, header: Header) -> None:
        """Take a batch that stands at a position into account."""
        self.length = at + header.end
        if header.flags & Flags.CONTROL:
            self.control.append(at)
        if header.logged:
            key = (header.origin, header.epoch)
            self.holds.setdefault(key, Intervals()).add(header.first, header.last)

    def index(self, ever: Mapping[Epoch, Intervals]) -> bytes:
        """What a start needs to know of it, and all numbers that the log had up to its end."""
        packed: bytes = msgpack.packb(
            [self.control, Summary(self.holds, {}).encode(), Summary(dict(ever), {}).encode()]
        )
        return packed

    def read_index(self, data: bytes) -> dict[Epoch, Intervals]:
        """Take over an index; return all numbers that the log had up to its end.

        Raises:
            ValueError: it is damaged.

        """
        try:
            self.control, holds, ever = msgpack.unpackb(data)
        except (TypeError, msgpack.UnpackException) as error:
            raise ValueError("index") from error
        self.holds = Summary.decode(holds).have
        return Summary.decode(ever).have


class MessageLog:
    """Segments of batches in one folder, for one process.

    Args:
        folder: made if missing; locked while open.
        segment_bytes: a segment is sealed when it reaches this size.
        max_bytes: oldest segments are deleted beyond this size in all.
        mark: keep the file `synced` for readers of a spool.

    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 8 << 20,
        max_bytes: int = 256 << 20,
        mark: bool = False,
    ) -> None:
        self.folder = folder
        self.have: dict[Epoch, Intervals] = {}
        """Every logged number that the log holds, or held before it was trimmed."""
        self.appends = 0
        self.appended_bytes = 0
        self.syncs = DurationHistogram()
        """How long each `fdatasync` of a commit took."""
        self.failure = ""
        """Why the last append failed; empty if it did not."""
        self.cut_bytes = 0
        """Bytes of a torn tail that the last start cut off."""
        self._segment_bytes = segment_bytes
        self._max_bytes = max_bytes
        self._mark = mark
        self._segments: list[_Segment] = []
        self._fd = -1
        self._lock_fd = -1
        self._synced_length = 0

    # -- life --------------------------------------------------------------------------------

    def open(self) -> None:
        """Recover what is there and make it ready to append.

        Raises:
            LogError: not a folder, not writable, or in use by another process.

        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock_fd = os.open(self.folder, os.O_RDONLY)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogError(f"{self.folder}: in use by another process") from error
        except OSError as error:
            raise LogError(f"{self.folder}: {error.strerror}") from error
        paths = sorted(self.folder.glob(f"*{SEGMENT_SUFFIX}"))
        for path in paths[:-1]:
            self._segments.append(self._load_sealed(path))
        if paths:
            self._recover_newest(paths[-1])
        else:
            self._start_segment(0)
        self._fd = os.open(self._newest.path, os.O_WRONLY | os.O_APPEND)
        self.sync()

    def close(self) -> None:
        """Sync and let go of the folder."""
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # -- writing -----------------------------------------------------------------------------

    def append(self, frame: bytes, header: Header) -> None:
        """Append one batch: it survives a kill when this returns, a power cut after `sync`.

        Raises:
            LogError: disk full or failing; the log is as it was before.

        """
        segment = self._newest
        if segment.length >= self._segment_bytes:
            segment = self._roll()
        try:
            written = os.write(self._fd, frame)
            if written != len(frame):
                raise OSError(28, "No space left on device")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, segment.length)
            self.failure = error.strerror or str(error)
            raise LogError(f"{segment.path}: {error.strerror}") from error
        self.failure = ""
        self.appends += 1
        self.appended_bytes += len(frame)
        segment.note(segment.length, header)
        if header.logged:
            key = (header.origin, header.epoch)
            self.have.setdefault(key, Intervals()).add(header.first, header.last)

    def sync(self) -> None:
        """Force to the disk all that was appended before."""
        self.start_sync()()

    def start_sync(self) -> Callable[[], None]:
        """What `sync` has to do, as a call for a thread; appending may go on meanwhile.

        The call raises OSError if the disk fails.
        """
        segment, length = self._newest, self._newest.length
        fd = os.dup(self._fd)  # the segment may be sealed, and its own one closed, meanwhile

        def finish() -> None:
            began_s = time.perf_counter()
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
            self.syncs.observe(time.perf_counter() - began_s)
            if self._mark and segment.start + length > self._synced_length:
                self._synced_length = segment.start + length
                _replace(self.folder / MARK_NAME, f"{segment.path.name} {length}\n".encode())

        return finish

    def trim(self) -> bool:
        """Delete the oldest sealed segments beyond ``max_bytes``; whether any went."""
        total = sum(segment.length for segment in self._segments)
        trimmed = False
        while total > self._max_bytes and len(self._segments) > 1:
            oldest = self._segments.pop(0)
            total -= oldest.length
            oldest.path.unlink()
            oldest.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
            trimmed = True
        return trimmed

    # -- reading -----------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Bytes in all segments."""
        return sum(segment.length for segment in self._segments)

    def kept_from(self) -> dict[Epoch, int]:
        """The lowest logged number still here, by (origin, epoch); beyond the last if none."""
        lowest = {key: numbers.last + 1 for key, numbers in self.have.items()}
        for segment in self._segments:
            for key, numbers in segment.holds.items():
                first = next(iter(numbers))[0]
                lowest[key] = min(first, lowest.get(key, first))
        return lowest

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        """The batches of one origin and epoch that hold any number of ``ranges``, as appended.

        What is read is fixed by the call; the reading itself may go on in a thread.

        Raises:
            LogError: a segment can't be read.

        """
        candidates = [
            (segment.path, segment.length)
            for segment in self._segments
            if key in segment.holds and _meet(segment.holds[key], ranges)
        ]
        return _scan(candidates, key, ranges)

    def control(self) -> Iterator[tuple[bytes, Header]]:
        """All batches between gateways that the log holds, oldest first (membership at start)."""
        for segment in self._segments:
            if segment.control:
                data = segment.path.read_bytes()
                for at in segment.control:
                    header = batch.check(data, at)
                    yield data[at : at + header.end], header

    # -- within ------------------------------------------------------------------------------

    @property
    def _newest(self) -> _Segment:
        return self._segments[-1]

    def _start_segment(self, start: int) -> None:
        path = self.folder / f"{start:020d}{SEGMENT_SUFFIX}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.fsync(self._lock_fd)
        self._segments.append(_Segment(path, start))

    def _roll(self) -> _Segment:
        sealed = self._newest
        os.fdatasync(self._fd)
        os.close(self._fd)
        _replace(sealed.path.with_suffix(INDEX_SUFFIX), sealed.index(self.have))
        self._start_segment(sealed.start + sealed.length)
        self._fd = os.open(self._newest.path, os.O_WRONLY | os.O_APPEND)
        return self._newest

    def _load_sealed(self, path: Path) -> _Segment:
        segment = _Segment(path, int(path.stem))
        try:
            self._remember(segment.read_index(path.with_suffix(INDEX_SUFFIX).read_bytes()))
            segment.length = path.stat().st_size
        except (OSError, ValueError):
            # The index is only a short cut: the segment itself tells the same.
            segment = _Segment(path, int(path.stem))
            for at, header in batch.frames(path.read_bytes()):
                segment.note(at, header)
            self._remember(segment.holds)
        return segment

    def _recover_newest(self, path: Path) -> None:
        segment = _Segment(path, int(path.stem))
        data = path.read_bytes()
        with contextlib.suppress(BatchError):
            for at, header in batch.frames(data):
                segment.note(at, header)
        self.cut_bytes = len(data) - segment.length
        if self.cut_bytes:
            os.truncate(path, segment.length)
        self._remember(segment.holds)
        self._segments.append(segment)

    def _remember(self, held: dict[Epoch, Intervals]) -> None:
        for key, numbers in held.items():
            self.have.setdefault(key, Intervals()).update(numbers)


def _meet(one: Intervals, other: Intervals) -> bool:
    return any(one.missing(first, last) != [(first, last)] for first, last in other)


def _scan(
    segments: list[tuple[Path, int]], key: Epoch, ranges: Intervals
) -> Iterator[tuple[bytes, Header]]:
    for path, length in segments:
        try:
            data = path.read_bytes()[:length]
        except OSError as error:
            raise LogError(f"{path}: {error.strerror}") from error
        for at, header in batch.frames(data):
            whole = [(header.first, header.last)]
            if (
                header.logged
                and (header.origin, header.epoch) == key
                and ranges.missing(header.first, header.last) != whole
            ):
                yield data[at : at + header.end], header


def _replace(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old or the new one, never a part."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    fresh.rename(path)
