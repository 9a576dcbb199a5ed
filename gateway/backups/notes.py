"""Notes of the timer's backups on their Pi, for whoever asks how it stands."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .kept_archives import MAX_NUMBER

SETTINGS: Final = Path("/etc/hedgerow-backup/backup.toml")
NOTES: Final = Path("/var/lib/hedgerow-backup")
NOTED: Final = "last.json"


def read(folder: Path) -> dict[str, Any]:
    """Return what is noted: ``good``, ``failure``, ``trial``, ``number``; empty if nothing is."""
    try:
        found = json.loads((folder / NOTED).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(noted: Mapping[str, Any]) -> int:
    """Return the number of the last backup as it is noted; 0 if it is none: a file may be damaged.

    Args:
        noted: of `read`.

    """
    found = noted.get("number")
    if isinstance(found, bool) or not isinstance(found, int):
        return 0
    return found if 0 < found <= MAX_NUMBER else 0


def write(folder: Path, noted: Mapping[str, Any]) -> None:
    """Replace what is noted, as a whole; anybody may read it.

    Raises:
        OSError: it can't be written; what was noted stays.

    """
    new = folder / f"{NOTED}.new"
    with new.open("w") as file:
        json.dump(noted, file)
        file.flush()
        os.fsync(file.fileno())
    new.chmod(0o644)
    new.replace(folder / NOTED)
