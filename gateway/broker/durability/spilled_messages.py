"""Messages that wait for sessions and that the log has let go, in the checkpoints' file.

One that sessions of several users wait for is there once for each of them, so that each user's
share is his own.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgpack

from gateway.broker.durability import packed
from gateway.broker.durability.offline_spill import SpillCandidates, WantedOfOrigins
from tree_handler.batch import Entry, Epoch
from tree_handler.intervals import Intervals

_ROW_BYTES: Final = 64
"""The size of a message beside topic, payload and properties, about."""

_log = logging.getLogger(__name__)

_PUT: Final = "INSERT OR IGNORE INTO spared VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_GONE: Final = "DELETE FROM spared WHERE owner = ? AND origin = ? AND epoch = ? AND number < ?"
_READ: Final = """
SELECT DISTINCT number, topic, payload, qos, retain, properties FROM spared
WHERE origin = ? AND epoch = ? AND number BETWEEN ? AND ? ORDER BY number
"""
_NUMBERS: Final = """
SELECT DISTINCT number FROM spared WHERE origin = ? AND epoch = ? ORDER BY number
"""
_LAST: Final = (1 << 63) - 1


def put_by(db: sqlite3.Connection, needed: SpillCandidates) -> None:
    """Forget what nobody waits for any more, and put by what goes; within a transaction.

    Raises:
        OSError: the log can't be read.
        sqlite3.Error: the file can't be written.

    """
    wanted = needed.wanted()
    _forget(db, wanted)
    used = Counter(dict(db.execute("SELECT owner, sum(size) FROM spared GROUP BY owner")))
    for key, of_owners in wanted.items():
        _put_stream(db, needed, used, key, of_owners)


def read(db: sqlite3.Connection, key: Epoch, first: int, last: int) -> Iterator[tuple[int, Entry]]:
    """Read the messages ``first..last`` of a stream that were put by, in their order.

    One that is damaged is named in the log and left out: no later reading would find it whole.

    Raises:
        sqlite3.Error: the file can't be read.

    """
    for row in db.execute(_READ, (*key, first, last)):
        try:
            properties = packed.properties(row[5])
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            what = "message %d of %s, epoch %d, that was put by is damaged and left out: %s"
            _log.error(what, row[0], *key, error)
            continue
        yield row[0], Entry(row[1], row[2], row[3], bool(row[4]), properties)


def numbers(db: sqlite3.Connection, key: Epoch) -> Intervals:
    """Return the numbers of a stream that were put by.

    Raises:
        sqlite3.Error: the file can't be read.

    """
    return Intervals((number, number) for (number,) in db.execute(_NUMBERS, key))


def has_any(db: sqlite3.Connection) -> bool:
    """Return whether anything is put by."""
    return db.execute("SELECT 1 FROM spared LIMIT 1").fetchone() is not None


def _forget(db: sqlite3.Connection, wanted: WantedOfOrigins) -> None:
    streams = db.execute("SELECT DISTINCT owner, origin, epoch FROM spared").fetchall()
    for owner, origin, epoch in streams:
        waits = wanted.get((origin, epoch), {}).get(owner)
        first = _LAST if waits is None else next(iter(waits))[0]
        db.execute(_GONE, (owner, origin, epoch, first))


def _put_stream(
    db: sqlite3.Connection,
    needed: SpillCandidates,
    used: Counter[str],
    key: Epoch,
    of_owners: dict[str, Intervals],
) -> None:
    union = Intervals()
    for numbers in of_owners.values():
        union.update(numbers)
    total = sum(used.values())
    for number, entry in needed.messages(key, union):
        properties = msgpack.packb(entry.properties)
        size = _size(entry, properties)
        for owner, numbers in of_owners.items():
            if number not in numbers or used[owner] + size > needed.user_bytes:
                continue
            if total + size > needed.all_bytes:
                return
            row: tuple[Any, ...] = (*key, number, owner, size, entry.topic, entry.payload)
            row += (entry.qos, entry.retain, properties)
            if db.execute(_PUT, row).rowcount:
                used[owner] += size
                total += size


def _size(entry: Entry, properties: bytes) -> int:
    return _ROW_BYTES + len(entry.topic) + len(entry.payload) + len(properties)
