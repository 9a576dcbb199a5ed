"""The operator's side of a trial: writes another configuration, and finds what came of it.

The order of steps is what a power cut needs: the way back and the trial are on the disk before the
new configuration takes its place. After any of them either the old or the new one holds.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

from gateway.base.replaced_file import OvertakenError
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial import ConfigTrial, TrialNote
from gateway.process.config_trials.trial_files import TrialFiles


class ChangedMeanwhileError(ValueError):
    """The configuration is not what it was when the change was made, or another one is on trial.

    Args:
        why: what is so.

    """


def begin(
    files: TrialFiles,
    trial: ConfigTrial,
    way_back: bytes,
    after: bytes,
    instead_of: bytes | None = None,
) -> Iterator[str]:
    """Write another configuration on trial, step by step; whoever does it holds the lock.

    Args:
        files: of the configuration.
        trial: the trial.
        way_back: by which the gateway comes up.
        after: what the configuration is to hold.
        instead_of: see `TrialFiles.write`.

    Yields:
        What is on the disk, after each step.

    Raises:
        OvertakenError: somebody has edited the configuration meanwhile: it holds, on no trial.
        OSError: a file can't be written; what holds has not changed.

    """
    files.write_before(way_back)
    yield "before"
    files.write_trial(trial)
    yield "trial"
    try:
        files.write(after, instead_of)
    except OvertakenError:
        files.end_trial()
        raise
    yield "after"


def new_trial(
    way_back: bytes, after: bytes, state_dir: Path, within_s: float, *, needs_restart: bool
) -> ConfigTrial:
    """Make a trial.

    Args:
        way_back: by which the gateway comes up.
        after: what the configuration is to hold.
        state_dir: of the gateway, by the way back.
        within_s: in which it has to come up.
        needs_restart: see `ConfigTrial`.

    """
    return ConfigTrial(
        id=secrets.token_hex(8),
        before=trials.digest(way_back),
        after=trials.digest(after),
        within_s=within_s,
        state_dir=str(state_dir.absolute()),
        needs_restart=needs_restart,
    )


def way_back(files: TrialFiles, now: bytes) -> bytes:
    """Return what a gateway goes back to from the next change: what has come up last.

    Args:
        files: of the configuration.
        now: what it holds.

    Raises:
        OSError: a file can't be read.

    """
    return now if files.open_trial() is None else files.before.read_bytes()


def expect(files: TrialFiles, digest: str) -> None:
    """Check that the configuration is what somebody has seen.

    Args:
        files: of the configuration.
        digest: SHA-256 of what was seen.

    Raises:
        ChangedMeanwhileError: it is not.
        OSError: it can't be read.

    """
    if trials.digest(files.file.read_bytes()) != digest:
        raise overtaken(files)


def overtaken(files: TrialFiles) -> ChangedMeanwhileError:
    """Return the error of who finds the configuration to be another one than it was."""
    why = "somebody has changed it meanwhile: look at it again, and repeat this"
    return ChangedMeanwhileError(f"{files.file}: {why}")


def settle(files: TrialFiles, *, is_running: bool) -> TrialNote | None:
    """End a trial of before that nobody has ended; whoever does it holds the lock.

    Args:
        files: of the configuration.
        is_running: a gateway goes by it, and judges what is open.

    Returns:
        What came of it; None if there was none, or nothing came of it.

    Raises:
        ChangedMeanwhileError: it is still open.
        OSError: a file can't be read or written.

    """
    if files.trial() is None:
        return None
    trial = files.open_trial()
    if trial is None:  # never begun, or somebody has edited the file since
        files.end_trial()
        return None
    note = files.note(trial)
    if note is not None and note.state == trials.RETURNED:
        files.put_back(trial)
        return note
    if note is not None and note.state == trials.CONFIRMED:
        files.end_trial()
        return note
    if is_running:
        why = "another change is on trial: repeat this in a moment"
        raise ChangedMeanwhileError(f"{files.file}: {why}")
    # Nobody has started by it, so that it has shown nothing: what is before it stays the way back.
    return None
