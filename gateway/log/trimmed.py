"""Notes what the log deletes to make room, before it does: what else is gone was lost.

The note is not synced. It takes its name before the segments lose theirs, and file systems keep the
order of names; where a power cut leaves zeros in it, it is set aside as any damaged file is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgpack

from gateway.base.kept_file import KeptFile
from tree_handler.batch import Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers, unpack_numbers

FILE_NAME: Final = "trimmed"
VERSION: Final = 1
_WITHOUT: Final = (
    "what is gone from the beginning of the log counts as deleted to make room, and not as lost"
)


class Trimmed:
    """The note of one log.

    Args:
        folder: of the log.

    Attributes:
        before: the position before which nothing is left to be there.
        numbers: what stood there and nowhere else, by stream.
        is_known: whether a note was found.

    """

    def __init__(self, folder: Path) -> None:
        self.before = 0
        self.numbers: dict[Epoch, Intervals] = {}
        self.is_known = False
        self._file = KeptFile(folder / FILE_NAME, _WITHOUT)

    def load(self) -> None:
        """Read the note.

        Raises:
            OSError: it can't be read now.

        """
        found = self._file.read(_decoded)
        if found is not None:
            self.before, self.numbers = found
            self.is_known = True

    def goes(self, before: int, numbers: Mapping[Epoch, Intervals]) -> None:
        """Note what is deleted next; on a disk that is too full there is no note any more.

        Raises:
            OSError: the disk takes no change at all.

        """
        self.before = before
        for key, ranges in numbers.items():
            self.numbers.setdefault(key, Intervals()).update(ranges)
        try:
            self._file.write(msgpack.packb([VERSION, self.before, pack_numbers(self.numbers)]))
        except OSError:
            self._file.remove()


def _decoded(data: bytes) -> tuple[int, dict[Epoch, Intervals]]:
    version, before, numbers = msgpack.unpackb(data)
    if version != VERSION:
        raise ValueError(f"version {version!r}, not {VERSION}")
    return int(before), unpack_numbers(numbers)
