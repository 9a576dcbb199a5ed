"""Makes the archive of a gateway's configuration, keys and state, as they were at one moment.

    making.py --to FILE

The gateway goes on. It is held (SIGSTOP) while its files are opened and those that it changes in
place are copied, some milliseconds; it then runs again, and the rest is read from the opened files,
up to the length that each had. Files of the log only grow, and others are replaced as a whole, so
the archive has what a kill at that moment would have left, and a gateway starts over that. What was
acknowledged before that moment is in it.

Exit codes: 0 done; 1 it can't be made, and why.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import resource
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

CONFIG = Path("/etc/hedgerow")
STATE = Path("/var/lib/hedgerow")
UNIT = "hedgerow.service"
CONFIG_FILE = "hedgerow.toml"
MAX_FILES = 20_000
"""More files are no state of a gateway."""
SMALL_BYTES = 64 << 10
"""A file of at most so many bytes is copied while the gateway is held, however it is changed."""
COPIED_BYTES = 32 << 20
"""All small files together; what is beyond is read from the opened file."""
HELD_S = 10.0
"""The gateway has to stop within these; a thread that waits for its disk takes a while."""
_SQLITE = b"SQLite format 3\0"
_IN_PLACE = ("-wal", "-journal")
_SCRATCH = "-shm"
"""Made anew by SQLite from the file ``-wal`` at the next start."""
_CHUNK = 1 << 20


class BackupError(Exception):
    """No backup was made; the message says why and what to do."""


class ArchiveSink(Protocol):
    """Takes an archive piece by piece, as a pipe does."""

    def write(self, chunk: bytes, /) -> object:
        """Take a piece."""

    def flush(self) -> object:
        """Have all of it on its way."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file or folder, as it was at the moment of the backup.

    Attributes:
        info: its name in the archive, mode, owner and length.
        content: None for a folder.

    """

    info: tarfile.TarInfo
    content: IO[bytes] | None


def gateway_id(config: Path) -> str:
    """Return whose configuration a folder has.

    Raises:
        BackupError: it has none that can be read.

    """
    file = config / CONFIG_FILE
    try:
        return str(tomllib.loads(file.read_text())["gateway"]["id"])
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    except (KeyError, TypeError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BackupError(f"{file} names no gateway ({error}): see `hedgerow check`") from error


def main_pid(unit: str) -> int | None:
    """Return the process of a systemd service; None if it does not run.

    Raises:
        BackupError: systemd does not answer.

    """
    asked = subprocess.run(  # noqa: S603  # no shell
        ["systemctl", "show", "--property=MainPID", "--value", "--", unit],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise BackupError(f"{unit}: systemd does not answer: {asked.stderr.strip()}")
    return int(asked.stdout) or None


def write(
    out: ArchiveSink, config: Path, state: Path, process: Callable[[], int | None], scratch: Path
) -> None:
    """Write the archive, a tar in gzip, of two folders.

    Args:
        out: takes it; never sought in.
        config: the folder of the configuration.
        state: what ``gateway.state_dir`` names.
        process: tells which one changes these files; None: none does.
        scratch: a folder for copies of what is changed in place.

    Raises:
        BackupError: a folder has what no backup can have, or changed in an unknown way.
        OSError: a file can't be read, or the archive not written.

    """
    for file in _changed_in_place(state):
        _read_through(file)  # into memory, so that the gateway is held for less
    with contextlib.ExitStack() as opened:
        pid = process()
        with held(pid):
            members = list(_opened((config, state), scratch, opened))
        if pid is None and process() is not None:
            raise BackupError("the gateway has started meanwhile: make the backup again")
        with (
            gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6) as packed,
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
        ):
            for member in members:
                _add(tar, member)


def _add(tar: tarfile.TarFile, member: HeldFile) -> None:
    if member.content is not None:
        size = os.fstat(member.content.fileno()).st_size if _has_file(member.content) else None
        if size is not None and size < member.info.size:
            raise BackupError(f"{member.info.name} became shorter: make the backup again")
    tar.addfile(member.info, member.content)


def _has_file(content: IO[bytes]) -> bool:
    return not isinstance(content, io.BytesIO)


# -- holding the gateway ---------------------------------------------------------------------------


@contextlib.contextmanager
def held(pid: int | None) -> Iterator[None]:
    """Hold a process, all of its threads, until the block ends, however it ends.

    Where this process is killed, a child of it lets the other one go on.

    Args:
        pid: None: there is none to hold.

    Raises:
        BackupError: it does not stop, or is gone.

    """
    if pid is None:
        yield
        return
    try:
        descriptor = os.pidfd_open(pid)
    except OSError as error:
        raise BackupError(f"process {pid}: {error.strerror}: make the backup again") from error
    release = ["/bin/sh", "-c", f"read -r _; kill -CONT {pid}"]
    try:
        with subprocess.Popen(release, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL):  # noqa: S603
            try:
                signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
                _await_stop(pid)
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    finally:
        os.close(descriptor)


def _await_stop(pid: int) -> None:
    ends = time.monotonic() + HELD_S
    while not _is_stopped(pid):
        if time.monotonic() > ends:
            raise BackupError(f"process {pid} did not stop within {HELD_S:g} s: is its disk well?")
        time.sleep(0.001)


def _is_stopped(pid: int) -> bool:
    """Say whether no thread of it runs; see proc(5), /proc/pid/stat."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            states.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    return states == {"T"}


