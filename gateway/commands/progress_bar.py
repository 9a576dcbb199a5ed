"""How far something is, on one line of a terminal that is written over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

CELLS = 30
_EVERY_S = 0.2
_MIB = 1 << 20


def text(what: str, done_bytes: int, all_bytes: int, elapsed_s: float) -> str:
    """The line.

    Args:
        what: goes on.
        done_bytes: how far it is.
        all_bytes: how far it goes.
        elapsed_s: since it began.

    """
    share = min(done_bytes / all_bytes, 1.0) if all_bytes else 1.0
    bar = "#" * round(share * CELLS)
    speed = done_bytes / elapsed_s if elapsed_s > 0 else 0.0
    left = f"{(all_bytes - done_bytes) / speed:.0f} s left" if speed else ""
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
            sys.stderr.write(f"\r\x1b[K{line}" + "\n" * is_last)
            sys.stderr.flush()

    return progress
