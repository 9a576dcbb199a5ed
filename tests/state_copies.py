"""Copies of the folder of a gateway that runs, as a kill at a moment would leave it."""

from __future__ import annotations

import shutil
from pathlib import Path

Seen = dict[Path, tuple[int, int, int]]


def copy_of_running(state: Path, to: Path) -> None:
    """Copy a folder in whose files threads may write meanwhile, each file as of one moment.

    A file that is replaced has another name for a moment, under which it is gone before it is
    copied; so this is done again until nothing has changed from begin to end.
    """
    while True:
        before = _seen(state)
        try:
            shutil.copytree(state, to)
        except shutil.Error:
            is_whole = False
        else:
            is_whole = _seen(state) == before
        if is_whole:
            return
        shutil.rmtree(to)


def _seen(folder: Path) -> Seen:
    found: Seen = {}
    for path in folder.rglob("*"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found
