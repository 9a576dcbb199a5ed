"""Faults of a file about access, line by line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from pathlib import Path

_SURROGATE = re.compile("[\ud800-\udfff]")
"""The stand-in for a byte that is not UTF-8."""


class AccessFileError(ValueError):
    """A file about access is wrong: ``str(error)`` is one line that names file and line.

    Args:
        file: its name.
        line: the line, from 1; 0 if it is none in particular.
        why: what is wrong. It never holds a hash or a password.
        more: what else is wrong with it.

    """

    def __init__(
        self, file: str, line: int, why: str, more: Iterable[AccessFileError] = ()
    ) -> None:
        super().__init__(f"{file}:{line}: {why}" if line else f"{file}: {why}")
        self.file = file
        self.line = line
        self.why = why
        self.more = tuple(more)


def hold(faults: Iterable[AccessFileError]) -> None:
    """Raise all faults as one error, if there are any.

    Raises:
        AccessFileError: the first, with all others.

    """
    for first in (found := iter(faults)):
        raise AccessFileError(first.file, first.line, first.why, found)


def read_access_file(path: Path) -> str:
    """Return the text of a policy or password file, without the mark that editors put before UTF-8.

    Raises:
        AccessFileError: it can't be read or is not UTF-8.

    """
    return access_text(read_access_bytes(path), path)


def read_access_bytes(path: Path) -> bytes:
    """Return what a policy or password file holds.

    Raises:
        AccessFileError: it can't be read.

    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessFileError(str(path), 0, error.strerror or "can't be read") from error


def access_text(data: bytes, path: Path) -> str:
    """Return the text of a policy or password file that was read, as `read_access_file` does.

    Args:
        data: what the file holds.
        path: the file.

    Raises:
        AccessFileError: it is not UTF-8.

    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        why = "begins with a byte order mark of UTF-16: save it as UTF-8"
        raise AccessFileError(str(path), 1, why)
    text = data.removeprefix(codecs.BOM_UTF8).decode(errors="surrogateescape")
    hold(
        AccessFileError(str(path), number, "not UTF-8")
        for number, line in enumerate(text.split("\n"), 1)
        if _SURROGATE.search(line)
    )
    return text
