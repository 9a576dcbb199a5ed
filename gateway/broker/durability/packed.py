"""Packed values of columns in the checkpoints' file.

Each function raises ValueError, TypeError or an error of msgpack for what it can't be.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgpack

from gateway.broker.durability.delivery_gaps import SavedGap
from gateway.broker.durability.saved import SavedMessage
from gateway.broker.durability.standing_wills import SavedWill
from tree_handler.batch import Entry


def message(row: tuple[Any, ...]) -> SavedMessage:
    """Read a message of the columns that `tables.NEEDED` selects."""
    entry = Entry(row[4], row[5], row[6], bool(row[7]), properties(row[8]))  # SQLite has no bool
    return SavedMessage(((row[1], row[2]), row[3]), entry, row[9])


def will(row: tuple[Any, ...]) -> SavedWill:
    """Read a row of the table ``will``."""
    roles = msgpack.unpackb(row[3], use_list=False)
    retain = bool(row[SavedWill._fields.index("retain")])  # SQLite has no bool
    return SavedWill(*row)._replace(roles=roles, retain=retain, properties=properties(row[9]))


def lack(row: tuple[Any, ...]) -> SavedGap:
    """Read a row of the table ``lacking``: what all sessions lack, or what one of them has had."""
    return SavedGap(row[0], row[1], row[2], ranges(row[3]))


def numbers(packed: bytes) -> tuple[int, ...]:
    """Read subscription or packet identifiers."""
    return tuple(map(int, msgpack.unpackb(packed)))


def ranges(packed: bytes) -> tuple[int, ...]:
    """First and last numbers in turn, ascending."""
    found = numbers(packed)
    if not found or len(found) % 2 or found[0] < 1 or any(a > b for a, b in pairwise(found)):
        raise ValueError(f"ranges of numbers {found}")
    return found


def properties(packed: bytes) -> dict[int, Any]:
    """Return properties of a message, by identifier."""
    found: dict[int, Any] = msgpack.unpackb(packed, use_list=False, strict_map_key=False)
    return found
