"""Texts of a configuration's errors: the key in front, then what is wrong with it."""

from __future__ import annotations

import os
import stat

import msgspec


def named(error: msgspec.ValidationError, where: str) -> str:
    """Put the key in front, as errors of configurations have it.

    Args:
        error: as msgspec raised it.
        where: the key of the table that was converted, or ``""``.

    """
    why, _, path = str(error).partition(" - at `$")
    key = f"{where}{path.rstrip('`')}".lstrip(".")
    return f"{key}: {why}" if key else why


def folder_fault(path: str | os.PathLike[str]) -> str:
    """Return why a path is not that of a folder that is there; empty if it is."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # may be relative
    except (FileNotFoundError, NotADirectoryError):
        return f"{path}: no such folder"
    except OSError as error:
        return f"{path}: {error.strerror}"
    return "" if stat.S_ISDIR(mode) else f"{path}: not a folder"
