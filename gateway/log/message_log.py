"""The append-only log of batches: what an acknowledgement stands on.

A log is a folder of segments, each the plain concatenation of batch frames, named by the
position of its first byte over all segments. A full segment is sealed with an index beside it
(which numbers of which stream it holds, and all that the log ever held up to its end), so a start
reads one segment and not all. Whole segments are deleted, oldest first, and a torn tail is cut
at start. The collector's spool is this same log with a mark that tells readers how far it is
safe to read.

What a failing disk may do: an append or a new segment that fails leaves the log as it was, and the
next append tries again. A sealed segment that the disk has damaged is named; what can't be read of
it is skipped.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gateway import replaced_file
from gateway.log import loading, scan
from gateway.log.damage import Damage
from gateway.log.errors import LogError
from gateway.log.going import GoingSegments
from gateway.log.histogram import DurationHistogram
from gateway.log.sealing import INDEX_SUFFIX, Sealing
from gateway.log.segment import Segment
from gateway.log.sequential import read_piece
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals
from tree_handler.replication import epochs_over

__all__ = ["Done", "LogError", "MessageLog"]

SEGMENT_SUFFIX = ".log"
MARK_NAME = "synced"
MAX_SEALED = 2
"""Sealed segments that wait for a sync; with more the next append waits for the disk."""
_SEGMENTS = "[0-9]" * 20 + SEGMENT_SUFFIX

_log = logging.getLogger(__name__)

Done = Callable[[OSError | None], None]
"""Told when all that was handed in is durable, or why it is not."""


class MessageLog:
    """Segments of batches in one folder, for one process.

    Args:
        folder: made if missing; locked while open.
        segment_bytes: a segment is sealed when it reaches this size.
        max_bytes: oldest segments are deleted beyond this size in all.
        mark: keep the file `synced` for readers of a spool; a call is told before, in the thread.

    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 8 << 20,
        max_bytes: int = 256 << 20,
        mark: bool | Callable[[Path, int], None] = False,
    ) -> None:
        self.folder = folder
        self.have: dict[Epoch, Intervals] = {}
        """Every number that the log holds, or held before it was trimmed, by stream: of logged
        messages, and of those that it states as passed over. Not of streams that are over."""
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
        self._segments: list[Segment] = []
        self._fd = self._lock_fd = -1
        self._synced_length = 0
        self._needed_from: int | None = None
        self._is_torn = False
        """Whether a part of a refused frame may stand at the end of the newest segment."""
        self._is_suspect = False
        """Whether a sync of the newest segment failed, so that the disk may lack a part of it."""
        self._damage = Damage()
        self._sealing = Sealing()
        self._syncing = threading.Lock()

    # -- life --------------------------------------------------------------------------------

    def open(self) -> None:
        """Recover what is there and make it ready to append.

        Raises:
            LogError: not a folder, not writable, full, or in use by another process.

        """
        try:
            self._recover()
        except OSError as error:
            self._let_go()
            why = error.strerror if error.errno != errno.EAGAIN else "in use by another process"
            raise LogError(f"{error.filename or self.folder}: {why}") from error

    def _recover(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_fd = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        paths = sorted(self.folder.glob(_SEGMENTS))
        for path in paths[:-1]:
            segment, ever = loading.sealed(path, path.with_suffix(INDEX_SUFFIX), self._damage)
            self._segments.append(segment)
            self._remember(ever)
        if paths:
            segment, self.cut_bytes = loading.newest(paths[-1])
            self._segments.append(segment)
            self._remember(segment.holds)
            self._fd = os.open(self._newest.path, os.O_WRONLY | os.O_APPEND)
        else:
            self._fd = self._start_segment(0)
        epochs_over.prune(self.have)
        for one, after in itertools.pairwise(self._segments):
            self._damage.expect(one.path, one.length, after.start - one.start)
        self.sync()

    def close(self) -> None:
        """Sync and let go of the folder."""
        try:
            if self._fd >= 0:
                self.sync()
        except OSError as error:
            _log.error("%s: not synced at the end: %s", self._newest.path, error.strerror)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock_fd = -1
        self._sealing.close()

    # -- writing -----------------------------------------------------------------------------

    def append(self, frame: bytes, header: Header) -> None:
        """Append one batch: it survives a kill when this returns, a power cut after `sync`.

        Raises:
            LogError: disk full or failing; the log is as it was before.

        """
        segment = self._newest
        try:
            if self._is_torn:  # what is appended behind a torn frame would be cut with it
                self._cut_torn()
            if segment.length >= self._segment_bytes or self._is_suspect:
                segment = self._roll()
            self._is_torn = True
            if os.write(self._fd, frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._is_torn = False
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut_torn()
            self.failure = error.strerror or str(error)
            raise LogError(f"{error.filename or segment.path}: {error.strerror}") from error
        self.failure = ""
        self.appends += 1
        self.appended_bytes += len(frame)
        segment.note(segment.length, header)
        if header.numbered:
            key = header.stream
            had = self.have.get(key)
            if had is None:
                had = self.have[key] = Intervals()
            had.add(header.first, header.last)

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
            with self._syncing:
                began_s = time.perf_counter()
                try:
                    self._sealing.complete(self._lock_fd)
                    os.fdatasync(fd)
                except OSError:
                    # The kernel forgets what it could not write: a later sync would not tell.
                    self._is_suspect = self._is_suspect or segment is self._newest
                    raise
                finally:
                    os.close(fd)
                self.syncs.observe(time.perf_counter() - began_s)
                if self._mark and segment.start + length > self._synced_length:
                    self._synced_length = segment.start + length
                    if callable(self._mark):
                        self._mark(segment.path, length)
                    mark = f"{segment.path.name} {length}\n"
                    replaced_file.replace(self.folder / MARK_NAME, mark.encode())

        return finish

    def trim(self) -> bool:
        """Delete the oldest sealed segments beyond ``max_bytes``; whether any went.

        None goes that a start would still need: see `may_trim`.

        Raises:
            OSError: none went, for the oldest can't be deleted.

        """
        total = self.length
        trimmed = False
        unfinished = self._sealing.unfinished
        # An index tells what was in all before it, so the newest one that is written stays.
        kept = 2 + unfinished if unfinished else 1
        while total > self._max_bytes and len(self._segments) > kept:
            if self._needed_from is not None and self._segments[1].start > self._needed_from:
                break
            oldest = self._segments[0]
            try:
                oldest.path.with_suffix(INDEX_SUFFIX).unlink(missing_ok=True)
                oldest.path.unlink(missing_ok=True)
            except OSError:
                if trimmed:
                    break
                raise
            del self._segments[0]
            self._damage.segments.discard(oldest.path)
            total -= oldest.length
            trimmed = True
        return trimmed

    def goes_next(self, position: int, ahead_bytes: int) -> GoingSegments:
        """The sealed segments from a position on that are beyond ``max_bytes`` as soon as the log
        has grown by so much more."""
        keeps_from = self.position + ahead_bytes - self._max_bytes
        sealed = self._segments[:-1]
        found = [one for one in sealed if position <= one.start < keeps_from]
        behind = found[-1].start + found[-1].length if found else position
        return GoingSegments(found, behind, self._damage)

    def may_trim(self, before: int) -> None:
        """Whoever needs the log at a start needs nothing before this position; until the next
        call, what stands behind it is not trimmed."""
        self._needed_from = before

    def forget(self, streams: Iterable[Epoch]) -> None:
        """The log holds nothing of these, and a note that they are over (`epochs_over`)."""
        for stream in streams:
            self.have.pop(stream, None)

    # -- reading -----------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Where the next batch will stand, over all segments that ever were."""
        return self._newest.start + self._newest.length

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        """All batches from a position on, oldest first.

        Raises:
            LogError: a segment can't be read.

        """
        for segment in list(self._segments):
            if segment.start + segment.length <= position:
                continue
            try:
                data = segment.path.read_bytes()[: segment.length]
            except OSError as error:
                raise LogError(f"{segment.path}: {error.strerror}") from error
            for at, header in self._damage.readable(segment.path, data):
                if segment.start + at >= position:
                    yield data[at : at + header.end], header

    def reading_on(
        self, position: int, limit_bytes: int
    ) -> Callable[[], tuple[list[tuple[bytes, Header]], int]]:
        """Read on from where a batch starts: a call, which may be made in a thread, for some of
        the next batches and the position behind them. What was trimmed is passed over.

        The call raises LogError if the segment can't be read.
        """
        segment = next(
            s for s in self._segments if position < s.start + s.length or s is self._newest
        )
        path, start, end = segment.path, segment.start, segment.length
        at = max(position, start) - start

        def read() -> tuple[list[tuple[bytes, Header]], int]:
            found, behind = read_piece(path, at, end, limit_bytes, self._damage)
            return found, start + behind

        return read

    @property
    def length(self) -> int:
        """Bytes in all segments."""
        return sum(segment.length for segment in self._segments)

    def where(self, key: Epoch, number: int) -> int:
        """Where the segment begins that holds a number of a stream; the log's end if none does."""
        found = (s.start for s in reversed(self._segments) if number in s.holds.get(key, ()))
        return next(found, self.position)

    def kept_from(self) -> dict[Epoch, int]:
        """The lowest logged number still here, by stream; beyond the last if none."""
        lowest = {key: numbers.last + 1 for key, numbers in self.have.items()}
        for segment in self._segments:
            for key, numbers in segment.holds.items():
                first = next(iter(numbers))[0]
                lowest[key] = min(first, lowest.get(key, first))
        return lowest

    def read(self, key: Epoch, ranges: Intervals) -> Iterator[tuple[bytes, Header]]:
        """The batches of one stream that hold any number of ``ranges``, as appended: statements of
        numbers passed over too.

        What is read is fixed by the call; the reading itself may go on in a thread. What the disk
        has damaged is left out.

        Raises:
            LogError: a segment can't be read.

        """
        return scan.batches(self._segments, key, ranges, self._damage)

    def in_sequence(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        """The batches of one stream that hold any number of ``first..last``, by their numbers.

        Repair brings them in any order, and so the log has them. A part at a time is read.

        Raises:
            LogError: a segment can't be read.

        """
        return scan.in_sequence(self.read, key, first, last)

    def control(self) -> Iterator[tuple[bytes, Header]]:
        """All batches between gateways that the log holds, oldest first (membership at start)."""
        for segment in self._segments:
            yield from self._damage.batches_at(segment.path, segment.control)

    # -- within ------------------------------------------------------------------------------

    @property
    def _newest(self) -> Segment:
        return self._segments[-1]

    def _start_segment(self, start: int) -> int:
        """Make the next segment and return its descriptor."""
        path = self.folder / f"{start:020d}{SEGMENT_SUFFIX}"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._sealing.begun()
        self._segments.append(Segment(path, start))
        return fd

    def _roll(self) -> Segment:
        """Seal the newest segment and start the next; if that fails, nothing has changed."""
        newest = self._newest
        if self._is_suspect or self._sealing.unsynced >= MAX_SEALED:  # the disk does not keep up
            with self._syncing:
                self._sealing.complete(self._lock_fd)
                os.fdatasync(self._fd)
        fd, index = self._fd, newest.index(self.have)
        self._fd = self._start_segment(newest.start + newest.length)
        self._sealing.add(newest, fd, index)
        self._is_suspect = False
        return self._newest

    def _cut_torn(self) -> None:
        os.ftruncate(self._fd, self._newest.length)
        self._is_torn = False

    def _remember(self, held: dict[Epoch, Intervals]) -> None:
        for key, numbers in held.items():
            self.have.setdefault(key, Intervals()).update(numbers)
