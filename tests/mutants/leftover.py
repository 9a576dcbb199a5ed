"""Ends what the tests of a change have started, whose end nobody waits for any more."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

TRIED_IN = "MUTANT_TRIED_IN"
"""Says in the environment of all processes of a trial in which folder it is."""


def kill_those_left(folder: Path) -> None:
    """Kill the processes of a trial in a folder.

    A gateway has a session of its own, and with a change in it what it computes may never end.
    """
    mark = f"{TRIED_IN}={folder}\0".encode()
    for one in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in one.read_bytes():
                os.kill(int(one.parent.name), signal.SIGKILL)
