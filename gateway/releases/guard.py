"""Has a release tried, and lets the one before it run again; what the Pi does by itself.

The order of steps is what a power cut needs: the trial is on the disk before the link moves, and
goes from it after the link has moved back. `resume`, before the service starts at a boot, takes up
what was cut off; `watch` goes on until the trial is over.

A trial that can't be noted does not begin. The way back is gone whatever can't be noted of it: a
full disk may be what is wrong with the release.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from . import trial as trials
from .asking import ListenersOnTrial
from .folder import ReleaseFolder
from .trial import ServiceEnds, Trial, TrialError

LOOK_S = 2.0
"""The interval between looks at the service."""
KEEP_S = 10.0
"""The most time that a power cut gives back to a trial: a card is worn by what is written."""


class GuardedService(Protocol):
    """The gateway's service, and the machine it runs on."""

    def boot_id(self) -> str:
        """Return what tells one boot from another."""

    def ends(self) -> ServiceEnds | None:
        """Return what systemd says of how it ended; None if it says nothing."""

    def restart(self) -> None:
        """Have it started again, and wait for nothing.

        Raises:
            OSError: systemd does not do it.

        """

    def start_guard(self) -> None:
        """Have `ReleaseGuard.watch` run beside it.

        Raises:
            OSError: systemd does not do it.

        """


@dataclass(slots=True)
class _Watched:
    """The state of a trial, as its guard has seen it.

    Attributes:
        kept: the trial as its file has it.
        trial: as it is by now.
        kept_s: when it was last tried to keep it.
        looked_s: until when its time is counted.
        has_restarted: whether the service was started again with the release before.
        told: of what fails, so that it is told once.

    """

    kept: Trial | None
    trial: Trial | None
    kept_s: float
    looked_s: float
    has_restarted: bool = False
    told: str = ""

    def tell(self, what: str, error: Exception) -> None:
        if self.told != (text := f"{what}: {error}"):
            _say(text)
        self.told = text


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

    def try_release(self, release: str, within_s: float, ring: int | None = None) -> None:
        """Let a release run; if nobody confirms it, the one that runs now does so again.

        Args:
            release: the one to try.
            within_s: in which it has to be confirmed.
            ring: of the roll-out, from 1; None if nobody said.

        Raises:
            TrialError: it is not installed, or runs already.
            OSError: something can't be written, or systemd does not do what it is told. Then what
                ran goes on, or the guard goes back to it.

        """
        with self._folder.locked():
            opened, current = self._folder.trial(), self._folder.current()
            boot_id, schemes = self._service.boot_id(), self._listeners.schemes()
            ends = self._service.ends()
            trial = trials.begun(current, release, within_s, boot_id, opened, schemes, ends)
            trial = replace(trial, ring=ring)
            if not self._folder.is_whole(release):
                raise TrialError(f"{release} is not installed")
            try:
                self._folder.keep(trial)
                self._service.start_guard()
                self._folder.switch(release)
            except OSError:
                if self._folder.current() == current:  # it has not begun
                    self._take_back(opened)
                raise
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
            self._close(trial, "")

    def send_back(self, why: str) -> str | None:
        """Let the release before run again; returns its name, or None if none is on trial."""
        with self._folder.locked():
            trial = self._folder.trial()
            if trial is None:
                return None
            self._return(replace(trial, why=trial.why or why), self._service.restart)
            return trial.before

    def resume(self) -> None:
        """Before the service starts at a boot: count the boot, and end what was cut off.

        Raises:
            OSError: what was cut off could not be ended.

        """
        with self._folder.locked():
            trial = self._folder.trial()
            if trial is None:
                return
            boot_id = self._service.boot_id()
            # Later in the same boot, where who watched ended amid the way back, the service runs.
            runs = trial.boot_id == boot_id
            trial = trials.passed(trial, 0.0, boot_id, None)
            if trial.why:
                self._return(trial, self._service.restart if runs else lambda: None)
            else:
                self._keep(trial)

    def watch(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Go on until no release is on trial, whatever fails meanwhile.

        Raises:
            TrialError: the trial's file is damaged, and was never read.

        """
        begun_s = time.monotonic()
        seen = _Watched(None, None, begun_s, begun_s)
        while True:
            try:
                with self._folder.locked():
                    if self._look(seen):
                        return
            except OSError as error:
                seen.tell("the trial goes on, and what failed is tried again", error)
            sleep(LOOK_S)

    def _look(self, seen: _Watched) -> bool:
        """Look once, and return whether the trial is over."""
        now_s, trial = time.monotonic(), self._read(seen)
        if trial is None:
            return True
        if trial != seen.kept:  # another one has begun
            seen.kept = seen.trial = trial
            seen.kept_s = seen.looked_s = now_s
        assert seen.trial is not None
        passed_s, seen.looked_s = now_s - seen.looked_s, now_s
        boot_id, ends = self._service.boot_id(), self._service.ends()
        seen.trial = trials.passed(seen.trial, passed_s, boot_id, ends)
        if seen.trial.why:
            self._return(seen.trial, lambda: self._restart_once(seen))
            return True
        if now_s - seen.kept_s >= KEEP_S:
            seen.kept_s = now_s
            if self._keep(seen.trial):
                seen.kept = seen.trial
        return False

    def _read(self, seen: _Watched) -> Trial | None:
        """Return the trial that is open; the one that was, where its file can't be read now."""
        try:
            return self._folder.trial()
        except (OSError, TrialError) as error:
            if seen.kept is None:
                raise
            seen.tell("the trial goes on as it was read before", error)
            return seen.kept

    def _restart_once(self, seen: _Watched) -> None:
        if not seen.has_restarted:  # else what is tried again is to close the trial alone
            self._service.restart()
            seen.has_restarted = True

    def _return(self, trial: Trial, restart: Callable[[], None]) -> None:
        """Let the release before run again.

        Raises:
            OSError: it does not yet: to be tried again.

        """
        self._keep(trial)
        self._folder.switch(trial.before)
        restart()
        self._close(trial, trial.why)

    def _keep(self, trial: Trial) -> bool:
        """Have a trial on the disk, if it takes it; return whether it does."""
        try:
            self._folder.keep(trial)
        except OSError as error:
            _say(f"the trial goes on, and is not noted: {error}")
            return False
        return True

    def _close(self, trial: Trial, why: str) -> None:
        if lacking := self._folder.close(trial, why):
            _say(f"how the trial of {trial.release} ended is not noted: {lacking}")

    def _take_back(self, opened: Trial | None) -> None:
        """Have the trial that was open before, or none."""
        if opened is not None:
            self._keep(opened)
            return
        try:
            self._folder.forget()
        except OSError as error:
            _say(f"the trial that has not begun is still noted: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"releases: {text}\n")
