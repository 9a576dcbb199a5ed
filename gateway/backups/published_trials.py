"""The word of a backup's last trial (`trials`) at the place of the backups: left, and fetched.

A gateway reads what was fetched for it, and loads nothing of what makes backups.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from . import trials
from .making import BackupError
from .places import BackupPlace
from .trials import BackupTrial


def leave(place: BackupPlace, gateway: str, trial: BackupTrial) -> None:
    """Put the word of a trial beside the backups, in place of the one before.

    Raises:
        BackupError: the place does not take it.

    """
    told = asdict(trial) | {"why": trial.why[: trials.MAX_TEXT]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial")
        file.write_text(json.dumps(told))
        place.put(file, trials.name_of(gateway))


def fetched(place: BackupPlace, listed: dict[str, int], gateway: str) -> BackupTrial | None:
    """Return what a place has of a gateway's last trial; None if it has nothing of use.

    Args:
        place: of the backups.
        listed: what it has, by name, and how many bytes of it.
        gateway: whose.

    """
    name = trials.name_of(gateway)
    if not 0 < listed.get(name, 0) <= trials.MAX_BYTES:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial")
        try:
            place.get(name, file, trials.MAX_BYTES)
            return trials.parsed(json.loads(file.read_bytes()[: trials.MAX_BYTES]))
        except (BackupError, OSError, ValueError):
            return None
