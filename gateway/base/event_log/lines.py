"""The log on standard error: a line for each record, whoever chose the words in it.

Names, topics and reasons come from strangers, neighbours and drivers, and any of them may hold a
line break or what a terminal obeys. So a line is escaped as a whole, here, and what writes one need
not think of it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Final

from gateway.base.printable import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FILE_NAME: Final = "gateway.log"
"""Of the file in a gateway's state folder, where its log goes to a file."""
FILE_BYTES_MAX: Final = 1 << 20
"""A file that is longer is begun anew, and the one before it kept beside."""
_INDENT: Final = "  "
"""Before each line of a traceback, so that none of them is taken for a record."""

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """Escapes what can't be printed; a traceback follows its line, indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Return a record as one line: what is not printable is escaped."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: _Raised) -> str:  # noqa: N802  # logging's name
        """Return the traceback behind it."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(_INDENT + printable(line) for line in lines)


def begin(level: int | str) -> None:
    """Log to standard error from now on.

    Args:
        level: the least that is written, as `logging` names it.

    """
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler])


def also_to(file: Path) -> None:
    """Log to a file, too, of which two pieces of `FILE_BYTES_MAX` at most are kept.

    What the disk does not take is missing there; it still stands on standard error.

    Args:
        file: which; its folder is made if it is missing, as a gateway's state folder is.

    Raises:
        OSError: it can't be opened.

    """
    from logging.handlers import RotatingFileHandler  # noqa: PLC0415  # few want it

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = RotatingFileHandler(file, maxBytes=FILE_BYTES_MAX, backupCount=1, encoding="utf-8")
    handler.setFormatter(LineFormatter())
    handler.handleError = _go_on  # type: ignore[method-assign]  # it would write a traceback a line
    logging.getLogger().addHandler(handler)


def _go_on(record: logging.LogRecord) -> None:  # as logging calls it
    """A line that the disk did not take stands on standard error all the same."""
