"""The gateway that serves the page, as what is told that its configuration has changed."""

from __future__ import annotations

import os
import signal
from pathlib import Path


class OwnProcess:
    """This process, where it serves a gateway as `gateway.process.running.service` does."""

    @classmethod
    def find(cls, state_dir: Path) -> OwnProcess | None:
        """Return it; None where it does not listen to signals, so that they would end it.

        Args:
            state_dir: of the gateway, whichever: the page is its own.

        """
        del state_dir
        return cls() if _listens(signal.SIGHUP) and _listens(signal.SIGUSR2) else None

    def reload(self) -> None:
        """Read again what is taken over while it runs."""
        _tell(signal.SIGHUP)

    def restart(self) -> None:
        """Start anew in its process."""
        _tell(signal.SIGUSR2)


def _listens(number: signal.Signals) -> bool:
    return signal.getsignal(number) is not signal.SIG_DFL


def _tell(number: signal.Signals) -> None:
    if _listens(number):  # else it is ending, and starts by what is written
        os.kill(os.getpid(), number)
