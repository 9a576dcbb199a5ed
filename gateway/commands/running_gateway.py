"""The process of a gateway of this machine: whether it runs, and the signals that it knows."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from gateway.commands.errors import FailedError
from gateway.state_folder import listeners_file
from light_dataclasses import dataclass

_CLOCK_S = 2.0
"""The kernel tells when a process began in hundredths, by a clock that may have been set."""


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

        What was killed leaves its number behind, which another process may have by now: one that
        began after it was written, or is no gateway, is not meant.

        Args:
            state_dir: the folder.

        Raises:
            FailedError: the folder can't be looked into.

        """
        file = state_dir / listeners_file.NAME
        try:
            pid = listeners_file.read(state_dir).get("pid")
            written_s = file.stat().st_mtime
        except PermissionError as error:
            why = "permission denied to see whether the gateway runs"
            raise FailedError(f"{file}: {why}") from error
        except (OSError, ValueError):
            return None
        is_number = type(pid) is int and pid > 0  # one of a container may be the first
        return cls(pid) if is_number and _is_gateway(pid, written_s) else None

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


def _is_gateway(pid: int, written_s: float) -> bool:
    try:
        process = psutil.Process(pid)
        began_s, words = process.create_time(), process.cmdline()
    except psutil.Error:
        return False
    return "run" in words and began_s <= written_s + _CLOCK_S
