"""A gateway looks up its machine, release, backups and rating for its status record.

All of it is in files that may be slow, so a look is for a thread.
"""

from __future__ import annotations

from gateway.backups.backup_state import BackupFiles, BackupState
from gateway.process.fleet_status.machine import MachineFiles, MachineReading
from gateway.process.fleet_status.own_release import ReleaseFiles, ReleaseReading
from gateway.process.fleet_status.rating import Rating, RatingFile
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatusFindings:
    """The findings of one look; all is unknown where nobody has looked.

    Attributes:
        machine: what the gateway runs on.
        release: what it runs.
        backup: how it stands with its backups.
        rating: how much the machine should be given.

    """

    machine: MachineReading = MachineReading()
    release: ReleaseReading = ReleaseReading()
    backup: BackupState = BackupState()
    rating: Rating = Rating()


class StatusSources:
    """The files that are looked at.

    Args:
        machine: of the kernel and the disk.
        release: of the installed release.
        backups: of the backups' timer.
        rating: of the last measurement that was kept.

    """

    def __init__(
        self, machine: MachineFiles, release: ReleaseFiles, backups: BackupFiles, rating: RatingFile
    ) -> None:
        self._machine = machine
        self._release = release
        self._backups = backups
        self._rating = rating

    def read(self) -> StatusFindings:
        """Look now."""
        return StatusFindings(
            self._machine.read(),
            self._release.read(),
            self._backups.read(),
            self._rating.read(),
        )
