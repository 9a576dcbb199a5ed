"""The log on standard error: a line for each record, whoever chose the words in it.

Names, topics and reasons come from strangers, neighbours and drivers, and any of them may hold a
line break or what a terminal obeys. So a line is escaped as a whole, here, and what writes one need
not think of it.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final

from gateway.printable import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_INDENT: Final = "  "
"""Before each line of a traceback, so that none of them is taken for a record."""

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """Escapes what can't be printed; a traceback follows its line, indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """The line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: _Raised) -> str:  # noqa: N802  # logging's name
        """The traceback behind it."""
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
