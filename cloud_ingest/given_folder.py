"""Faults of a folder that an argument names."""

from __future__ import annotations

import os
import stat


def folder_fault(path: str | os.PathLike[str]) -> str:
    """Return why a path is not that of a folder that is there; empty if it is."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # may be relative
    except (FileNotFoundError, NotADirectoryError):
        return "no such folder"
    except OSError as error:
        return error.strerror or str(error)
    return "" if stat.S_ISDIR(mode) else "not a folder"
