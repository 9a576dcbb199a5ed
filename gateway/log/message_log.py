"""The append-only log of batches: what an acknowledgement stands on.

A log is a folder of segments, each the plain concatenation of batch frames, named by the
position of its first byte over all segments. A full segment is sealed with an index beside it
(which numbers of which stream it holds, and all that the log ever held up to its end), so a start
reads one segment and not all. Whole segments are deleted, oldest first, and that is noted before
(`gateway.log.trimmed`), so that what else is gone is known to be lost. The collector's spool is
this same log with a mark that tells readers how far it is safe to read.

What a failing disk may do: an append or a new segment that fails leaves the log as it was, and the
next append tries again. A sync that fails is not forgotten: none succeeds before what it covered
was written again (`gateway.log.sealing`). Of the end, a start cuts off only what an append can have
left there (`gateway.log.loading`). All other damage stays as it is, in a segment to which nothing
more is appended; it is named, read around, and its numbers are not what the log has.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gateway.base import replaced_file
from gateway.base.duration_histogram import DurationHistogram
from gateway.log import loading
from gateway.log.disk_failure import DiskFailure
from gateway.log.errors import LogError
from gateway.log.index import SUFFIX
from gateway.log.loading import Loaded
from gateway.log.readable_log import ReadableLog, only_in
from gateway.log.recovered import assumed_trimmed, numbers_of
from gateway.log.sealing import Sealing, is_deleted, sync_named
from gateway.log.segment import Segment
from gateway.log.segments_to_trim import SegmentsToTrim
from gateway.log.trimmed import Trimmed
from tree_handler.batch import Epoch, Header
from tree_handler.batch_walk import START
from tree_handler.intervals import Intervals

__all__ = ["AfterSync", "LogError", "MessageLog"]

SEGMENT_SUFFIX = ".log"
MARK_NAME = "synced"
MAX_SEALED = 2
"""Sealed segments that wait for a sync; with more the next append waits for the disk."""
_TOO_LARGE = "no checkpoint could be written for long, and the log may not grow any more"
_SEGMENTS = "[0-9]" * 20 + SEGMENT_SUFFIX

_log = logging.getLogger(__name__)

AfterSync = Callable[[OSError | None], None]
"""Told when all that was handed in is durable, or why it is not."""


class MessageLog(ReadableLog):
    """Segments of batches in one folder, for one process.

    Args:
        folder: made if missing; locked while open.
        segment_bytes: a segment is sealed when it reaches this size.
        max_bytes: oldest segments are deleted beyond this size in all, but for what a start needs.
        limit_bytes: beyond this size in all, messages are refused; None for no limit. Frames that
            stay in this log, as a checkpoint needs some, are refused beyond twice as much.
        mark: keep the file `synced` for readers of a spool; a call is told before, in the thread.
        now: a clock that goes on steadily, in seconds.

    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = 8 << 20,
        max_bytes: int = 256 << 20,
        limit_bytes: int | None = None,
        mark: bool | Callable[[Path, int], None] = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(folder)
        self.appends = 0
        self.appended_bytes = 0
        self.syncs = DurationHistogram()
        """The time that each `fdatasync` of a commit took."""
        self.disk_failure = DiskFailure(folder)
        self.cut_bytes = 0
        """Bytes that the last start cut off: of a batch that a kill had not let it append."""
        self._segment_bytes = segment_bytes
        self.max_bytes = max_bytes
        self._limit_bytes = limit_bytes
        self._mark = mark
        self._fd = self._lock_fd = -1
        self._synced_length = 0
        self._needed_from: int | None = None
        self._is_torn = False
        """True if a part of a refused frame may stand at the end of the newest segment."""
        self._sealing = Sealing(self._damage, now)
        self._trimmed = Trimmed(folder)
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
        self._damage.is_closed = False
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock_fd = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in self.folder.glob(f"{_SEGMENTS}.*.new"):
            left.unlink(missing_ok=True)
        self._trimmed.load()
        promised = 0
        if self._mark:
            newest = max((path.name for path in self.folder.glob(_SEGMENTS)), default="")
            promised = loading.restored(self.folder / MARK_NAME, newest, self._damage)
        paths = loading.listed(self.folder, self._trimmed.before)
        self._inner.load(is_new=not paths)
        found, goes_on = loading.found(paths, promised, self._inner, self._damage)
        self.cut_bytes = found[-1].cut_bytes if found else 0
        self._tell_what_is_gone(found)
        known = self._trimmed.numbers if self._trimmed.is_known else assumed_trimmed(found)
        self.have, lost = numbers_of(found, known)
        self._damage.lost(lost)
        self._segments = [one.segment for one in found if not one.is_gone]
        if goes_on:
            self._fd = os.open(self._segments[-1].path, os.O_WRONLY | os.O_APPEND)
        else:
            ends = (one.segment.start + one.segment.length for one in found)
            self._seal_at_start(max(ends, default=self._trimmed.before))
        self._inner.begin(self._segments[0].start, self.position)
        self.sync()
        if not self._trimmed.is_known:
            self._trimmed.goes(self._segments[0].start, known)

    def _tell_what_is_gone(self, found: Sequence[Loaded]) -> None:
        """Tell if the log does not begin where the note of what was deleted says that it does."""
        before = self._trimmed.before
        gap = found[0].segment.start - before if found else 0
        if self._trimmed.is_known and (gap > 0 or not found):
            path = self.folder / f"{before:020d}{SEGMENT_SUFFIX}"
            self._damage.missed(path, 0, gap, "the file is gone")

    def _seal_at_start(self, position: int) -> None:
        """Begin a segment; the one before is not appended to any more."""
        if self._segments:
            newest = self._segments[-1]
            fd = os.open(newest.path, os.O_WRONLY | os.O_APPEND)
            self._sealing.add(newest, fd, newest.index(self.have))
        self._fd = self._start_segment(position)

    def close(self) -> None:
        """Sync and let go of the folder; what a sync did not reach is written again."""
        try:
            if self._fd >= 0:
                try:
                    self.sync()
                except OSError:
                    self.sync()
        except OSError as error:
            _log.error("%s: not synced at the end: %s", self._segments[-1].path, error.strerror)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._damage.is_closed = True
        for fd in (self._fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._lock_fd = -1
        self._sealing.close()
        self._inner.close()

    @property
    def failure(self) -> str:
        """Return why batches are refused; empty while they are taken."""
        return self.disk_failure.why

    # -- writing -----------------------------------------------------------------------------

    def append(self, frame: bytes, header: Header) -> None:
        """Append one batch: it survives a kill when this returns, a power cut after `sync`.

        Raises:
            LogError: disk full or failing; the log is as it was before.

        """
        segment = self._segments[-1]
        is_noted = False
        try:
            if self._is_torn:  # what is appended behind a torn frame would be cut with it
                self._cut_torn()
            if segment.length >= self._segment_bytes or segment.is_suspect:
                self._keep_within_limit(header)
                segment = self._roll()
            if self._sealing.is_suspect:
                self._complete()
            if frame.find(START, len(START)) >= 0:
                self._inner.note(segment.start + segment.length, len(frame))
                is_noted = True
            self._is_torn = True
            if os.write(self._fd, frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._is_torn = False
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut_torn()
            if is_noted:
                self._inner.take_back(segment.start + segment.length)
            self.disk_failure.refused(error, len(frame))
            raise LogError(f"{error.filename or segment.path}: {error.strerror}") from error
        if self.disk_failure.why:
            self.disk_failure.took(len(frame))
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
        """Return what `sync` has to do, as a call for a thread; appending may go on meanwhile.

        The call raises OSError if the disk fails.
        """
        segment = self._segments[-1]
        if segment.is_suspect:
            try:
                segment = self._roll()
            except OSError as error:
                self.disk_failure.unsynced(error)
                return _failing(error)
        length = segment.length
        fd = os.dup(self._fd)  # the segment may be sealed, and its own one closed, meanwhile

        def finish() -> None:
            with self._syncing:
                began_s = time.perf_counter()
                try:
                    self._force(segment, length, fd)
                    self.syncs.observe(time.perf_counter() - began_s)
                    self._move_mark(segment, length)
                except OSError as error:
                    self.disk_failure.unsynced(error)
                    raise
                finally:
                    os.close(fd)
                self.disk_failure.synced()

        return finish

    def _move_mark(self, segment: Segment, length: int) -> None:
        """Let readers of a spool go on to this place; the next sync tries again what fails."""
        if self._mark and segment.start + length > self._synced_length:
            if callable(self._mark):
                self._mark(segment.path, length)
            mark = f"{segment.path.name} {length}\n"
            replaced_file.replace(self.folder / MARK_NAME, mark.encode())
            self._synced_length = segment.start + length

    def _force(self, segment: Segment, length: int, fd: int) -> None:
        """Force all to the disk that stands before this place in the newest segment."""
        self._inner.sync()
        self._sealing.complete(self._lock_fd, segment, has_followed=length > 0)
        if segment.is_suspect:  # another sync met it first: this one would be told that all is well
            raise OSError(errno.EIO, "a sync of it failed before", str(segment.path))
        try:
            sync_named(fd, segment.path)
        except OSError:
            segment.is_suspect = True
            raise

    def trim(self) -> bool:
        """Delete the oldest sealed segments beyond ``max_bytes``, and return whether any went.

        None goes that a start would still need: see `may_trim`.

        Raises:
            OSError: none went, for the oldest can't be deleted.

        """
        count = self._beyond_bytes()
        going, kept = self._segments[:count], self._segments[count:]
        if not going:
            return False
        self._trimmed.goes(kept[0].start, only_in(going, kept))
        for oldest in going:
            try:
                oldest.path.with_suffix(SUFFIX).unlink(missing_ok=True)
                oldest.path.unlink(missing_ok=True)
            except OSError:
                if oldest is going[0]:
                    raise
                break
            del self._segments[0]
            if self._lowest is not None:
                self._lowest.gone(oldest.start, oldest.holds)
            self._damage.trimmed(oldest.path)
        self._inner.trimmed(self._segments[0].start)
        return True

    def _beyond_bytes(self) -> int:
        """Return how many of the oldest segments go: see `trim`."""
        # An index tells what was in all before it, so the newest one that is written stays.
        kept = 2 + self._sealing.unfinished
        total, count = self.length, 0
        while total > self.max_bytes and len(self._segments) - count > kept:
            next_start = self._segments[count + 1].start
            if self._needed_from is not None and next_start > self._needed_from:
                break
            total -= self._segments[count].length
            count += 1
        return count

    def goes_next(self, position: int, ahead_bytes: int) -> SegmentsToTrim:
        """Return the sealed segments from a position on that are beyond ``max_bytes`` as soon as
        the log has grown by so much more."""
        keeps_from = self.position + ahead_bytes - self.max_bytes
        sealed = self._segments[:-1]
        found = [one for one in sealed if position <= one.start < keeps_from]
        behind = found[-1].start + found[-1].length if found else position
        return SegmentsToTrim(found, behind, self._damage)

    def may_trim(self, before: int) -> None:
        """Whoever needs the log at a start needs nothing before this position; until the next
        call, what stands behind it is not trimmed."""
        self._needed_from = before

    def forget(self, streams: Iterable[Epoch]) -> None:
        """The log holds nothing of these, and a note that they are over (`epochs_over`)."""
        for stream in streams:
            self.have.pop(stream, None)
            self._trimmed.numbers.pop(stream, None)

    # -- within ------------------------------------------------------------------------------

    def _start_segment(self, start: int) -> int:
        """Make the next segment and return its descriptor."""
        path = self.folder / f"{start:020d}{SEGMENT_SUFFIX}"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._sealing.begun()
        self._segments.append(Segment(path, start))
        return fd

    def _roll(self) -> Segment:
        """Seal the newest segment and start the next; if that fails, nothing has changed."""
        newest = self._segments[-1]
        if not newest.length:  # there is nothing in it that the disk may lack
            if is_deleted(self._fd, newest.path):
                fd, self._fd = self._fd, self._start_segment(newest.start)
                os.close(fd)
                self._segments.remove(newest)
            newest.is_suspect = False
            return self._segments[-1]
        if self._sealing.unsynced >= MAX_SEALED:  # the disk does not keep up
            self._complete()
        fd, index = self._fd, newest.index(self.have)
        self._fd = self._start_segment(newest.start + newest.length)
        self._sealing.add(newest, fd, index)
        if self._lowest is not None:
            self._lowest.add(newest.start, newest.holds)
        return self._segments[-1]

    def _keep_within_limit(self, header: Header) -> None:
        limit = self._limit_bytes
        if limit is not None and self.length >= limit * (2 if header.local else 1):
            raise OSError(errno.ENOSPC, _TOO_LARGE)

    def _complete(self) -> None:
        with self._syncing:
            self._sealing.complete(self._lock_fd, self._segments[-1])

    def _cut_torn(self) -> None:
        os.ftruncate(self._fd, self._segments[-1].length)
        self._is_torn = False


def _failing(error: OSError) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail
