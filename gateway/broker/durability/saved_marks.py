"""The shared subscription for which a message is delivered, as a checkpoint has it.

The mark stands apart from the flags of a delivery, in a table of its own, so that a release that
knows no marks reads the flags as they go into a packet. Such a release leaves the table as it is.
So each row also says of which message it is, and counts for that one alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from gateway.broker.outbound.message import IN_PACKET
from tree_handler.batch import Ref

TABLE: Final = "marked"
_WRITE: Final = "REPLACE INTO marked VALUES (?, ?, ?, ?, ?, ?)"
_READ: Final = "SELECT place, origin, epoch, number, mark FROM marked WHERE session = ?"

Marks = Mapping[int, tuple[Ref, int]]
"""By the place in a session's queue: the first message that stands there, and its mark."""


def write(db: sqlite3.Connection, session: int, place: int, ref: Ref, flags: int) -> int:
    """Write the mark of a delivery, if it has one; return its flags without it.

    Args:
        db: of the checkpoints.
        session: the number of the session.
        place: where the message stands in its queue.
        ref: of the message, or of the first of several.
        flags: what it is delivered with (`outbound.message`).

    """
    if flags > IN_PACKET:
        (origin, epoch), number = ref
        db.execute(_WRITE, (session, place, origin, epoch, number, flags & ~IN_PACKET))
    return flags & IN_PACKET


def read(db: sqlite3.Connection, session: int) -> Marks:
    """Return the marks of a session's deliveries.

    Raises:
        sqlite3.Error: they can't be read.

    """
    with closing(db.execute(_READ, (session,))) as rows:
        return {row[0]: (((row[1], row[2]), row[3]), row[4]) for row in rows}


def mark_of(marks: Marks, place: int, ref: Ref) -> int:
    """Return the mark of what stands at a place; 0 if it has none."""
    marked, mark = marks.get(place, (None, 0))
    return mark if marked == ref else 0
