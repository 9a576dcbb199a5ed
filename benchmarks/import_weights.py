"""The memory that each import takes, as one process makes one after the other.

Reads the names of modules, a line each, in the order in which their bodies ran: what a module
imports stands before it. Tells for each how much resident memory grew while it was imported, of the
process's own data and of mapped files (``/proc/self/smaps_rollup``, proc(5)). A process gets memory
by pages, so a small module may seem to take none and the next one 4 KiB: sums of many are right.
Imports nothing by itself that a plain interpreter has not.
"""

from __future__ import annotations

import gc
import sys

COLLECTED_AFTER = 50_000
"""As `gateway.program` has it."""


def resident_kib() -> tuple[int, int]:
    """Return what is resident of this process's own data, and of files, KiB."""
    told = {}
    with open("/proc/self/smaps_rollup", encoding="ascii") as rollup:  # noqa: PTH123  # pathlib is a module that is measured
        for line in rollup:
            name, _, rest = line.partition(":")
            if rest.endswith("kB\n"):
                told[name] = int(rest.split()[0])
    return told["Anonymous"], told["Rss"] - told["Anonymous"]


def main() -> None:
    """Import what stdin names, and print lines of own KiB, file KiB and a name; all at last."""
    gc.set_threshold(COLLECTED_AFTER)
    resident_kib()
    before = resident_kib()
    print(*before, "")
    for name in sys.stdin.read().split():
        try:
            __import__(name)
        except ImportError:  # optional: its importer goes on without
            continue
        now = resident_kib()
        print(now[0] - before[0], now[1] - before[1], name)
        before = now


if __name__ == "__main__":
    main()
