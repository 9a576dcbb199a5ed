"""Has a system tried, and what a Pi does about it by itself at each start."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from gateway.tools.system_slots import trial as trials
from gateway.tools.system_slots.folder import SystemFolder
from gateway.tools.system_slots.slots import Slot, SystemSlotError
from gateway.tools.system_slots.trial import (
    CloseTrial,
    KeepTrial,
    MakeDefault,
    RestartPi,
    StartedSlots,
    SystemTrial,
    TrialStep,
)

LOOK_S = 2.0
"""The interval between questions to the gateway."""
HEALTHY_LOOKS = 3
"""So often in a row it has to be healthy: one that ends after its start is not."""
WITHIN_S = 600.0


class StartedBoard(Protocol):
    """A board, as the guard uses it: `Board`."""

    def running(self) -> StartedSlots:
        """Return what was started, and what is started by default."""

    def make_default(self, slot: Slot) -> None:
        """Have a slot started from now on."""

    def restart(self, *, is_try: bool) -> None:
        """Have the Pi restart, into the other slot for once or as ever."""


class AskedGateway(Protocol):
    """A gateway, as the guard asks it: `GatewayHealth`."""

    def has_gateway(self) -> bool:
        """Return whether there is one to be asked."""

    def status(self) -> dict[str, Any]:
        """Return what it says; empty if it does not answer."""

    def complaints(self, before: Mapping[str, Any], *, has_to_run: bool) -> list[str]:
        """Return why the gateway is less healthy than it was; empty if it is not."""


class SystemGuard:
    """Changes which system is started.

    Args:
        folder: on the data partition.
        board: the Pi.
        gateway: is asked how it is.

    """

    def __init__(self, folder: SystemFolder, board: StartedBoard, gateway: AskedGateway) -> None:
        self._folder = folder
        self._board = board
        self._gateway = gateway

    def install(
        self, write: Callable[[], str], within_s: float, attempts: int, *, starts: bool
    ) -> str:
        """Have a system written to the other slot, and try it.

        Args:
            write: writes it; returns its version when it is whole.
            within_s: in which its gateway has to be healthy.
            attempts: how often it is started.
            starts: whether the Pi restarts into it now; else `try_other` does later.

        Returns:
            Its version.

        Raises:
            SystemSlotError: the other slot is needed, or is no slot.

        """
        with self._folder.locked():
            running = self._board.running()
            trials.check_install(running, self._folder.trial())
            other = running.slot.other
            self._folder.note_version(other, None)
            version = write()
            self._folder.note_version(other, version)
            if starts:
                self._try(running, version, within_s, attempts)
        return version

    def try_other(self, within_s: float, attempts: int) -> str:
        """Try the system in the other slot, which is whole; returns its version.

        Raises:
            SystemSlotError: none is, or one is on trial.

        """
        with self._folder.locked():
            running = self._board.running()
            trials.check_install(running, self._folder.trial())
            version = self._folder.version_in(running.slot.other)
            if version is None:
                raise SystemSlotError(f"slot {running.slot.other.value} holds no whole system")
            self._try(running, version, within_s, attempts)
        return version

    def confirm(self) -> str:
        """Have the system on trial stay; returns its version.

        Raises:
            SystemSlotError: none is on trial here.

        """
        with self._folder.locked():
            trial = self._folder.trial()
            self._carry_out(trials.confirmed(self._board.running(), trial))
            assert trial is not None
            return trial.version

    def send_back(self, why: str) -> bool:
        """End the trial, and return whether one was open."""
        with self._folder.locked():
            trial = self._folder.trial()
            if trial is not None:
                self._carry_out(trials.sent_back(self._board.running(), trial, why))
            return trial is not None

    def watch(
        self,
        version: str,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """At each start: take up what was cut off; then confirm what is healthy, or go back.

        Args:
            version: of the system that runs.
            sleep: waits so many seconds.
            clock: the machine's, in seconds.

        """
        begun_s, healthy = clock(), 0
        with self._folder.locked():
            running, trial = self._board.running(), self._folder.trial()
            if self._folder.version_in(running.slot) != version:
                try:
                    self._folder.note_version(running.slot, version)
                except OSError as error:  # as on a full disk: the trial has to end all the same
                    _say(f"which version runs is not noted: {error}")
            if self._carry_out(trials.at_boot(running, trial)):
                return
        while (trial := self._folder.trial()) is not None:
            before = self._folder.status_before()
            complaints = self._gateway.complaints(before, has_to_run=trial.has_gateway)
            healthy = 0 if complaints else healthy + 1
            if healthy >= HEALTHY_LOOKS:
                self.confirm()
                return
            late = trials.passed(trial, clock() - begun_s)
            if late.why:
                why = f"{late.why}: {'; '.join(complaints) or 'not for long enough'}"
                self.send_back(why)
                return
            sleep(LOOK_S)

    def status(self) -> dict[str, Any]:
        """Return what runs, what is started, what is on trial, how the last trial ended."""
        running, trial = self._board.running(), self._folder.trial()
        return {
            "running": running.slot.value,
            "default": running.default.value,
            "versions": {slot.value: self._folder.version_in(slot) for slot in Slot},
            "trial": None if trial is None else {**asdict(trial), "slot": trial.slot.value},
            "last": self._folder.last(),
        }

    def _try(self, running: StartedSlots, version: str, within_s: float, attempts: int) -> None:
        has_gateway = self._gateway.has_gateway()
        self._folder.note_status(self._gateway.status() if has_gateway else {})
        trial = SystemTrial(running.slot.other, version, attempts, within_s, has_gateway)
        self._carry_out(trials.begun(running, trial))

    def _carry_out(self, steps: tuple[TrialStep, ...]) -> bool:
        """Return whether the Pi restarts.

        Raises:
            OSError: something can't be written. A system that has failed is left all the same: only
                a start of the one on trial has to be counted before.

        """
        for step in steps:
            match step:
                case KeepTrial(trial=trial) if trial.why:
                    try:
                        self._folder.keep(trial)
                    except OSError as error:
                        _say(f"why the system is left is not noted: {error}")
                case KeepTrial(trial=trial):
                    self._folder.keep(trial)
                case MakeDefault(slot=slot):
                    self._board.make_default(slot)
                case CloseTrial(trial=trial):
                    if lacking := self._folder.close(trial):
                        _say(f"how the trial of {trial.version} ended is not noted: {lacking}")
                case RestartPi(is_try=is_try):
                    self._board.restart(is_try=is_try)
                    return True
        return False


def _say(text: str) -> None:
    sys.stderr.write(f"hedgerow system: {text}\n")
