"""A change of a configuration from end to end, for whoever asks for it: a command, or a page.

What is done is here; who may, how it is checked, and how the gateway is told, is handed in.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from gateway.base.replaced_file import OvertakenError
from gateway.base.toml import edited, toml_file
from gateway.process.config_trials import WITHIN_S, changing
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import ConfigTrial, TrialNote
from gateway.process.config_trials.trial_files import TrialFiles
from gateway.process.configuration import change as config_change
from gateway.process.configuration.config import ConfigError, GatewaySettings
from light_dataclasses import dataclass

Edit = Callable[[str], str]
"""Makes another document of the one that a file holds; raises `EditError`."""
Check = Callable[[bytes, Path], Sequence[str]]
"""Finds all that is wrong with a configuration: lines for people."""
Find = Callable[[Path], "TriedGateway | None"]
"""Finds the gateway that runs with a state folder."""

LOOK_S: Final = 0.1
PATIENCE_S: Final = 60.0
"""So much longer than the trial a gateway may take to end what it does before it starts anew."""
SILENT: Final = "it has said nothing of itself; `hedgerow status` shows how it is"
UNNOTED: Final = "its state folder took no note of why: its log says it (`hedgerow logs`)"


class TriedGateway(Protocol):
    """The gateway that runs by the configuration that is changed."""

    def reload(self) -> None:
        """Have it read again what it takes over while it runs."""

    def restart(self) -> None:
        """Have it start anew in its process."""


class WrongChangeError(ValueError):
    """A change would make a configuration wrong, and is not written.

    Args:
        faults: all that is wrong then: lines for people.

    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("nothing is written: " + "\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class WantedChange:
    """A change of the configuration that is asked for.

    Attributes:
        edit: makes the change.
        within_s: in which the gateway has to come up.
        if_unchanged: SHA-256 of the file that was seen; None for whatever it is.
        is_rehearsal: nothing is written.

    """

    edit: Edit
    within_s: float = WITHIN_S
    if_unchanged: str | None = None
    is_rehearsal: bool = False


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The effect of a change of the configuration.

    Attributes:
        difference: as a unified diff.
        restarting: fields whose change takes a restart; empty if a reload does.
        trial: the trial that it is on; None if there is nothing to go back to.
        running: the gateway that runs; None if none does.

    """

    difference: str
    restarting: tuple[str, ...]
    trial: ConfigTrial | None
    running: TriedGateway | None


def written(
    files: TrialFiles, wanted: WantedChange, check: Check, find: Find
) -> PlannedChange | None:
    """Check a change and write it on trial; the gateway is not told yet.

    Args:
        files: of the configuration.
        wanted: the change.
        check: finds what is wrong.
        find: finds the gateway that runs.

    Returns:
        What it does; None if it changes nothing.

    Raises:
        WrongChangeError: the configuration would be wrong.
        ChangedMeanwhileError: somebody else was faster, or another change is on trial.
        EditError: the file can't be changed so.
        UnicodeDecodeError: it is no text.
        OSError: a file can't be read or written; what holds has not changed.

    """
    with files.locked():
        if wanted.if_unchanged is not None:
            changing.expect(files, wanted.if_unchanged)
        running = _running(files, find)
        changing.settle(files, is_running=running is not None)
        now = files.file.read_bytes()
        after = wanted.edit(now.decode()).encode()
        if after == now:
            return None
        if faults := check(after, files.file):
            raise WrongChangeError(faults)
        back = changing.way_back(files, now)
        old = _settings(back, files.file)
        restarting = _restarting(old, _settings(after, files.file))
        trial = None
        if old is not None:
            place, needs = old.gateway.state_dir, bool(restarting)
            trial = changing.new_trial(back, after, place, wanted.within_s, needs_restart=needs)
        difference = edited.difference(now.decode(), after.decode(), str(files.file))
        planned = PlannedChange(difference, restarting, trial, running)
        if wanted.is_rehearsal:
            return planned
        try:
            if trial is None:  # what is there is wrong: nobody could go back to it
                files.write_before(now)
                files.write(after, now)
            else:
                for _ in changing.begin(files, trial, back, after, now):
                    pass
        except OvertakenError as error:
            raise changing.overtaken(files) from error
        return planned


def tell(planned: PlannedChange) -> None:
    """Have the gateway that runs go by a change that is written."""
    if planned.running is not None and planned.restarting:
        planned.running.restart()
    elif planned.running is not None:
        planned.running.reload()


def verdict(
    files: TrialFiles,
    trial: ConfigTrial,
    find: Find,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> TrialNote:
    """Wait for what comes of a trial, and have the files say so.

    Args:
        files: of the configuration.
        trial: on which the gateway that was told is.
        find: finds the gateway that runs.
        sleep: waits.
        clock: seconds, rising steadily.

    Raises:
        OSError: a file can't be read or written.

    """
    end_s = clock() + trial.within_s + PATIENCE_S
    note = files.note(trial)
    while (note is None or note.state == trials.TRYING) and clock() < end_s:
        if files.trial() != trial:
            break
        sleep(LOOK_S)
        note = files.note(trial)
    with files.locked():
        note = files.note(trial)
        if note is not None and note.state != trials.TRYING:
            changing.settle(files, is_running=False)
            return note
        if files.trial() != trial:  # it has judged, and its disk did not take the note
            stays = trials.digest(files.file.read_bytes()) == trial.after
            fresh = TrialNote(trial.id)
            return trials.confirmed(fresh) if stays else trials.returned(fresh, UNNOTED)
        note = trials.returned(TrialNote(trial.id), SILENT)
        files.write_note(trial, note)
        files.put_back(trial)
    again = find(Path(trial.state_dir))
    if again is not None:
        again.restart()
    return note


def _running(files: TrialFiles, find: Find) -> TriedGateway | None:
    settings = _settings(files.file.read_bytes(), files.file)
    return None if settings is None else find(settings.gateway.state_dir)


def _settings(data: bytes, file: Path) -> GatewaySettings | None:
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return toml_file.read(document, file, GatewaySettings).settings


def _restarting(old: GatewaySettings | None, new: GatewaySettings | None) -> tuple[str, ...]:
    if old is None or new is None:
        return ("gateway",)
    try:
        _, fields = config_change.take_over(old, new)
    except ConfigError as error:
        return (error.where,)
    return tuple(fields)
