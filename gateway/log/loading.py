"""What a start learns of the segments that it finds."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gateway.log.damage import Damage
from gateway.log.segment import Segment
from tree_handler import batch
from tree_handler.batch import Epoch
from tree_handler.errors import BatchError
from tree_handler.intervals import Intervals


def sealed(path: Path, index: Path, damage: Damage) -> tuple[Segment, dict[Epoch, Intervals]]:
    """A segment to which nothing is appended any more, and numbers that the log had by its end.

    Args:
        path: the segment.
        index: what stands beside it; only a short cut, for the segment tells the same.
        damage: told of what can't be read, which is left out.

    Raises:
        OSError: there is no such segment.

    """
    segment = Segment(path, int(path.stem))
    try:
        ever = segment.read_index(index.read_bytes())
    except (OSError, ValueError):
        segment = Segment(path, int(path.stem))
        try:
            for at, header in damage.readable(path, path.read_bytes()):
                segment.note(at, header)
        except OSError as error:
            damage.note(path, 0, str(error))
        ever = segment.holds
    segment.length = path.stat().st_size
    return segment, ever


def newest(path: Path) -> tuple[Segment, int]:
    """The segment to which is appended, and how many bytes of a torn tail were cut off it.

    Raises:
        OSError: it can't be read or cut.

    """
    segment = Segment(path, int(path.stem))
    data = path.read_bytes()
    with contextlib.suppress(BatchError):
        for at, header in batch.frames(data):
            segment.note(at, header)
    cut_bytes = len(data) - segment.length
    if cut_bytes:
        os.truncate(path, segment.length)
    return segment, cut_bytes
