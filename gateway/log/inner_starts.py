"""Notes where batches of the log hold what looks like the start of another batch.

A frame that has the three bytes of a start anywhere inside is noted before it is appended, in a
small file beside the segments. What the notes are for is said in `tree_handler.batch_walk`. They
are not complete for what an earlier release wrote, or where the file is damaged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import Final

from gateway.base import replaced_file
from tree_handler.noted_batches import FILE_NAME, NOWHERE, RECORD_BYTES, NotedBatches, record

MAX_SINGLE: Final = 4_096
"""So many frames are noted one by one; beyond, all within `RUN_BYTES` behind one are noted with
it, so that nobody who fills the log with such frames fills the memory."""
RUN_BYTES: Final = 64 << 10

_log = logging.getLogger(__name__)


class InnerStarts(NotedBatches):
    """The notes of a log that is appended to, and their file.

    Args:
        folder: of the log.

    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE_NAME
        self._fd = -1
        self._file_bytes = 0
        self._is_torn = False
        """True if more than `_file_bytes` may stand in the file."""
        self._is_dirty = self._is_suspect = False
        self._writing = threading.Lock()

    # -- a start ---------------------------------------------------------------------------------

    def load(self, *, is_new: bool) -> None:
        """Read the file.

        Args:
            is_new: whether there is no segment yet, so that nothing can be lacking.

        """
        try:
            self._file_bytes = self.take(self._path.read_bytes())
        except FileNotFoundError:
            self.complete_from = 0 if is_new else NOWHERE
        except (OSError, ValueError) as error:
            _log.error("%s: not usable (%s): damage is read around with care", self._path, error)

    def begin(self, first: int, end: int) -> None:
        """Write the file of a log that holds these positions, and hold it open.

        Raises:
            OSError: it can't be written.

        """
        if self.complete_from == NOWHERE:
            self.complete_from = end
        self.spans = [span for span in self.spans if span[1] > first and span[0] < end]
        with self._writing:
            self._rewrite()

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    # -- appending -------------------------------------------------------------------------------

    def note(self, position: int, length: int) -> None:
        """Note a frame that is appended next.

        Raises:
            OSError: the disk does not take the note, so the frame must not be appended.

        """
        if self.spans and position + length <= self.spans[-1][1]:
            return  # it is within a run that is noted
        if len(self.spans) >= MAX_SINGLE:
            length = max(length, RUN_BYTES)
        with self._writing:
            if self._is_torn:
                os.ftruncate(self._fd, self._file_bytes)
            self._is_torn = True
            if os.write(self._fd, record(position, length)) != RECORD_BYTES:
                raise OSError(f"{self._path}: not written as a whole")
            self._is_torn = False
            self._is_dirty = True
            self._file_bytes += RECORD_BYTES
            self.spans.append((position, position + length))

    def take_back(self, position: int) -> None:
        """Forget the note of a frame that was not appended at this position."""
        with self._writing:
            if self.spans and self.spans[-1][0] == position:
                self.spans = self.spans[:-1]
                self._file_bytes -= RECORD_BYTES
                self._is_torn = self._is_dirty = True
                with contextlib.suppress(OSError):  # the next note tries again
                    os.ftruncate(self._fd, self._file_bytes)
                    self._is_torn = False

    def trimmed(self, first: int) -> None:
        """Forget what stood before this position."""
        if self.spans and self.spans[0][1] <= first:
            with self._writing:
                self.spans = [span for span in self.spans if span[1] > first]
                self._is_suspect = True  # the next sync writes the file anew, without them

    def sync(self) -> None:
        """Force the notes to the disk, in a thread.

        Raises:
            OSError: it fails; the next one writes all of them anew.

        """
        if not self._is_dirty and not self._is_suspect:
            return
        with self._writing:
            if self._is_suspect:
                self._rewrite()
            self._is_suspect = self._is_dirty = False
            fd = os.dup(self._fd)
        try:  # notes are taken meanwhile: the event loop does not wait for the disk
            os.fdatasync(fd)
        except BaseException:
            self._is_suspect = True
            raise
        finally:
            os.close(fd)

    def _rewrite(self) -> None:
        records = [record(self.complete_from, 0)]
        for start, end in self.spans:
            records.append(record(start, end - start))
        data = b"".join(records)
        before: bytes | None = None
        with contextlib.suppress(OSError):
            before = self._path.read_bytes()
        if self._fd >= 0 or before != data:
            # An old one that comes back would lack notes, a file that is gone says so.
            is_durable = before is not None
            replaced_file.replace(self._path, data, is_durable=is_durable, mode=0o600)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.close()
        self._fd, self._file_bytes = fd, len(data)
        self._is_torn = False
