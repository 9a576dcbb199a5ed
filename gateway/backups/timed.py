"""The backup that a timer makes: encrypted for others, put into its place, counted and noted.

The order of steps is what keeps the newest good one: the archive is made and encrypted beside, it
is put into its place, the place has to list it with its whole length, and only then does an older
one go. Whatever fails before leaves all that was there.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import shutil
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from . import kept_archives, making, notes, published_trials
from .backup_state import OVERDUE_DAYS
from .kept_archives import KeptArchive
from .making import BackupError
from .places import BackupPlace, PlaceKeys, place_of
from .trials import BackupTrial

_LOCK: Final = "lock"
_SCRATCH: Final = "archive-"
FREE_BYTES: Final = 64 << 20
"""So much of the disk is left to the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """The settings of a gateway's backups by a timer, as their file has them.

    Attributes:
        to: the place; see `place_of`.
        recipients: age's public keys, one of which reads the archives.
        kept: so many of this gateway stay in the place; 0: all.
        max_bytes: a longer archive is not put there.
        config: the gateway's folder of the configuration.
        state: its folder of state.
        keys: what opens the place.
        overdue_days: after so many days without a good backup something is wrong.

    """

    to: str
    recipients: tuple[str, ...]
    kept: int
    max_bytes: int
    config: Path
    state: Path
    keys: PlaceKeys
    overdue_days: float = OVERDUE_DAYS


def load(file: Path) -> BackupSettings:
    """Read a settings file.

    Raises:
        BackupError: it is missing or wrong; the message names the field.

    """
    try:
        told = tomllib.loads(file.read_text())
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BackupError(f"{file}: {error}") from error
    take = partial(_take, file, told)
    recipients = take("recipients", list, [])
    if not recipients or not all(isinstance(one, str) for one in recipients):
        raise BackupError(f"{file}: recipients: none is given; age-keygen makes a key")
    files = {
        name: Path(path)
        for name in ("ssh_key", "known_hosts", "s3_credentials")
        if (path := take(name, str, ""))
    }
    settings = BackupSettings(
        to=take("to", str, ""),
        recipients=tuple(recipients),
        kept=take("kept", int, 7),
        max_bytes=take("max_bytes", int, 1 << 30),
        config=Path(take("config", str, str(making.CONFIG))),
        state=Path(take("state", str, str(making.STATE))),
        keys=PlaceKeys(
            **files,
            s3_endpoint=take("s3_endpoint", str, ""),
            s3_region=take("s3_region", str, ""),
        ),
        overdue_days=float(take("overdue_days", int | float, OVERDUE_DAYS)),
    )
    if told:
        raise BackupError(f"{file}: {', '.join(sorted(told))}: no such setting")
    if settings.kept < 0 or settings.max_bytes < 1 or not 0 < settings.overdue_days < math.inf:
        raise BackupError(f"{file}: kept, max_bytes or overdue_days is out of range")
    return settings


