"""Tells a file of SQLite that can't be read now from one that is damaged.

Of the first nothing may be thought but that it is whole: it is left as it is, and tried again.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

_DAMAGE: Final = frozenset(
    (
        sqlite3.SQLITE_ERROR,  # a table or column that is not there, a format of a later SQLite
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_TOOBIG,
    )
)
"""The error codes that blame the file's content. All else is of the disk, system or process."""
_CODE: Final = re.compile(r"error code=(\d+)")


def is_passing(error: BaseException) -> bool:
    """Return whether it was the disk or the system that failed.

    So is what says nothing: an error is no damage (docs/decisions/0054).
    """
    if not isinstance(error, sqlite3.Error):
        return False
    code = getattr(error, "sqlite_errorcode", None)
    return not (isinstance(code, int) and _is_damage(code))


def could_not_look(checked: str) -> bool:
    """Return whether what SQLite's own check says is that it could not read a page."""
    found = _CODE.search(checked)
    return found is not None and not _is_damage(int(found[1]))


def _is_damage(code: int) -> bool:
    if code == sqlite3.SQLITE_IOERR_SHORT_READ:  # the file ends too early
        return True
    return code & 0xFF in _DAMAGE
