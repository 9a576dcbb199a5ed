"""The files of a trial: two beside the configuration, and the gateway's note in its state folder.

::

    hedgerow.toml           what the gateway goes by
    hedgerow.toml.before    what it went by before the last change
    hedgerow.toml.trial     is there while a change is on trial
    STATE/config-trial.json what the gateway has seen of it

Each is whole at every moment, and on the disk before the next step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from gateway.base import replaced_file
from gateway.base.lone_change import alone
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import ConfigTrial, TrialFileError, TrialNote

BEFORE: Final = ".before"
TRIAL: Final = ".trial"
NOTE: Final = "config-trial.json"

T = TypeVar("T")


class TrialFiles:
    """The files of one configuration's trials.

    Args:
        file: the configuration. Where it is a link, what that leads to is written anew, and the
            other files stand beside the link: relative paths start there.

    """

    def __init__(self, file: Path) -> None:
        self.file = file.absolute()
        self.before = self.file.with_name(f"{self.file.name}{BEFORE}")
        self._trial = self.file.with_name(f"{self.file.name}{TRIAL}")

    @contextlib.contextmanager
    def locked(self, *, is_patient: bool = True) -> Iterator[None]:
        """Let nobody else change the configuration meanwhile; see `lone_change.alone`."""
        with alone(self.file, is_patient=is_patient):
            yield

    def open_trial(self) -> ConfigTrial | None:
        """Return the trial of what the configuration holds now; None if it is on none.

        One whose file is damaged, or whose way back is gone, is none: nobody could go back.

        Raises:
            OSError: a file can't be read.

        """
        trial = self.trial()
        if trial is None or trials.digest(self.file.read_bytes()) != trial.after:
            return None
        try:
            is_whole = trials.digest(self.before.read_bytes()) == trial.before
        except FileNotFoundError:
            return None
        return trial if is_whole else None

    def trial(self) -> ConfigTrial | None:
        """Return the trial that a file tells of, whatever the configuration holds.

        Raises:
            OSError: it can't be read.

        """
        return _read(self._trial, trials.decode_trial)

    def note(self, trial: ConfigTrial) -> TrialNote | None:
        """Return what the gateway has noted of a trial; None if it is nothing yet.

        Raises:
            OSError: it can't be read.

        """
        note = _read(Path(trial.state_dir) / NOTE, trials.decode_note)
        return note if note is not None and note.id == trial.id else None

    def write_before(self, data: bytes) -> None:
        """Keep what the gateway goes back to.

        Raises:
            OSError: it can't be written; so for the other files.

        """
        self._write(self.before, data)

    def write_trial(self, trial: ConfigTrial) -> None:
        """Keep which trial there is, in place of any before."""
        self._write(self._trial, trials.encode(trial))

    def write(self, data: bytes, instead_of: bytes | None = None) -> None:
        """Have another configuration.

        Args:
            data: all of it.
            instead_of: what the file has to hold until then; None if that does not matter.

        Raises:
            OvertakenError: it holds something else, which stands.
            OSError: it can't be written.

        """
        replaced_file.replace(
            self.file.resolve(), data, is_durable=True, keeps_owner=True, instead_of=instead_of
        )

    def end_trial(self) -> None:
        """Have no trial."""
        self._trial.unlink(missing_ok=True)
        replaced_file.sync_folder(self.file.parent)

    def write_note(self, trial: ConfigTrial, note: TrialNote) -> None:
        """Note what the gateway has seen."""
        folder = Path(trial.state_dir)
        # Where root writes it for the gateway, the gateway has to read it.
        whose = _likeness(folder.stat(), 0o600)
        data = trials.encode(note)
        replaced_file.replace(folder / NOTE, data, is_durable=True, mode=0o600, note=whose)

    def put_back(self, trial: ConfigTrial) -> None:
        """Have the configuration of before again, and no trial; another one stays as it is.

        Raises:
            OSError: it can't be written.

        """
        if self.open_trial() == trial:
            self._go_back(trial)
        if self.trial() == trial:
            self.end_trial()

    def _go_back(self, trial: ConfigTrial) -> None:
        now = self.file.read_bytes()
        if trials.digest(now) == trial.after:
            with contextlib.suppress(replaced_file.OvertakenError):
                self.write(self.before.read_bytes(), now)

    def _write(self, path: Path, data: bytes) -> None:
        # Whoever may read the configuration, such as the service, may read this one.
        like = self.file.stat()
        alike = _likeness(like, like.st_mode & 0o777)
        replaced_file.replace(path, data, is_durable=True, mode=0o600, note=alike)


def last_note(state_dir: Path) -> TrialNote | None:
    """Return what a gateway has noted of its last trial; None if that is nothing.

    Args:
        state_dir: of the gateway.

    Raises:
        OSError: it can't be read.

    """
    return _read(state_dir / NOTE, trials.decode_note)


def _likeness(like: os.stat_result, mode: int) -> Callable[[int], None]:
    """Return what gives an open file a mode, and the owner of another one where that is allowed."""

    def make(descriptor: int) -> None:
        os.fchmod(descriptor, mode)
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, like.st_uid, like.st_gid)

    return make


def _read(path: Path, decode: Callable[[bytes], T]) -> T | None:
    try:
        with path.open("rb") as file:
            return decode(file.read(trials.MOST_BYTES + 1))
    except (FileNotFoundError, TrialFileError):
        return None
