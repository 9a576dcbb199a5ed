"""Notes of the timer's backups on their Pi, for whoever asks how it stands."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

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
