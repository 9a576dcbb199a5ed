"""Kinds of what a path leads to, in words, without opening it: a pipe would never end."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

FILE: Final = "a file"
FOLDER: Final = "a folder"
_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISREG, FILE),
    (stat.S_ISDIR, FOLDER),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def kind_of(path: Path) -> str | None:
    """Return what a path leads to, such as "a folder"; None if there is nothing.

    Raises:
        OSError: this user may not look there.

    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "a link to nothing" if path.is_symlink() else None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "a link in a circle of links"
        raise
    return next((told for is_one, told in _KINDS if is_one(mode)), "a device")


def why_no_file(path: Path) -> str:
    """Return why a path is not that of a file; empty if it is.

    Raises:
        OSError: as of `kind_of`.

    """
    return _why_other(path, FILE, "no such file")


def why_missing_folder(path: Path) -> str:
    """Return why a path is not that of a folder that is there; empty if it is.

    Raises:
        OSError: as of `kind_of`.

    """
    return _why_other(path, FOLDER, "no such folder")


def _why_other(path: Path, wanted: str, nothing: str) -> str:
    kind = kind_of(path)
    if kind is None:
        return nothing
    return "" if kind == wanted else f"{kind}, not {wanted}"


def why_no_folder(path: Path) -> str:
    """Return why a folder can't be made or used at a path: something else is there, or above it.

    Raises:
        OSError: as of `kind_of`.

    """
    for at in (path, *path.parents):
        if (kind := kind_of(at)) is not None:
            return "" if kind == FOLDER else f"{at}: {kind}, not a folder"
    return ""
