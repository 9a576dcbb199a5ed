"""The folder of releases on a Pi: the link to the one that runs, and the trial that is open.

::

    venv -> releases/0.2.0-...    what runs; replaced by one rename
    releases/NAME/installed       such a release is whole
    releases/NAME/wheels.tar      what it was installed from, and a delta of the next can begin with
    trial.json                    is there while one is on trial
    last-trial.json               how the last trial ended

Each file is whole at every moment and on the disk before the next step. Whoever changes any of
them holds the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import trial as trials
from .trial import Trial, TrialError

LINK = "venv"
RELEASES = "releases"
INSTALLED = "installed"
ARCHIVE = "wheels.tar"
OPEN = "trial.json"
LAST = "last-trial.json"
_LOCK = ".lock"


class ReleaseFolder:
    """The folder of releases.

    Args:
        path: the folder.

    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Have nobody else change anything meanwhile."""
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def current(self) -> str:
        """Return the release that the link leads to.

        Raises:
            TrialError: there is no such link.

        """
        try:
            return (self.path / LINK).readlink().name
        except OSError as error:
            raise TrialError(f"{self.path / LINK}: {error.strerror}") from error

    def is_whole(self, release: str) -> bool:
        """Return whether this release is installed."""
        return "/" not in release and (self.path / RELEASES / release / INSTALLED).is_file()

    def archive(self, release: str) -> Path:
        """Return where the archive is that this release was installed from.

        Raises:
            TrialError: it is not installed.

        """
        if not self.is_whole(release):
            raise TrialError(f"{release} is not installed in {self.path / RELEASES}")
        return self.path / RELEASES / release / ARCHIVE

    def switch(self, release: str) -> None:
        """Let the link lead to a release.

        Raises:
            TrialError: it is not installed.
            OSError: the folder can't be written to.

        """
        if not self.is_whole(release):
            raise TrialError(f"{release} is not installed in {self.path / RELEASES}")
        fresh = self.path / f"{LINK}.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self.path / RELEASES / release)
        fresh.rename(self.path / LINK)
        self._sync()

    def trial(self) -> Trial | None:
        """Return the trial that is open.

        Raises:
            TrialError: its file is damaged; it names the file.

        """
        path = self.path / OPEN
        try:
            return trials.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except TrialError as error:
            raise TrialError(f"{path}: {error}") from error

    def keep(self, trial: Trial) -> None:
        """Have this trial on the disk."""
        self._write(OPEN, trials.encode(trial))

    def close(self, trial: Trial, why: str) -> str:
        """End a trial: how it ended stays, the trial does not.

        Args:
            trial: the one.
            why: the release before it runs again; empty if it was confirmed.

        Returns:
            Why it could not be noted how it ended, as on a full disk; empty if it is.

        Raises:
            OSError: the trial is still open.

        """
        told = {"release": trial.release, "before": trial.before, "why": why, "ring": trial.ring}
        told["outcome"] = "returned" if why else "confirmed"
        lacking = ""
        try:
            self._write(LAST, json.dumps(told).encode() + b"\n")
        except OSError as error:
            lacking = str(error)
        self.forget()
        return lacking

    def forget(self) -> None:
        """Have no trial.

        Raises:
            OSError: it is still open.

        """
        (self.path / OPEN).unlink(missing_ok=True)
        self._sync()

    def last(self) -> dict[str, Any] | None:
        """Return how the last trial ended; None if there was none."""
        try:
            told = json.loads((self.path / LAST).read_bytes())
        except (OSError, ValueError):
            return None
        return told if isinstance(told, dict) else None

    def _write(self, name: str, data: bytes) -> None:
        fresh = self.path / f"{name}.new"
        with fresh.open("wb") as file:
            # The gateway tells of it, which is no root; there is no secret in it.
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self.path / name)
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
