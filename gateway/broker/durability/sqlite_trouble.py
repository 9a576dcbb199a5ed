"""Tells a file of SQLite that can't be read now from one that is damaged.

Of the first nothing may be thought but that it is whole: it is left as it is, and tried again.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Final

_PASSING: Final = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    )
)
"""What the disk or the system says, and not the file's content."""
_CODE: Final = re.compile(r"error code=(\d+)")


def is_passing(error: BaseException) -> bool:
    """Return whether it was the disk or the system that failed."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(code, int) and _is_passing(code)


def could_not_look(checked: str) -> bool:
    """Return whether what SQLite's own check says is that it could not read a page."""
    found = _CODE.search(checked)
    return found is not None and _is_passing(int(found[1]))


def _is_passing(code: int) -> bool:
    if code == sqlite3.SQLITE_IOERR_SHORT_READ:  # the file ends too early
        return False
    return code & 0xFF in _PASSING
