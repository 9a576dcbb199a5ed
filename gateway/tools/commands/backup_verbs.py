"""`hedgerow backup check`, `fetch` and `trial`: what a backup holds, and whether it would serve."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from gateway.backups import contents, kept_archives, making, opening, published_trials
from gateway.backups.contents import Contents, RestoreError
from gateway.backups.making import BackupError
from gateway.backups.places import BackupPlace, PlaceKeys, place_of
from gateway.backups.trials import BackupTrial
from gateway.base import exit_codes
from gateway.base.printable import printable
from gateway.tools.commands.errors import FailedError, WrongUseError, expect_folder
from gateway.tools.commands.output import complain, print_json
from gateway.tools.commands.progress_bar import GoingOn
from gateway.tools.rehearsal import running
from gateway.tools.rehearsal.running import Rehearsal
from light_dataclasses import dataclass

MOST_TRIED: Final = 5
"""So many backups of a gateway are tried, from the newest on."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupVerdict:
    """The verdict on one backup.

    Attributes:
        name: of its file.
        why: why it is not usable; empty if it is.
        made_s: when it was made, in seconds since 1970, as far as it says.
        found: what it holds; None if that can't be read.
        rehearsal: what came of its start; None if there was none.

    """

    name: str
    why: str = ""
    made_s: float | None = None
    found: Contents | None = None
    rehearsal: Rehearsal | None = field(default=None)

    def as_json(self, now_s: float) -> dict[str, Any]:
        """Return it, ready for JSON."""
        found, rehearsal = self.found, self.rehearsal or Rehearsal()
        return {
            "file": self.name,
            "is_usable": not self.why,
            "why": self.why,
            "gateway": None if found is None else found.gateway,
            "made_s": self.made_s,
            "age_s": None if self.made_s is None else max(0.0, now_s - self.made_s),
            "files": None if found is None else found.files,
            "unpacked_bytes": None if found is None else found.unpacked_bytes,
            "encrypted_keys": [] if found is None else list(found.encrypted),
            "was_started": self.rehearsal is not None,
            "remarks": list(rehearsal.remarks),
            "holds": dict(rehearsal.holds),
        }

    def as_text(self, now_s: float) -> str:
        """Return lines for a terminal."""
        name = self.name
        if self.why or self.found is None:
            return f"{name}: NOT USABLE: {self.why}"
        found, lines = self.found, [f"{name}: usable"]
        lines.append(f"  of {found.gateway}, {_age(self.made_s, now_s)}")
        lines.append(f"  {found.files} files, {found.unpacked_bytes / _MIB:.1f} MiB")
        if (rehearsal := self.rehearsal) is None:
            lines.append("  its gateway was not started")
        else:
            counts = ", ".join(f"{count} {what}" for what, count in rehearsal.holds.items())
            lines.append(f"  its gateway starts: {counts.replace('_', ' ')}")
            lines += [f"  {remark}" for remark in rehearsal.remarks]
        if found.encrypted:
            keys = ", ".join(found.encrypted)
            lines.append(f"  {keys}: for the machine of the backup alone; a restore leaves them")
        return "\n".join(lines)


def check(options: argparse.Namespace) -> int:
    """Say of each file whether it is usable; returns the exit code."""
    making.end_in_order()
    verdicts = [_judged(file, options) for file in options.files]
    _print(verdicts, options)
    return exit_codes.FAILED if any(one.why for one in verdicts) else exit_codes.DONE


def fetch(options: argparse.Namespace) -> int:
    """Fetch a gateway's newest usable backup; returns the exit code.

    Raises:
        WrongUseError: the place is none, or there is no folder for the file.
        FailedError: there is none, the place is not reached, or a disk here has no room.

    """
    making.end_in_order()
    expect_folder("--to", options.to.absolute().parent)
    if options.to.is_dir():
        raise WrongUseError(f"--to: {options.to}: a folder, not a file")
    place = _named_place(options)
    with _telling():
        newest = kept_archives.whole(place.listed(options.gateway), options.gateway)
    verdicts = []
    for one in newest[:MOST_TRIED]:
        # A disk here that is full ends it: an older backup would be taken for no fault of this one.
        with _telling(), _scratch(options) as scratch:
            verdict = _fetched(place, one, scratch, options, lambda plain: _hand(plain, options.to))
        verdicts.append(verdict)
        if not verdict.why:
            _print(verdicts, options)
            return exit_codes.DONE
        complain(f"hedgerow: {one.name}: {verdict.why}")
    tried = f"the newest {len(verdicts)} are not usable" if verdicts else "it has none"
    raise FailedError(f"{options.place}: no usable backup of {options.gateway}: {tried}")


def trial(options: argparse.Namespace) -> int:
    """Try the newest backup of each gateway, and leave word of it; returns the exit code.

    Raises:
        WrongUseError: the place is none.

    """
    making.end_in_order()
    place = _named_place(options)
    verdicts, is_well = [], True
    for gateway in options.gateways:
        verdict = _tried(place, gateway, options)
        verdicts.append(verdict)
        is_well &= not verdict.why
        if not options.no_word and not _leave(place, gateway, verdict):
            is_well = False
    _print(verdicts, options)
    return exit_codes.DONE if is_well else exit_codes.FAILED


def _named_place(options: argparse.Namespace) -> BackupPlace:
    try:
        return _place(options)
    except BackupError as error:
        raise WrongUseError(f"--from: {error}") from error


