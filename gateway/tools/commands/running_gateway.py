"""The process of a gateway of this machine: whether it runs, and the signals that it knows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from gateway.process.state_folder import listeners_file
from gateway.tools.commands.errors import FailedError
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that runs.

    Attributes:
        pid: of its process.

    """

    pid: int

    @classmethod
    def find(cls, state_dir: Path) -> RunningGateway | None:
        """Find the gateway of a state folder; None if none runs.

        What was killed leaves its number behind, which another process may have by now. A gateway
        has files of its state folder open: a process without any is not meant. Nor is one of
        another user than wrote the file: who owns the folder could name any process there, and
        root would signal it.

        Args:
            state_dir: the folder.

        Raises:
            FailedError: the folder can't be looked into.

        """
        try:
            told, owner = listeners_file.read_with_owner(state_dir)
            pid = told.get("pid")
            if (
                not isinstance(pid, int)
                or pid <= 0
                or Path("/proc", str(pid)).stat().st_uid != owner
            ):
                return None
            if not _has_open(pid, state_dir.resolve()):
                return None
        except PermissionError as error:
            why = "permission denied to see whether the gateway runs"
            raise FailedError(f"{error.filename or state_dir}: {why}") from error
        except (OSError, ValueError):
            return None
        return cls(pid)

    def reload(self) -> None:
        """Have it read again what it takes over while it runs."""
        self._signal(signal.SIGHUP)

    def restart(self) -> None:
        """Have it start anew in its process."""
        self._signal(signal.SIGUSR2)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError as error:
            raise FailedError(f"the gateway (process {self.pid}) has just ended") from error
        except PermissionError as error:
            why = "it is another user's: repeat this as that user, or with sudo"
            raise FailedError(f"the gateway (process {self.pid}) takes no signal: {why}") from error


def _has_open(pid: int, folder: Path) -> bool:
    """Return whether a process has a file below a folder open (proc_pid_fd(5)).

    Raises:
        FileNotFoundError: there is no such process.
        PermissionError: it is another user's.

    """
    for descriptor in Path("/proc", str(pid), "fd").iterdir():
        try:
            if descriptor.readlink().is_relative_to(folder):
                return True
        except FileNotFoundError:  # closed meanwhile
            continue
    return False
