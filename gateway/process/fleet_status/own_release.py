"""Release of a gateway, the outcome of its last trial, and whether a reboot is wanted.

All of it is in files: a release that the roles have installed stands in a folder of releases
(`gateway.releases.folder`), and Debian notes what waits for a reboot. A gateway that came in
another way, such as by the Debian package, has no such folder and says nothing of releases.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from gateway.base.printable import printable
from gateway.releases.folder import RELEASES, ReleaseFolder
from gateway.releases.trial import TrialError
from light_dataclasses import dataclass
from record_formats.status_record import MAX_TEXT

REBOOT_REQUIRED: Final = "run/reboot-required"
"""Is there while an upgrade of a package waits for a reboot (Debian Policy, section 9.1.1)."""
ON_TRIAL: Final = "on trial"
_OUTCOMES: Final = ("confirmed", "returned")


@dataclass(frozen=True, slots=True)
class ReleaseReading:
    """One look; see `record_formats.status_record.StatusRecord` for each field."""

    release: str = ""
    ring: int | None = None
    trial: str = ""
    trial_release: str = ""
    trial_why: str = ""
    reboot_due: bool | None = None


class ReleaseFiles:
    """Of one machine.

    Args:
        prefix: the environment that this process runs in (`sys.prefix`).
        root: where Debian's files are; another folder in tests.

    """

    def __init__(self, prefix: Path = Path(sys.prefix), root: Path = Path("/")) -> None:
        # Now, and not at each look: the link leads elsewhere before this process ends.
        own = prefix.resolve()
        is_one = own.parent.name == RELEASES
        self._release = own.name if is_one else ""
        self._folder = ReleaseFolder(own.parents[1]) if is_one else None
        self._reboot_required = root / REBOOT_REQUIRED

    def read(self) -> ReleaseReading:
        """Look now. It reads files and may wait for them: not for the event loop."""
        told = {} if self._folder is None else _trial(self._folder)
        ring = told.get("ring")
        return ReleaseReading(
            release=_text(self._release),
            ring=ring if type(ring) is int and ring > 0 else None,
            trial=told.get("outcome", ""),
            trial_release=_text(told.get("release")),
            trial_why=_text(told.get("why")),
            reboot_due=self._is_reboot_due(),
        )

    def _is_reboot_due(self) -> bool | None:
        try:
            self._reboot_required.stat()
        except FileNotFoundError:
            # Where nothing is noted of this boot, nobody knows.
            return False if self._reboot_required.parent.is_dir() else None
        except OSError:
            return None
        return True


def _trial(folder: ReleaseFolder) -> dict[str, Any]:
    """Return the trial that is open, else the last one; nothing where neither is, or can be
    read."""
    try:
        trial = folder.trial()
    except (OSError, TrialError):
        return {}
    if trial is not None:
        return {"outcome": ON_TRIAL, "release": trial.release, "ring": trial.ring}
    last = folder.last() or {}
    return last if last.get("outcome") in _OUTCOMES else {}


def _text(value: Any) -> str:
    return printable(value)[:MAX_TEXT] if isinstance(value, str) else ""
