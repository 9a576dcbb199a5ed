"""The gateway's side of a trial: which configuration it goes by, and whether it has come up.

A gateway that can't write beside its configuration, as a confined service, goes back all the same:
it goes by the file of before, and its note says so to whoever may put it back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from gateway.base.remedies import of_file
from gateway.base.toml.toml_file import ConfigError
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import ConfigTrial, TrialNote
from gateway.process.config_trials.trial_files import TrialFiles

_log = logging.getLogger(__name__)

S = TypeVar("S")


class ConfigJudge(Generic[S]):
    """Reads a gateway's configuration, and judges one that is on trial.

    Args:
        file: the configuration.
        load: reads a file; raises `ConfigError` where it can't be gone by.

    """

    def __init__(self, file: Path, load: Callable[[Path], S]) -> None:
        self._given = file
        self._load = load
        self._files: TrialFiles | None = None
        self._open: tuple[ConfigTrial, TrialNote] | None = None
        self.file = file
        """The file as it was read last."""

    @property
    def within_s(self) -> float | None:
        """Return the time in which the gateway has to come up; None while nothing is on trial."""
        return None if self._open is None else self._open[0].within_s

    def at_start(self) -> S:
        """Read the configuration that the gateway starts by.

        Raises:
            ConfigError: it can't be gone by, and nothing is there to go back to.

        """
        return self._read(is_start=True)

    def at_reload(self) -> S:
        """Read the configuration again for a gateway that runs; one that takes a restart waits.

        Raises:
            ConfigError: as `at_start`.

        """
        return self._read(is_start=False)

    def _read(self, *, is_start: bool) -> S:
        self._begin(is_start=is_start)
        if self._open is None:
            return self._load(self.file)
        try:
            return self._load(self.file)
        except ConfigError as error:
            self.send_back(str(error))
            return self._load(self.file)

    def confirm(self) -> None:
        """Note that the gateway has come up: the new configuration stays."""
        if self._open is not None:
            self._close(trials.confirmed(self._open[1]))

    def send_back(self, why: str) -> bool:
        """Note that the gateway does not come up; return whether there is a way back.

        Args:
            why: what keeps it from that.

        """
        if self._open is None:
            return False
        _log.error("%s does not come up, so the one before counts again: %s", self._given, why)
        self._close(trials.returned(self._open[1], why))
        return True

    def judge(self, complaints: Sequence[str]) -> bool:
        """Hear what the gateway's listeners say; return whether it has come up.

        Args:
            complaints: of its listeners; none if all answer.

        """
        if not complaints:
            self.confirm()
        return not complaints

    def _begin(self, *, is_start: bool) -> None:
        """Find the trial that is open, count that it begins, and say which file is read."""
        self._open, self.file = None, self._given
        try:
            files = self._files = TrialFiles(self._given)
            trial = files.open_trial()
            note = None if trial is None else files.note(trial)
        except OSError as error:  # whoever reads the configuration itself says what is wrong
            _log.debug("it is not known whether %s is on trial: %s", self._given, error)
            return
        is_known = note is not None and note.state != trials.TRYING
        if trial is None or (trial.needs_restart and not is_start and not is_known):
            return
        note = trials.begun(trial, note)
        if note.state == trials.TRYING:
            self._open = (trial, note)
            self._note(trial, note)
            _log.info("%s is on trial for %g s", self._given, trial.within_s)
            return
        if note.state == trials.RETURNED:
            _log.error("%s is not gone by, but %s: %s", self._given, files.before, note.why)
            self.file = files.before
            self._note(trial, note)
        self._settle(trial, note)

    def _close(self, note: TrialNote) -> None:
        assert self._open is not None
        assert self._files is not None
        trial, _ = self._open
        self._open = None
        if note.state == trials.RETURNED:
            self.file = self._files.before
        self._note(trial, note)
        self._settle(trial, note)

    def _note(self, trial: ConfigTrial, note: TrialNote) -> None:
        assert self._files is not None
        try:
            self._files.write_note(trial, note)
        except (
            OSError
        ) as error:  # a full disk may be what is wrong: the way back is gone all the same
            _log.warning("what came of a trial is not noted: %s", of_file(error))

    def _settle(self, trial: ConfigTrial, note: TrialNote) -> None:
        """Have the files say what was judged, if this process may write them."""
        assert self._files is not None
        try:
            with self._files.locked(is_patient=False):
                if note.state == trials.RETURNED:
                    self._files.put_back(trial)
                    self.file = self._given
                elif self._files.trial() == trial:
                    self._files.end_trial()
        except OSError as error:
            # Who changed it does it, or who changes it next.
            _log.debug("the files of a trial stay: %s", error)
