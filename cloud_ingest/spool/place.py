"""Place up to which a spool was read, and by what the spool is known again.

A position alone fits any spool that has grown past it. So a place also has the spool's name
(`cloud_ingest.spool.identity`) and a digest of the bytes before it: another disk in the spool's
folder has another name, an older copy of it has other bytes there, and either is read from its
beginning. The ledger drops what comes again. A folder that holds nothing is no other spool: its
disk may not be mounted. The place stays as it is then.
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
        spool: the spool's name; empty where it had none.

    """

    position: int
    digest: str = ""
    spool: str = ""

    @classmethod
    def of_plain(cls, plain: Any) -> SpoolPlace:
        """Read what `plain` made, or what checkpoints had before: less, or the bare position.

        Raises:
            ValueError: it is none of them.

        """
        match plain:
            case [int(position), str(digest), str(spool)]:
                return cls(position, digest, spool)
            case [int(position), str(digest)]:
                return cls(position, digest)
            case int(position):
                return cls(position)
        raise ValueError(f"no place in a spool: {str(plain)[:60]!r}")

    def plain(self) -> list[int | str]:
        """Return the place as it stands in an offset of Spark's."""
        return [self.position, self.digest, self.spool]

    @classmethod
    def at(cls, readable: Sequence[SpoolSegment], position: int, spool: str) -> SpoolPlace:
        """Return the place at a position of a spool.

        Args:
            readable: the spool's segments.
            position: over all of them.
            spool: its name.

        Raises:
            OSError: a segment can't be read.

        """
        return cls(position, _digest(readable, position), spool)

    def fits(self, readable: Sequence[SpoolSegment], spool: str) -> bool:
        """Return whether a spool is the one that was read up to here.

        What was trimmed is taken to fit: another disk's spool begins at 0, and has it.

        Args:
            readable: its segments.
            spool: its name; empty where it has none.

        Raises:
            OSError: a segment can't be read.

        """
        if self.spool and spool and self.spool != spool:
            return False
        if not readable:
            return True
        if self.position > readable[-1].start + readable[-1].length:
            return False
        there = _digest(readable, self.position)
        return not there or not self.digest or there == self.digest


def _digest(readable: Sequence[SpoolSegment], position: int) -> str:
    """Return the digest of the bytes before a position; empty if they are gone."""
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
