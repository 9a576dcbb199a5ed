"""Output of commands, and the care that it arrives."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from gateway.base.printable import printable
from gateway.tools.commands.errors import WrongUseError

if TYPE_CHECKING:
    from gateway.tools.commands.progress_bar import GoingOn

WAITING: Final = "waiting for an answer"
"""The text about what goes on where a gateway is asked."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_UNTOLD: Final = (
    "make room on its disk (`df -h` shows how full it is). What this was to change may be changed: "
    "look before you repeat it"
)
_LINES: Final = "─│├└"
_PLAIN_LINES: Final = str.maketrans(_LINES, "-||`")
"""Lines of a drawn tree, for an encoding that has none."""


class OutputError(WrongUseError):
    """Standard output takes nothing more; the message says why."""


def print_json(document: Any) -> None:
    """One document, to standard output."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


@contextlib.contextmanager
def going_on(what: str, all_s: float | None = None) -> Iterator[None]:
    """Say at a terminal what goes on, where that takes its time, until something is printed.

    Args:
        what: goes on; nothing is said where it is empty.
        all_s: how long it takes at most; None where that is not known.

    """
    stream: object = sys.stdout
    is_shown = what and sys.stderr is not None and sys.stderr.isatty()
    if not is_shown or not isinstance(stream, _Checked):
        yield
        return
    from gateway.tools.commands.progress_bar import GoingOn  # noqa: PLC0415  # a script has none

    stream.end_line()  # of the command, of which this is a part
    with GoingOn(all_s) as line:
        line.step(what)
        before, stream.goes_on = stream.goes_on, line
        try:
            yield
        finally:
            stream.goes_on = before


@contextlib.contextmanager
def arriving() -> Iterator[None]:
    """Flush what is printed within, and raise an error if it did not leave the process.

    Raises:
        OutputError: it can't: standard output is closed, its reader has gone or its disk is full.

    """
    # Python has None where there was none at its start. Here writing fails then, and no socket
    # gets the descriptor.
    stream = sys.stdout or os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    checked = _Checked(stream)
    with contextlib.redirect_stdout(cast(TextIO, checked)):
        try:
            yield
        finally:
            checked.flush()


def complain(line: str) -> None:
    """Write a line to standard error, if that takes it; what a terminal obeys is escaped."""
    stream: object = sys.stdout
    if isinstance(stream, _Checked):
        stream.end_line()
    if sys.stderr is not None:
        shown = "\n".join(map(printable, line.split("\n")))
        try:
            sys.stderr.write(f"{shown}\n")
            sys.stderr.flush()
        except OSError:
            _give_up(sys.stderr)


class _Checked:
    """A stream that raises errors of its own, which nobody takes for those of other files.

    Args:
        stream: takes what is written.

    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.goes_on: GoingOn | None = None
        """The line about what goes on, until something is printed."""

    def end_line(self) -> None:
        """Take the line about what goes on away."""
        if self.goes_on is not None:
            self.goes_on.end()

    def write(self, text: str) -> int:
        self.end_line()
        with self._naming():
            try:
                return self._stream.write(text)
            except UnicodeEncodeError:  # not UTF-8, or the name of a file that is none
                encoding = self._stream.encoding  # an error says "charmap" of many
                drawn = text if _has_lines(encoding) else text.translate(_PLAIN_LINES)
                shown = drawn.encode(encoding, "backslashreplace").decode(encoding)
                return self._stream.write(shown)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._naming():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _give_up(self._stream)
            why = f"standard output: {error.strerror or error}"
            if error.errno not in _FULL:
                raise OutputError(why) from error
            raise OutputError(f"{why}; {_UNTOLD}") from None  # who repeats it may do it twice


def _has_lines(encoding: str) -> bool:
    """Return True if an encoding has the lines of a drawn tree."""
    try:
        _LINES.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _give_up(stream: TextIO) -> None:
    """Throw away what it holds: the interpreter would try again, and have its own say about it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
