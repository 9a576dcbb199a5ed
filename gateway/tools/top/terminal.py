"""The terminal: draws frames and reads keys, by curses of the standard library.

Nothing is decided here. Decision 0148 says why it is curses.
"""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import select
import sys
import termios
from collections.abc import Iterator, Mapping
from typing import Final

from gateway.tools.top.frame import FrameSize
from gateway.tools.top.styled_text import Style, TopFrame

_ESCAPE_MS: Final = 25
"""So long the rest of a key's sequence may take after its first byte."""
_NAMED_KEYS: Final[Mapping[int, str]] = {
    **{curses.KEY_F0 + number: f"f{number}" for number in range(1, 13)},
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_LEFT: "left",
    curses.KEY_RIGHT: "right",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_PPAGE: "page-up",
    curses.KEY_NPAGE: "page-down",
    curses.KEY_BTAB: "shift-tab",
    curses.KEY_BACKSPACE: "backspace",
    curses.KEY_ENTER: "enter",
}
_NAMED_CHARACTERS: Final[Mapping[str, str]] = {
    "\t": "tab",
    "\n": "enter",
    "\r": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
    " ": "space",
    "\x03": "ctrl-c",
}
_COLOURS: Final[Mapping[Style, int]] = {
    Style.GOOD: curses.COLOR_GREEN,
    Style.LOOK: curses.COLOR_YELLOW,
    Style.WRONG: curses.COLOR_RED,
}


class TerminalError(Exception):
    """This terminal can't show frames; the message says why."""


class Terminal:
    """A terminal that is open.

    Args:
        screen: of curses.

    """

    def __init__(self, screen: curses.window) -> None:
        self._screen = screen
        self._attributes = {
            Style.PLAIN: curses.A_NORMAL,
            Style.STRONG: curses.A_BOLD,
            Style.HEAD: curses.A_REVERSE,
            Style.CHOSEN: curses.A_REVERSE,
            Style.FAINT: curses.A_DIM,
            **dict.fromkeys(_COLOURS, curses.A_BOLD),
        }
        if _wants_colours() and curses.has_colors():
            for number, (style, colour) in enumerate(_COLOURS.items(), 1):
                curses.init_pair(number, colour, -1)
                self._attributes[style] = curses.color_pair(number)

    @property
    def size(self) -> FrameSize:
        """Return how many characters the terminal has now."""
        rows, cells = self._screen.getmaxyx()
        return FrameSize(cells, rows)

    def resized(self) -> None:
        """Go by the size that it has now."""
        with contextlib.suppress(OSError, curses.error):
            size = os.get_terminal_size(_descriptor())
            curses.resizeterm(size.lines, size.columns)

    def draw(self, frame: TopFrame) -> bool:
        """Show a frame, of which only what has changed is written; return whether it is shown.

        Where the terminal takes nothing, as after Ctrl-S, the frame is left out: whoever waits for
        it hears no key and no signal.
        """
        if not _takes_more():
            return False
        self._screen.erase()
        for row, line in enumerate(frame.lines):
            with contextlib.suppress(curses.error):  # the last cell can't be left
                self._screen.move(row, 0)
                for text, style in line:
                    self._screen.addstr(_encodable(text), self._attributes[style])
        self._screen.refresh()
        return True

    def pressed(self) -> Iterator[str]:
        """Give the keys that were pressed; a character, or a name."""
        while True:
            try:
                key = self._screen.get_wch()
            except curses.error:  # no further one
                return
            if isinstance(key, str):
                yield _NAMED_CHARACTERS.get(key, key)
            elif (name := _NAMED_KEYS.get(key)) is not None:
                yield name


@contextlib.contextmanager
def opened() -> Iterator[Terminal]:
    """Have the terminal of standard output, and give it back as it was.

    Raises:
        TerminalError: its type is not known, or it writes line by line.

    """
    _take_locale()
    kind = os.environ.get("TERM", "")
    try:
        curses.setupterm(fd=_descriptor())
        if curses.tigetstr("cup") is None:  # terminfo(5): move the cursor
            raise TerminalError(f"TERM={kind!r} is a terminal that moves no cursor")
        screen = curses.initscr()
    except curses.error as error:
        raise TerminalError(f"TERM={kind!r} is not known to this machine: {error}") from error
    try:
        curses.noecho()
        curses.cbreak()
        curses.set_escdelay(_ESCAPE_MS)
        screen.keypad(True)
        screen.nodelay(True)
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        if _wants_colours():
            with contextlib.suppress(curses.error):
                curses.start_color()
                curses.use_default_colors()
        yield Terminal(screen)
    finally:
        with contextlib.suppress(OSError, termios.error):  # what Ctrl-S stopped would wait here
            termios.tcflow(_descriptor(), termios.TCOON)
        screen.keypad(False)
        curses.nocbreak()
        curses.echo()
        curses.endwin()


def _take_locale() -> None:
    """Take the characters of the user's locale; where this machine lacks it, those of UTF-8.

    Whoever comes by SSH brings the name of one that is installed at home.
    """
    for name in ("", "C.UTF-8"):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, name)
            return


def _descriptor() -> int:
    return sys.__stdout__.fileno() if sys.__stdout__ else 1


def _takes_more() -> bool:
    """Return False while the terminal takes nothing (poll(2): POLLOUT)."""
    looked = select.poll()
    looked.register(_descriptor(), select.POLLOUT)
    return bool(looked.poll(0))


def _wants_colours() -> bool:
    """Return False where NO_COLOR has a value (https://no-color.org); bold text tells then."""
    return not os.environ.get("NO_COLOR")


def _encodable(text: str) -> str:
    """Text that the terminal's encoding has; other characters become question marks."""
    encoding = locale.getpreferredencoding(do_setlocale=False)
    return text.encode(encoding, "replace").decode(encoding)