def _tried(place: BackupPlace, gateway: str, options: argparse.Namespace) -> BackupVerdict:
    try:
        newest = kept_archives.whole(place.listed(gateway), gateway)
    except BackupError as error:
        return BackupVerdict(gateway, str(error))
    if not newest:
        return BackupVerdict(gateway, f"{options.place} has no whole backup of it")
    try:
        with _scratch(options) as scratch:
            return _fetched(place, newest[0], scratch, options, lambda plain: None)
    except OSError as error:
        return BackupVerdict(newest[0].name, f"it could not be tried: {_told(error)}")


def _leave(place: BackupPlace, gateway: str, verdict: BackupVerdict) -> bool:
    backup = "" if verdict.name == gateway else verdict.name
    try:
        word = BackupTrial(time.time(), backup, not verdict.why, printable(verdict.why))
        published_trials.leave(place, gateway, word)
    except (BackupError, OSError) as error:
        complain(f"hedgerow: {gateway}: no word of the trial is left: {error}")
        return False
    return True


def _fetched(
    place: BackupPlace,
    archive: kept_archives.KeptArchive,
    scratch: Path,
    options: argparse.Namespace,
    use: Callable[[Path], None],
) -> BackupVerdict:
    """Fetch an archive and judge it; one that is usable is handed to ``use``, in plain.

    Raises:
        OSError: there is no room here, or another fault that is none of the archive's.

    """
    file = scratch / archive.name
    needed, free = archive.size_bytes + contents.FREE_BYTES, shutil.disk_usage(scratch).free
    if needed > free:
        raise opening.lack_of_room(scratch, needed, free)
    try:
        with GoingOn() as line:
            line.step(f"fetching {archive.name}")
            place.get(archive.name, file, archive.size_bytes)
        if (size := file.stat().st_size) != archive.size_bytes:
            raise RestoreError(f"{size} bytes of {archive.size_bytes} came")
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            verdict = _judged_in(file, options, Path(folder), use)
    except (BackupError, RestoreError) as error:
        return BackupVerdict(archive.name, str(error))
    if verdict.found is not None and verdict.found.gateway != archive.gateway:
        return BackupVerdict(archive.name, f"it is a backup of {verdict.found.gateway!r}")
    return verdict


def _judged(file: Path, options: argparse.Namespace) -> BackupVerdict:
    try:
        with _scratch(options) as scratch:
            return _judged_in(file, options, scratch, lambda plain: None)
    except (RestoreError, OSError) as error:
        return BackupVerdict(file.name, _told(error))


def _judged_in(
    file: Path, options: argparse.Namespace, scratch: Path, use: Callable[[Path], None]
) -> BackupVerdict:
    """Judge a file; raises `RestoreError` or `OSError` where it can't be read as a backup."""
    with GoingOn() as line:
        line.step(f"opening {file.name}")
        plain = opening.opened(file, options.key, scratch)
        line.step(f"reading {file.name}")
        found = contents.survey(plain, options.max_bytes)
    made = kept_archives.parsed(file.name)
    made_s = float(found.newest_s) if made is None else _seconds(made.time)
    rehearsal, why = None, ""
    if not options.no_start:
        needed, free = found.unpacked_bytes + contents.FREE_BYTES, shutil.disk_usage(scratch).free
        if needed > free:
            raise opening.lack_of_room(scratch, needed, free)
        folder = scratch / "unpacked"
        folder.mkdir(mode=0o700)
        with GoingOn() as line:
            line.step(f"starting the gateway of {file.name} on trial")
            rehearsal = running.rehearse(plain, found, folder)
        why = "; ".join(rehearsal.problems)
    if not why:
        use(plain)
    return BackupVerdict(file.name, why, made_s, found, rehearsal)


def _hand(plain: Path, to: Path) -> None:
    """Put an archive in plain where it was asked for, for this user alone and as a whole.

    Raises:
        FailedError: it can't be written there.

    """
    part = to.with_name(f"{to.name}.new")
    try:
        part.unlink(missing_ok=True)
        with (
            plain.open("rb") as source,
            os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
        ):
            shutil.copyfileobj(source, target, _MIB)
            target.flush()
            os.fsync(target.fileno())
        part.replace(to)
    except BaseException as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FailedError(f"--to: {to}: {error.strerror or error}") from error
        raise


def _place(options: argparse.Namespace) -> BackupPlace:
    keys = PlaceKeys(
        ssh_key=options.ssh_key,
        known_hosts=options.known_hosts,
        s3_credentials=options.s3_credentials,
        s3_endpoint=options.s3_endpoint,
        s3_region=options.s3_region,
    )
    return place_of(options.place, keys)


@contextmanager
def _scratch(options: argparse.Namespace) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hedgerow-backup-", dir=options.scratch) as folder:
        yield Path(folder)


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except BackupError as error:
        raise FailedError(str(error)) from error
    except OSError as error:
        raise FailedError(_told(error)) from error


def _print(verdicts: list[BackupVerdict], options: argparse.Namespace) -> None:
    now_s = time.time()
    if options.json:
        print_json([one.as_json(now_s) for one in verdicts])
    else:
        lines = (line for one in verdicts for line in one.as_text(now_s).split("\n"))
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def _seconds(text: str) -> float | None:
    try:
        return datetime.datetime.strptime(text, "%Y%m%dT%H%M%S%z").timestamp()
    except ValueError:
        return None


def _age(made_s: float | None, now_s: float) -> str:
    if made_s is None:
        return "of an unknown time"
    try:
        at = datetime.datetime.fromtimestamp(made_s, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return "of a time beyond the calendar"
    hours = (now_s - made_s) / 3600
    if hours < 0:
        ago = "which is yet to come by this machine's clock"
    else:
        ago = f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} hours ago"
    return f"made {at:%Y-%m-%d %H:%M} UTC, {ago}"


def _told(error: BackupError | RestoreError | OSError) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return str(error)
