"""How far a spool was read, and by what it is known again.

A position alone fits any spool that has grown past it. So a place also has a digest of the bytes
before it: another disk in the spool's folder, or an older copy of it, has others there, and is read
from its beginning. The ledger drops what comes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cloud_ingest.spool.segments import SpoolSegment

DIGESTED_BYTES: Final = 4_096
"""Before a place, of its segment: the stamps and times of at least one batch, as a rule."""
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class SpoolPlace:
    """A place in a spool.

    Attributes:
        position: over all segments, bytes.
        digest: of what stands before it, hexadecimal; empty where nothing is known of that.

    """

    position: int
    digest: str = ""

    @classmethod
    def of_plain(cls, plain: Any) -> SpoolPlace:
        """Read what `plain` made, or the bare position that checkpoints had before.

        Raises:
            ValueError: it is neither.

        """
        match plain:
            case [int(position), str(digest)]:
                return cls(position, digest)
            case int(position):
                return cls(position)
        raise ValueError(f"no place in a spool: {str(plain)[:60]!r}")

    def plain(self) -> list[int | str]:
        """As it stands in an offset of Spark's."""
        return [self.position, self.digest]

    @classmethod
    def at(cls, readable: Sequence[SpoolSegment], position: int) -> SpoolPlace:
        """The place at a position of a spool.

        Args:
            readable: the spool's segments.
            position: over all of them.

        Raises:
            OSError: a segment can't be read.

        """
        return cls(position, _digest(readable, position))

    def fits(self, readable: Sequence[SpoolSegment]) -> bool:
        """Return whether a spool is the one that was read up to here.

        What was trimmed is taken to fit: another disk's spool begins at 0, and has it.

        Raises:
            OSError: a segment can't be read.

        """
        end = readable[-1].start + readable[-1].length if readable else 0
        if self.position > end:
            return False
        there = _digest(readable, self.position)
        return not there or not self.digest or there == self.digest


def _digest(readable: Sequence[SpoolSegment], position: int) -> str:
    """Of the bytes before a position; empty if they are not there any more."""
    for segment in reversed(readable):
        if segment.start < position:
            break
    else:
        return ""
    end = position - segment.start
    begin = max(0, end - DIGESTED_BYTES)
    try:
        with segment.path.open("rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
    except FileNotFoundError:  # trimmed since the folder was listed
        return ""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
