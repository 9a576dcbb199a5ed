"""Has a release tried, and lets the one before it run again; what the Pi does by itself.

The order of steps is what a power cut needs: the trial is on the disk before the link moves, and
goes from it after the link has moved back. `resume`, before the service starts at a boot, takes up
what was cut off; `watch` goes on until the trial is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from . import trial as trials
from .asking import ListenersOnTrial
from .folder import ReleaseFolder
from .trial import Trial

LOOK_S = 2.0
"""How often the service is looked at."""
KEEP_S = 10.0
"""How much time a power cut may give back to a trial: a card is worn by what is written."""


class GuardedService(Protocol):
    """The gateway's service, and the machine it runs on."""

    def boot_id(self) -> str:
        """What tells one boot from another."""

    def restarts(self) -> int:
        """How often systemd has started it again since somebody last did."""

    def restart(self) -> None:
        """Have it started again, and wait for nothing."""

    def start_guard(self) -> None:
        """Have `ReleaseGuard.watch` run beside it."""


class ReleaseGuard:
    """Changes which release runs.

    Args:
        folder: of releases.
        service: which runs them.
        listeners: of the release that runs.

    """

    def __init__(
        self, folder: ReleaseFolder, service: GuardedService, listeners: ListenersOnTrial
    ) -> None:
        self._folder = folder
        self._service = service
        self._listeners = listeners

    def try_release(self, release: str, within_s: float) -> None:
        """Let a release run; if nobody confirms it, the one that runs now does so again.

        Raises:
            TrialError: it is not installed, or runs already.

        """
        with self._folder.locked():
            opened, current = self._folder.trial(), self._folder.current()
            boot_id, schemes = self._service.boot_id(), self._listeners.schemes()
            trial = trials.begun(current, release, within_s, boot_id, opened, schemes)
            if not self._folder.is_whole(release):
                raise trials.TrialError(f"{release} is not installed")
            self._folder.keep(trial)
            self._service.start_guard()
            self._folder.switch(release)
            self._service.restart()

    def confirm(self, release: str) -> None:
        """Have a release stay, whoever says so: its listeners must answer.

        Raises:
            TrialError: it is not on trial, has failed, or a listener does not answer.

        """
        trial = self._folder.trial()
        trials.confirmable(trial, release, self._folder.current(), ())
        # Without the lock: whoever watches goes on meanwhile, and may send it back.
        complaints = self._listeners.complaints(trial.schemes if trial is not None else ())
        with self._folder.locked():
            trial = self._folder.trial()
            trials.confirmable(trial, release, self._folder.current(), complaints)
            assert trial is not None
            self._folder.close(trial, "")

    def send_back(self, why: str) -> str | None:
        """Let the release before run again; returns its name, or None if none is on trial."""
        with self._folder.locked():
            trial = self._folder.trial()
            if trial is None:
                return None
            self._return(replace(trial, why=trial.why or why), self._service.restart)
            return trial.before

    def resume(self) -> None:
        """Before the service starts at a boot: count the boot, and end what was cut off."""
        with self._folder.locked():
            trial = self._folder.trial()
            if trial is None:
                return
            trial = trials.passed(trial, 0.0, self._service.boot_id(), 0)
            self._folder.keep(trial)
            if trial.why:
                self._return(trial, lambda: None)

    def watch(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Go on until no release is on trial."""
        kept: Trial | None = None
        kept_s = time.monotonic()
        while True:
            with self._folder.locked():
                now_s = time.monotonic()
                trial = self._folder.trial()
                if trial is None:
                    return
                if trial != kept:  # another one has begun
                    kept, kept_s = trial, now_s
                boot_id, restarts = self._service.boot_id(), self._service.restarts()
                after = trials.passed(trial, now_s - kept_s, boot_id, restarts)
                if after.why:
                    self._return(after, self._service.restart)
                    return
                if now_s - kept_s >= KEEP_S:
                    self._folder.keep(after)
                    kept, kept_s = after, now_s
            sleep(LOOK_S)

    def _return(self, trial: Trial, restart: Callable[[], None]) -> None:
        self._folder.keep(trial)
        self._folder.switch(trial.before)
        restart()
        self._folder.close(trial, trial.why)
