"""State of a gateway's backups: whether there is a good one, and whether it would serve.

The rule is pure and stands here once; all who show it (the status record, `hedgerow status` and
`hedgerow doctor`) take it from here. What it is made of are two files: the settings of the timer,
and the notes of what came of it.
"""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from . import notes, trials
from .notes import NOTES, SETTINGS

OVERDUE_DAYS: Final = 3.0
"""A gateway whose settings say nothing else has no good backup for too long after these."""
OFF: Final = "off"
NONE_YET: Final = "none yet"
GOOD: Final = "good"
OVERDUE: Final = "overdue"
TRIAL_FAILED: Final = "trial failed"
WRONG: Final = frozenset((OVERDUE, TRIAL_FAILED))
"""The states that somebody has to mend."""
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class BackupState:
    """One look.

    Attributes:
        backup: `OFF`, `NONE_YET`, `GOOD`, `OVERDUE` or `TRIAL_FAILED`; empty if it is not known.
        backup_why: why it is not good, or why the last backup failed though an older one is good.
        backup_age_s: of the last good one; None where there is none.

    """

    backup: str = ""
    backup_why: str = ""
    backup_age_s: float | None = None


def standing(
    noted: Mapping[str, Any], since_s: float, overdue_days: float, now_s: float
) -> BackupState:
    """Say how it stands where backups are made by a timer.

    Args:
        noted: what the timer has noted; see `timed`.
        since_s: since when it should make them, in seconds since 1970.
        overdue_days: after so many days without a good one something is wrong.
        now_s: by the clock of this machine, which may be behind.

    """
    good_s = _number(_table(noted.get("good")).get("at"))
    failure = _table(noted.get("failure")).get("why")
    why = failure[: trials.MAX_TEXT] if isinstance(failure, str) else ""
    age_s = None if good_s is None else max(0.0, now_s - good_s)
    without_s = now_s - since_s if age_s is None else age_s
    if without_s > overdue_days * _DAY_S:
        days = f"no good backup for {without_s / _DAY_S:.0f} days"
        return BackupState(OVERDUE, f"{days}: {why}" if why else days, age_s)
    trial = trials.parsed(noted.get("trial"))
    if trial is not None and not trial.is_well:
        return BackupState(TRIAL_FAILED, trial.why or "its trial failed", age_s)
    return BackupState(NONE_YET if age_s is None else GOOD, why, age_s)


class BackupFiles:
    """The two files of one machine.

    Args:
        settings: of the timer; there is none where no backups are made.
        folder: of its notes.
        now: tells the time, in seconds since 1970.

    Attributes:
        last: what `read` has found last.

    """

    def __init__(
        self, settings: Path = SETTINGS, folder: Path = NOTES, now: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._now = now
        self.last = BackupState()

    def read(self) -> BackupState:
        """Look now. It reads files and may wait for them: not for the event loop."""
        self.last = self._read()
        return self.last

    def _read(self) -> BackupState:
        try:
            since_s = self._settings.stat().st_mtime
            told = tomllib.loads(self._settings.read_text())
        except FileNotFoundError:
            return BackupState(OFF)
        except (OSError, ValueError):
            return BackupState()
        days = _number(told.get("overdue_days"))
        overdue_days = OVERDUE_DAYS if days is None or days <= 0 else days
        return standing(notes.read(self._folder), since_s, overdue_days, self._now())


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None