# -- opening files ---------------------------------------------------------------------------------


def _opened(
    folders: tuple[Path, ...], scratch: Path, opened: contextlib.ExitStack
) -> Iterator[HeldFile]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MAX_FILES + 1_000)), hard))
    count, copied = 0, 0
    for path in (path for folder in folders for path in _below(folder)):
        count += 1
        if count > MAX_FILES:
            raise BackupError(f"{path}: one file more than the {MAX_FILES} that a backup may have")
        found = path.stat()
        info = _info(path, found)
        if stat.S_ISDIR(found.st_mode):
            yield HeldFile(info, None)
            continue
        file = opened.enter_context(path.open("rb"))
        if info.size <= SMALL_BYTES and copied + info.size <= COPIED_BYTES:
            content = file.read(info.size)
            copied += len(content)
            info.size = len(content)
            file.close()
            yield HeldFile(info, io.BytesIO(content))
        elif _is_changed_in_place(path, file):
            copy = opened.enter_context(tempfile.TemporaryFile(dir=scratch))  # noqa: SIM115
            _copy(file, copy, info.size)
            yield HeldFile(info, copy)
        else:
            yield HeldFile(info, file)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the folder and all in it that a backup has, each folder before what it holds."""
    yield folder
    for top, names, files in os.walk(folder, onerror=_raise):
        for name in sorted(names):
            path = Path(top, name)
            if path.is_symlink():
                raise BackupError(f"{path} is a link to a folder: no backup can have it")
            yield path
        for name in sorted(files):
            path = Path(top, name)
            if path.is_file() and not name.endswith(_SCRATCH):  # no socket, no pipe
                yield path


def _raise(error: OSError) -> None:
    raise error


def _info(path: Path, found: os.stat_result) -> tarfile.TarInfo:
    info = tarfile.TarInfo(str(path).lstrip("/"))
    info.mode, info.uid, info.gid = stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid
    info.mtime = int(found.st_mtime)
    if stat.S_ISDIR(found.st_mode):
        info.type = tarfile.DIRTYPE
    else:
        info.size = found.st_size
    return info


def _changed_in_place(state: Path) -> Iterator[Path]:
    """Yield those that are there before the gateway is held; it may remove any of them
    meanwhile."""
    for path in (Path(top, name) for top, _, names in os.walk(state) for name in names):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                with path.open("rb") as file:
                    if _is_changed_in_place(path, file):
                        yield path


def _is_changed_in_place(path: Path, file: IO[bytes]) -> bool:
    if path.name.endswith(_IN_PLACE):
        return True
    is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    file.seek(0)
    return is_sqlite


def _read_through(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        while file.read(_CHUNK):
            pass


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    left = size
    while left and (chunk := source.read(min(left, _CHUNK))):
        target.write(chunk)
        left -= len(chunk)
    target.flush()
    target.seek(0)


# -- the command -----------------------------------------------------------------------------------


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a gateway's folders and its service."""
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--state", type=Path, default=STATE)
    parser.add_argument("--unit", default=UNIT)


def end_in_order() -> None:
    """Have SIGTERM end the process as an error does, so that what is held is let go."""

    def end(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def main() -> int:
    """Make an archive that its owner alone may read, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, required=True)
    add_folders(parser)
    asked = parser.parse_args()
    end_in_order()
    new = asked.to.with_name(asked.to.name + ".new")
    try:
        gateway_id(asked.config)
        try:
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                process = partial(main_pid, asked.unit)
                write(out, asked.config, asked.state, process, new.parent)
                out.flush()
                os.fsync(out.fileno())
            new.replace(asked.to)
        finally:
            new.unlink(missing_ok=True)
    except BackupError as error:
        sys.stderr.write(f"backup: {error}\n")
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"backup: {where}{error.strerror or error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
