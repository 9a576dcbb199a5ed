"""The state of alerts over a restart: on the disk, and in memory while the disk takes nothing.

An alert about a disk is told while that disk keeps nothing. So that a process which is started anew
on the mended disk knows whom it owes the end, what the disk does not take goes to the service's
runtime folder, which is in memory: it outlives the process, and not the machine's power.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from alerts import state as states
from alerts.state import AlertState
from gateway.base.kept_file import KeptFile

STATE_FILE: Final = "alerts.json"
RUNTIME_FOLDER: Final = "RUNTIME_DIRECTORY"
"""The variable by which systemd names the folder (systemd.exec(5)); several stand with colons."""
_WITHOUT: Final = "alerts that stand are raised once more, and silences have ended"


def runtime_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder in memory that the service was given, or None."""
    named = environment.get(RUNTIME_FOLDER, "").partition(":")[0]
    return Path(named) if named else None


class KeptAlerts:
    """Keeps the state of alerts in a file, or in its stand-in while the file can't be written.

    Args:
        state_dir: the folder of the file.
        stand_in_dir: the folder of the stand-in; None where there is none.

    """

    def __init__(self, state_dir: Path, stand_in_dir: Path | None) -> None:
        self._file = KeptFile(state_dir / STATE_FILE, _WITHOUT, is_durable=True)
        self._stand_in: KeptFile | None = None
        if stand_in_dir is not None:
            self._stand_in = KeptFile(stand_in_dir / STATE_FILE, _WITHOUT)

    def read(self) -> AlertState:
        """Return what was kept last, wherever it was.

        Raises:
            OSError: the file can't be read now, and is to be left as it is.

        """
        found = self._file.read(states.decode) or AlertState()
        if self._stand_in is not None:
            with contextlib.suppress(OSError):
                other = self._stand_in.read(states.decode)
                if other is not None and other.kept > found.kept:
                    return other
        return found

    @staticmethod
    def encode(state: AlertState) -> bytes:
        """Return a state as it is to be kept, with the next number of its writing."""
        state.kept += 1
        return state.encode()

    def write(self, data: bytes) -> None:
        """Write a state to the disk; not for the event loop.

        Raises:
            OSError: the disk does not take it.

        """
        self._file.write(data)

    def write_stand_in(self, data: bytes) -> None:
        """Write to memory what the disk has not taken, where there is a place for it."""
        if self._stand_in is not None:
            with contextlib.suppress(OSError):  # it is as much lost as without a stand-in
                self._stand_in.write(data)

    def drop_stand_in(self) -> None:
        """Delete the stand-in: the disk has what is newer."""
        if self._stand_in is not None:
            with contextlib.suppress(OSError):
                self._stand_in.remove()
