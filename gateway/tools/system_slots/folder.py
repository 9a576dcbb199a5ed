"""Folder of the data partition that tells of the two systems.

::

    trial.json            is there while a system is on trial
    last-trial.json       how the last trial ended
    slots.json            which version is whole in which slot
    status-before.json    what the gateway said of itself before the upgrade

Each file is whole at every moment and on the disk before the next step. Whoever changes any of
them holds the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.base.replaced_file import replace, sync_folder
from gateway.tools.system_slots import trial as trials
from gateway.tools.system_slots.slots import Slot, SystemSlotError
from gateway.tools.system_slots.trial import SystemTrial

OPEN = "trial.json"
LAST = "last-trial.json"
SLOTS = "slots.json"
STATUS = "status-before.json"
_LOCK = ".lock"


class SystemFolder:
    """That folder.

    Args:
        path: where it is; made if it is not there.

    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Have nobody else change anything meanwhile.

        Raises:
            SystemSlotError: it can't be: somebody installs.

        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise SystemSlotError(f"{self.path}: another `hedgerow system` is at it") from error
        finally:
            os.close(descriptor)

    def trial(self) -> SystemTrial | None:
        """Return the trial that is open.

        Raises:
            SystemSlotError: its file is damaged; it names the file.

        """
        path = self.path / OPEN
        try:
            return trials.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except SystemSlotError as error:
            raise SystemSlotError(f"{path}: {error}") from error

    def keep(self, trial: SystemTrial) -> None:
        """Have this trial on the disk."""
        self._write(OPEN, trials.encode(trial))

    def close(self, trial: SystemTrial) -> str:
        """End a trial: how it ended stays, the trial does not.

        Returns:
            Why it could not be noted how it ended, as on a full disk; empty if it is.

        Raises:
            OSError: the trial is still open.

        """
        told = {"slot": trial.slot.value, "version": trial.version, "why": trial.why}
        told["outcome"] = "returned" if trial.why else "confirmed"
        lacking = ""
        try:
            self._write(LAST, json.dumps(told).encode() + b"\n")
        except OSError as error:
            lacking = str(error)
        (self.path / OPEN).unlink(missing_ok=True)
        sync_folder(self.path)
        return lacking

    def last(self) -> dict[str, Any] | None:
        """Return how the last trial ended; None if there was none."""
        return self._read(LAST) or None

    def version_in(self, slot: Slot) -> str | None:
        """Return the version that is whole in a slot; None where none is known to be."""
        version = self._read(SLOTS).get(slot.value)
        return version if isinstance(version, str) else None

    def note_version(self, slot: Slot, version: str | None) -> None:
        """Note which version is whole in a slot, or that none is."""
        told = {**self._read(SLOTS), slot.value: version}
        self._write(SLOTS, json.dumps(told).encode() + b"\n")

    def status_before(self) -> dict[str, Any]:
        """Return what the gateway said of itself before the upgrade; empty if nothing."""
        return self._read(STATUS)

    def note_status(self, status: Mapping[str, Any]) -> None:
        """Keep what the gateway says of itself."""
        self._write(STATUS, json.dumps(dict(status)).encode() + b"\n")

    def _read(self, name: str) -> dict[str, Any]:
        try:
            told = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}

    def _write(self, name: str, data: bytes) -> None:
        replace(self.path / name, data, is_durable=True, mode=0o600)
