"""What came of a backup's last trial: a small file beside the backups, which its gateway reads.

Who has the key to backups tries them, and that is no gateway. Its word comes to the gateway, and
to all who watch it, by the only thing that both reach: the place of the backups.
"""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from .making import BackupError
from .places import BackupPlace

MAX_BYTES: Final = 4096
"""A longer file is none of ours."""
MAX_TEXT: Final = 200
"""Characters of a reason, and of a name."""


@dataclass(frozen=True, slots=True)
class BackupTrial:
    """One trial.

    Attributes:
        at_s: when it was, in seconds since 1970, by the clock of who made it.
        backup: the name of the archive; empty if there was none.
        is_well: whether its gateway started.
        why: why it did not.

    """

    at_s: float
    backup: str
    is_well: bool
    why: str = ""


def name_of(gateway: str) -> str:
    """Return what the file of a gateway's last trial is called."""
    return f"{gateway}.trial.json"


def leave(place: BackupPlace, gateway: str, trial: BackupTrial) -> None:
    """Put the word of a trial beside the backups, in place of the one before.

    Raises:
        BackupError: the place does not take it.

    """
    told = asdict(trial) | {"why": trial.why[:MAX_TEXT]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial")
        file.write_text(json.dumps(told))
        place.put(file, name_of(gateway))


def fetched(place: BackupPlace, listed: dict[str, int], gateway: str) -> BackupTrial | None:
    """Return what a place has of a gateway's last trial; None if it has nothing of use.

    Args:
        place: of the backups.
        listed: what it has, by name, and how many bytes of it.
        gateway: whose.

    """
    name = name_of(gateway)
    if not 0 < listed.get(name, 0) <= MAX_BYTES:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trial")
        try:
            place.get(name, file, MAX_BYTES)
            return parsed(json.loads(file.read_bytes()[:MAX_BYTES]))
        except (BackupError, OSError, ValueError):
            return None


def parsed(told: Any) -> BackupTrial | None:
    """Return a trial of what JSON has of it; None if that is none."""
    if not isinstance(told, dict):
        return None
    at_s, backup = told.get("at_s"), told.get("backup")
    is_well, why = told.get("is_well"), told.get("why")
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not math.isfinite(at_s):
        return None
    if not isinstance(is_well, bool) or not isinstance(backup, str) or not isinstance(why, str):
        return None
    return BackupTrial(float(at_s), backup[:MAX_TEXT], is_well, why[:MAX_TEXT])
