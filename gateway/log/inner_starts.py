"""Notes where batches of the log hold what looks like the start of another batch.

A frame that has the three bytes of a start anywhere inside is noted before it is appended, in a
small file beside the segments. What the notes are for is said in `tree_handler.batch_walk`. They
are not complete for what an earlier release wrote, or where the file is damaged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
import zlib
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from gateway import replaced_file

NAME: Final = "inner"
MAX_SINGLE: Final = 4_096
"""So many frames are noted one by one; beyond, all within `RUN_BYTES` behind one are noted with
it, so that nobody who fills the log with such frames fills the memory."""
RUN_BYTES: Final = 64 << 10

_RECORD: Final = struct.Struct(">QI")
_CRC: Final = struct.Struct(">I")
_RECORD_BYTES: Final = _RECORD.size + _CRC.size
_NOWHERE: Final = (1 << 63) - 1

_log = logging.getLogger(__name__)


class InnerStarts:
    """Positions and lengths of such frames, as the file has them.

    The file is a record for each: ``position u64 | length u32 | crc u32``. The first has the
    position from which the notes are complete, and the length 0.

    Args:
        folder: of the log.

    Attributes:
        complete_from: the position from which the notes are complete.

    """

    def __init__(self, folder: Path) -> None:
        self.complete_from = _NOWHERE
        self._path = folder / NAME
        self._fd = -1
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._file_bytes = 0
        self._is_torn = False
        """Whether more than `_file_bytes` may stand in the file."""
        self._is_dirty = self._is_suspect = False
        self._writing = threading.Lock()

    # -- a start ---------------------------------------------------------------------------------

    def load(self, *, is_new: bool) -> None:
        """Read the file.

        Args:
            is_new: whether there is no segment yet, so that nothing can be lacking.

        """
        try:
            self._take(self._path.read_bytes())
        except FileNotFoundError:
            self.complete_from = 0 if is_new else _NOWHERE
        except (OSError, ValueError) as error:
            _log.error("%s: not usable (%s): damage is read around with care", self._path, error)
            self.complete_from = _NOWHERE
            self._starts, self._ends = [], []

    def _take(self, data: bytes) -> None:
        whole = len(data) - len(data) % _RECORD_BYTES  # a torn record's frame was not written
        if not whole:
            raise ValueError("empty")
        for at in range(0, whole, _RECORD_BYTES):
            position, length = _RECORD.unpack_from(data, at)
            (crc,) = _CRC.unpack_from(data, at + _RECORD.size)
            if zlib.crc32(data[at : at + _RECORD.size]) != crc:
                raise ValueError(f"damaged at byte {at}")
            if at:
                self._keep(position, length)
            else:
                self.complete_from = position
        self._file_bytes = whole

    def begin(self, first: int, end: int) -> None:
        """Write the file of a log that holds these positions, and hold it open.

        Raises:
            OSError: it can't be written.

        """
        if self.complete_from == _NOWHERE:
            self.complete_from = end
        low, high = bisect_right(self._ends, first), bisect_left(self._starts, end)
        self._starts, self._ends = self._starts[low:high], self._ends[low:high]
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
        if self._ends and position + length <= self._ends[-1]:
            return  # it is within a run that is noted
        if len(self._starts) >= MAX_SINGLE:
            length = max(length, RUN_BYTES)
        with self._writing:
            if self._is_torn:
                os.ftruncate(self._fd, self._file_bytes)
            self._is_torn = True
            if os.write(self._fd, _record(position, length)) != _RECORD_BYTES:
                raise OSError(f"{self._path}: not written as a whole")
            self._is_torn = False
            self._is_dirty = True
            self._file_bytes += _RECORD_BYTES
            self._keep(position, length)

    def take_back(self, position: int) -> None:
        """Forget the note of a frame that was not appended at this position."""
        with self._writing:
            if self._starts and self._starts[-1] == position:
                del self._starts[-1], self._ends[-1]
                self._file_bytes -= _RECORD_BYTES
                self._is_torn = self._is_dirty = True
                with contextlib.suppress(OSError):  # the next note tries again
                    os.ftruncate(self._fd, self._file_bytes)
                    self._is_torn = False

    def trimmed(self, first: int) -> None:
        """Forget what stood before this position."""
        gone = bisect_right(self._ends, first)
        if gone:
            with self._writing:
                del self._starts[:gone], self._ends[:gone]
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
            self._is_suspect = True
            os.fdatasync(self._fd)
            self._is_suspect = self._is_dirty = False

    def _rewrite(self) -> None:
        records = [_record(self.complete_from, 0)]
        for start, end in zip(self._starts, self._ends, strict=True):
            records.append(_record(start, end - start))
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

    def _keep(self, position: int, length: int) -> None:
        self._starts.append(position)
        self._ends.append(position + length)

    # -- reading ---------------------------------------------------------------------------------

    def are_complete(self, position: int) -> bool:
        """Return whether the notes of what stands from this position on are complete."""
        return position >= self.complete_from

    def behind(self, position: int) -> int:
        """Return where the noted frame ends inside which this position is; 0 if in none."""
        starts, ends = self._starts, self._ends
        at = bisect_left(starts, position) - 1
        return ends[at] if at >= 0 and position < ends[at] else 0


def _record(position: int, length: int) -> bytes:
    packed: bytes = _RECORD.pack(position, length)
    return packed + _CRC.pack(zlib.crc32(packed))
