"""Progress of something, on one line of a terminal that is written over.

`show` is for what counts bytes, `GoingOn` for what knows no more than its steps. Neither writes
anything where standard error is no terminal.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from gateway.base.printable import printable

CELLS = 30
QUICK_S: Final = 2.0
"""Work that takes no longer than that is not shown."""
_EVERY_S = 0.2
_MIB = 1 << 20
_CLEAR: Final = "\r\x1b[K"
"""Back to the line's begin, and erase it (ECMA-48: EL)."""


def text(what: str, done_bytes: int, all_bytes: int, elapsed_s: float) -> str:
    """Return the line.

    Args:
        what: goes on.
        done_bytes: how far it is.
        all_bytes: how far it goes.
        elapsed_s: since it began.

    """
    share = min(done_bytes / all_bytes, 1.0) if all_bytes else 1.0
    bar = "#" * round(share * CELLS)
    speed = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    left = f"{max(0, all_bytes - done_bytes) / speed:.0f} s left" if speed else ""
    return (
        f"{what:12} [{bar:<{CELLS}}] {share:4.0%} of {all_bytes / _MIB:.0f} MiB"
        f"  {speed / _MIB:.1f} MiB/s  {left}"
    )


def show(what: str) -> Callable[[int, int], None]:
    """Begin a line on standard error; what is returned is told how many bytes of how many are done.

    Where standard error is no terminal nothing is shown.
    """
    begun_s = shown_s = time.monotonic()
    shows = sys.stderr is not None and sys.stderr.isatty()

    def progress(done_bytes: int, all_bytes: int) -> None:
        nonlocal shown_s
        now_s, is_last = time.monotonic(), done_bytes >= all_bytes
        if shows and (is_last or now_s - shown_s >= _EVERY_S):
            shown_s = now_s
            line = text(what, done_bytes, all_bytes, now_s - begun_s)
            sys.stderr.write(f"{_CLEAR}{line}" + "\n" * is_last)
            sys.stderr.flush()

    return progress


def step_text(what: str, elapsed_s: float, all_s: float | None, cells: int) -> str:
    """Return the line of a step.

    Args:
        what: goes on.
        elapsed_s: since it began; of the whole where it is known how long that takes.
        all_s: how long the whole takes; None where that is not known.
        cells: of the terminal, in which the line stays.

    """
    if all_s is None:
        return f"{printable(what)} ... {elapsed_s:.0f} s"[: cells - 1]
    share = min(elapsed_s / all_s, 1.0) if all_s > 0 else 1.0
    bar = "#" * round(share * CELLS)
    left_s = max(0.0, all_s - elapsed_s)
    return f"[{bar:<{CELLS}}] {share:4.0%}  {left_s:.0f} s left  {printable(what)}"[: cells - 1]


class GoingOn:
    """A line that says which step goes on, and since when, until the end of a ``with``.

    Args:
        all_s: how long all of it takes; None where that is not known.

    """

    def __init__(self, all_s: float | None = None) -> None:
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()
        self._all_s = all_s
        self._what = ""
        self._begun_s = self._step_s = time.monotonic()
        self._is_written = False
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="progress", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        if self.is_shown:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> None:
        """Take the line away; nothing more is shown."""
        self._has_ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            self._erase()

    def step(self, what: str) -> None:
        """Something else goes on from now on."""
        with self._lock:
            self._what, self._step_s = what, time.monotonic()

    def say(self, text: str) -> None:
        """Write lines to standard output, which stay; the last of them goes on."""
        with self._lock:
            self._erase()
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            self._what, self._step_s = text.rpartition("\n")[2].strip(), time.monotonic()

    def _go_on(self) -> None:
        while not self._has_ended.wait(_EVERY_S):
            with self._lock:
                now_s = time.monotonic()
                is_quick = now_s - self._step_s < QUICK_S and self._all_s is None
                if self._what and not is_quick:
                    since_s = self._step_s if self._all_s is None else self._begun_s
                    cells = shutil.get_terminal_size().columns
                    self._write(step_text(self._what, now_s - since_s, self._all_s, cells))

    def _erase(self) -> None:
        if self._is_written:
            self._write("")
            self._is_written = False

    def _write(self, line: str) -> None:
        if self.is_shown:
            self._is_written = True
            sys.stderr.write(f"{_CLEAR}{line}")
            sys.stderr.flush()
