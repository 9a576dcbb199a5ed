"""Check that this process may write a file anew, which takes its folder, too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def why_not(files: Iterable[Path]) -> str:
    """Return why files can't be written anew here; empty if they can.

    A service that is confined may not, whoever its files are of: its file system is read only.

    Args:
        files: whether they are there or not.

    """
    for file in files:
        place = Path(os.path.realpath(file))  # no error where links lead in a circle
        if os.access(place, os.F_OK) and not os.access(place, os.W_OK):
            return f"{file}: the gateway may not write it"
        if not os.access(place.parent, os.W_OK | os.X_OK):
            return f"{place.parent}: the gateway may not write there"
    return ""
