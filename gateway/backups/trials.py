"""Outcome of a backup's last trial: a small file beside the backups, which its gateway reads.

Who has the key to backups tries them, and that is no gateway. Its word comes to the gateway, and
to all who watch it, by the only thing that both reach: the place of the backups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

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