def _take(file: Path, told: dict[str, Any], name: str, kind: Any, default: Any) -> Any:
    value = told.pop(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BackupError(f"{file}: {name}: {value!r} is of the wrong type")
    return value


class TimedBackup:
    """Makes a gateway's backup; no two at once.

    Args:
        settings: what to back up, and to where.
        notes: a folder of its own, for what has happened and for what is on its way.
        process: tells the gateway's process; see `making.write`.
        now: tells the time, in seconds since 1970.

    """

    def __init__(
        self,
        settings: BackupSettings,
        notes: Path,
        process: Callable[[], int | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._notes = notes
        self._process = process
        self._now = now

    def make(self) -> KeptArchive:
        """Make one, put it into its place, and note it, as a failure is noted.

        Returns:
            What is in the place now.

        Raises:
            BackupError: it can't be made, or the place does not take it; what was there stays.

        """
        with self._alone():
            noted = notes.read(self._notes)
            try:
                made, trial, trouble = self._make(notes.number(noted))
            except (BackupError, OSError) as error:
                why = _told(error)
                self._note({**noted, "failure": {"at": self._now(), "why": why}})
                raise BackupError(why) from error
            good = {"at": self._now(), "name": made.name, "bytes": made.size_bytes}
            failure = {"at": self._now(), "why": trouble} if trouble else None
            last_trial = noted.get("trial") if trial is None else asdict(trial)
            told = {"number": made.number, "good": good, "failure": failure, "trial": last_trial}
            self._note(told)
            if trouble:
                raise BackupError(trouble)
            return made

    def _make(self, known: int) -> tuple[KeptArchive, BackupTrial | None, str]:
        """Make a backup and put it into the place.

        Returns what is in the place, the result of the last trial there, and why an older one is
        still there; empty if it is gone.
        """
        settings = self._settings
        gateway = making.gateway_id(settings.config)
        place = place_of(settings.to, settings.keys)
        if settings.to.startswith("/"):
            _refuse_same_disk(Path(settings.to), settings.state)
        try:
            number = kept_archives.next_number(place.listed(gateway), gateway, known)
        except OverflowError as error:
            raise BackupError(f"{settings.to}: {error}: take another folder") from error
        with tempfile.TemporaryDirectory(dir=self._notes, prefix=_SCRATCH) as scratch:
            file = Path(scratch, "archive")
            self._encrypt(file)
            at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
            made = KeptArchive(number, at, gateway, file.stat().st_size)
            place.put(file, made.name)
        listed = place.listed(gateway)
        if listed.get(made.name) != made.size_bytes:
            found = listed.get(made.name, "nothing")
            raise BackupError(
                f"{settings.to}: {made.name} arrived with {found} bytes; it stays out"
            )
        trial = published_trials.fetched(place, listed, gateway)
        return made, trial, _removed(place, kept_archives.outdated(listed, made, settings.kept))

    def _encrypt(self, file: Path) -> None:
        settings = self._settings
        recipients = [word for one in settings.recipients for word in ("--recipient", one)]
        with file.open("xb") as target, tempfile.TemporaryFile() as complaints:
            file.chmod(0o600)
            try:
                age = subprocess.Popen(  # noqa: S603  # no shell
                    ["age", "--encrypt", *recipients],  # noqa: S607
                    stdin=subprocess.PIPE,
                    stdout=target,
                    stderr=complaints,
                )
            except FileNotFoundError as error:
                raise BackupError("age is not installed: it encrypts the backup") from error
            broken: BrokenPipeError | None = None
            with age:
                assert age.stdin is not None
                bounded = Bounded(age.stdin, self._bound())
                try:
                    making.write(
                        bounded, settings.config, settings.state, self._process, file.parent
                    )
                    age.stdin.close()
                except BrokenPipeError as error:  # age itself says why it has ended
                    broken = error
                except BaseException:
                    age.kill()
                    raise
            if broken is not None or age.returncode != 0:
                complaints.seek(0)
                said = complaints.read(4096).decode(errors="replace").strip().partition("\n")[0]
                raise BackupError(f"age: {said or f'exit {age.returncode}'}") from broken
            os.fsync(target.fileno())

    def _bound(self) -> int:
        disk = os.statvfs(self._notes)
        return min(self._settings.max_bytes, disk.f_bavail * disk.f_frsize - FREE_BYTES)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with (self._notes / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BackupError("another backup is being made") from error
            for left in self._notes.glob(f"{_SCRATCH}*"):  # one that was killed
                shutil.rmtree(left)
            yield

    def _note(self, noted: dict[str, Any]) -> None:
        notes.write(self._notes, noted)


class Bounded:
    """Passes bytes on, up to a number of them.

    Args:
        target: gets them.
        bytes_left: how many it may get.

    """

    def __init__(self, target: IO[bytes], bytes_left: int) -> None:
        self._target = target
        self._left = bytes_left

    def write(self, chunk: bytes) -> int:
        """Pass a piece on.

        Raises:
            BackupError: it is more than may be.

        """
        self._left -= len(chunk)
        if self._left < 0:
            raise BackupError("the archive is longer than max_bytes, or than the disk has room for")
        return self._target.write(chunk)

    def flush(self) -> None:
        """Have all of it passed on."""
        self._target.flush()


def _removed(place: BackupPlace, names: list[str]) -> str:
    try:
        for name in names:
            place.remove(name)
    except BackupError as error:  # the next backup tries again
        return f"the backup is made, and an older one can't be removed: {error}"
    return ""


def _refuse_same_disk(folder: Path, state: Path) -> None:
    try:
        is_same = folder.stat().st_dev == state.stat().st_dev
    except OSError as error:
        raise BackupError(f"{error.filename}: {error.strerror}") from error
    if is_same:
        raise BackupError(
            f"{folder} is on the disk of {state}, and a card that dies takes both:"
            " mount another one there"
        )


def _told(error: BackupError | OSError) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return str(error)
