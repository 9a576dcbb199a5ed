"""Runs a module under a clock that is wrong: `python shifted_clock.py SECONDS MODULE ...`.

The process that it begins reads its time there; processes that this one starts, and Java, do not.
"""

from __future__ import annotations

import runpy
import sys
import time


def shift(seconds: float) -> None:
    """Have this process's calendar ahead by so much; its steady clock stays."""
    seconds_now, micros_now = time.time, time.time_ns
    time.time = lambda: seconds_now() + seconds
    time.time_ns = lambda: micros_now() + round(seconds * 1e9)


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
