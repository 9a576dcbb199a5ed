"""Errors with which a command ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.base import exit_codes
from gateway.base.path_kind import why_missing_folder

_IS_IT_ONE: Final = "is that a gateway, and of which version?"


class WrongUseError(Exception):
    """An argument or configuration is wrong; the message names it."""


class FailedError(Exception):
    """The command did not work out; the message says why.

    Attributes:
        exit_code: what the process ends with.

    """

    def __init__(self, message: str, exit_code: int = exit_codes.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def expect_folder(where: str, folder: Path, what_to_do: str = "") -> None:
    """Refuse an argument that is to name a folder that is there.

    Args:
        where: what stands before the folder's name, such as ``--to``.
        folder: what the argument names.
        what_to_do: if there is none.

    Raises:
        WrongUseError: it is none, or this user may not look there.

    """
    try:
        why = why_missing_folder(folder)
    except OSError as error:
        raise WrongUseError(f"{where}: {folder}: {error.strerror or error}") from error
    if why:
        raise WrongUseError(": ".join(filter(None, (where, str(folder), why, what_to_do))))


@contextmanager
def reading_an_answer() -> Iterator[None]:
    """Name what an answer lacks, or has of another kind, where a command reads it.

    A gateway of another version, and what is no gateway, tell other documents.

    Raises:
        FailedError: the answer is none that this version can read.

    """
    try:
        yield
    except KeyError as error:
        raise FailedError(f"its answer has no {error}: {_IS_IT_ONE}") from error
    except (TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        raise FailedError(f"its answer can't be read ({error}): {_IS_IT_ONE}") from error
