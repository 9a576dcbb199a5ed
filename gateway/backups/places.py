"""Places of archives: a folder, or what rclone reaches over SSH or as S3.

Whatever place it is, an archive has its name there only when it is whole and on the disk: a
folder and SSH get it under another name first, and S3 shows an object when all of it has arrived.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.parse import unquote, urlsplit

from .kept_archives import PART
from .making import BackupError

MAX_LISTED: Final = 10_000
"""A place has at most so many files whose names begin as the gateway's."""
_LISTING_BYTES: Final = 8 << 20
_LAST_CHARACTERS: Final = 300
_COMPLAINT_BYTES: Final = 16 << 10
_SLACK_BYTES: Final = 64 << 10
"""rclone counts what it reads in pieces."""
PATIENCE: Final = ("--contimeout=15s", "--timeout=60s", "--retries=2", "--low-level-retries=3")
"""The options of rclone for a place that is silent: how long it waits, how often it tries."""
MOST_S: Final = 4 * 3600.0
"""A place that goes on for ever, byte by byte, is left after these."""
_CREDENTIALS: Final = ("access_key_id", "secret_access_key", "session_token")


class BackupPlace(Protocol):
    """Keeps archives, by their names."""

    def listed(self, gateway: str) -> dict[str, int]:
        """Return the names that begin with a gateway's, and how many bytes each has.

        Raises:
            BackupError: the place is not reached, or says what can't be understood.

        """

    def put(self, file: Path, name: str) -> None:
        """Copy a file there; it has the name only when it is whole.

        Raises:
            BackupError: it is refused, the place is full or not reached.

        """

    def get(self, name: str, to: Path, most_bytes: int) -> None:
        """Copy an archive to a file, which is made for this user alone.

        Raises:
            BackupError: as `put`; or it is longer than ``most_bytes``, and not all of it came.
            OSError: the file can't be written.

        """

    def remove(self, name: str) -> None:
        """Remove an archive.

        Raises:
            BackupError: as `put`.

        """


@dataclass(frozen=True, slots=True)
class PlaceKeys:
    """The keys and addresses that open a place for backups; empty where they are not needed.

    Attributes:
        ssh_key: file with the private key for SSH; None: what the user's agent has.
        known_hosts: file with the keys of SSH servers, as ssh has it.
        s3_credentials: file with ``access_key_id = ...`` and ``secret_access_key = ...``.
        s3_endpoint: address of an S3 that is not Amazon's.
        s3_region: its region.

    """

    ssh_key: Path | None = None
    known_hosts: Path | None = None
    s3_credentials: Path | None = None
    s3_endpoint: str = ""
    s3_region: str = ""


def place_of(to: str, keys: PlaceKeys) -> BackupPlace:
    """Return the place that is meant by a folder's path, sftp://USER@HOST/PATH or s3://BUCKET/PATH.

    Raises:
        BackupError: none is; it says what is wrong.

    """
    if to.startswith("/"):
        return FolderPlace(Path(to))
    parts = urlsplit(to)
    path = unquote(parts.path).strip("/")
    if parts.scheme == "sftp" and parts.hostname and parts.username and not parts.password:
        if keys.known_hosts is None:
            raise BackupError(f"{to}: a file of known hosts says whose server it is; name one")
        reached = {
            "TYPE": "sftp",
            "HOST": parts.hostname,
            "USER": parts.username,
            "PORT": str(parts.port or 22),
            "KNOWN_HOSTS_FILE": str(keys.known_hosts),
            # A server for files alone has no shell to ask.
            "DISABLE_HASHCHECK": "true",
            "SHELL_TYPE": "none",
            "SET_MODTIME": "false",
        }
        if keys.ssh_key is not None:
            reached["KEY_FILE"] = str(keys.ssh_key)
        # //PATH is from the root of the server's files, /PATH from the user's own folder.
        folder = f"/{path}" if parts.path.startswith("//") else path
        return RclonePlace(to, folder, reached, shows_parts=True)
    if parts.scheme == "s3" and parts.hostname:
        reached = {
            "TYPE": "s3",
            "PROVIDER": "Other" if keys.s3_endpoint else "AWS",
            "ENDPOINT": keys.s3_endpoint,
            "REGION": keys.s3_region,
            "NO_CHECK_BUCKET": "true",
            **_credentials(keys.s3_credentials),
        }
        return RclonePlace(to, f"{parts.hostname}/{path}".rstrip("/"), reached, shows_parts=False)
    raise BackupError(
        f"{to!r} is no place for backups: /FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER is"
    )


def _credentials(file: Path | None) -> dict[str, str]:
    if file is None:
        return {"ENV_AUTH": "true"}
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise BackupError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BackupError(f"{file}: is not UTF-8") from error
    pairs = (line.partition("=") for line in lines)
    found = {key.strip(): value.strip() for key, _, value in pairs}
    if not set(found) >= set(_CREDENTIALS[:2]):
        raise BackupError(f"{file} lacks access_key_id = ... or secret_access_key = ...")
    return {key.upper(): found[key] for key in _CREDENTIALS if key in found}


class FolderPlace:
    """A folder, as of a disk or a share that is mounted there.

    Args:
        folder: made by its owner: where it is missing the disk is.

    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def listed(self, gateway: str) -> dict[str, int]:
        """Return the names in the folder that begin with a gateway's, and the bytes of each."""
        found: dict[str, int] = {}
        with self._named(), os.scandir(self._folder) as entries:
            for entry in entries:
                if not entry.name.startswith(f"{gateway}."):
                    continue
                if entry.is_file(follow_symlinks=False):
                    found[entry.name] = entry.stat(follow_symlinks=False).st_size
                if len(found) > MAX_LISTED:
                    raise BackupError(f"{self._folder}: more than {MAX_LISTED} files of {gateway}")
        return found

    def put(self, file: Path, name: str) -> None:
        """Copy a file into the folder under another name, sync it, and rename it."""
        part = self._folder / f"{name}{PART}"
        with self._named():
            try:
                part.unlink(missing_ok=True)
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with file.open("rb") as source, os.fdopen(descriptor, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
                    target.flush()
                    os.fsync(target.fileno())
                part.replace(self._folder / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise
            self._sync()

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def get(self, name: str, to: Path, most_bytes: int) -> None:
        """Copy an archive out of the folder."""
        with self._named():
            source = (self._folder / name).open("rb")
        # What the disk of the new file refuses is no fault of the place.
        with (
            source,
            os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
        ):
            if os.fstat(source.fileno()).st_size > most_bytes:
                raise BackupError(f"{self._folder}: {name} is longer than {most_bytes} bytes")
            while chunk := self._read(source):
                target.write(chunk)

    def _read(self, source: IO[bytes]) -> bytes:
        with self._named():
            return source.read(1 << 20)

    def remove(self, name: str) -> None:
        """Delete an archive in the folder."""
        with self._named():
            (self._folder / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackupError(f"{self._folder}: {error.strerror or error}") from error


class RclonePlace:
    """A place that the program rclone reaches.

    Args:
        to: what it is called in messages.
        folder: in it.
        reached: rclone's options of it (rclone.org, the page of each backend).
        shows_parts: whether a file is seen there before all of it has arrived.

    """

    def __init__(
        self, to: str, folder: str, reached: Mapping[str, str], *, shows_parts: bool
    ) -> None:
        self._to = to
        self._folder = folder
        self._reached = reached
        self._shows_parts = shows_parts

    def listed(self, gateway: str) -> dict[str, int]:
        """Return the names that rclone lists of a gateway, and the bytes of each."""
        only = ("--include", f"/{gateway}.*")
        said = self._rclone("lsjson", "--files-only", "--no-modtime", *only, self._path(""))
        if len(said) > _LISTING_BYTES:
            raise BackupError(f"{self._to}: more than {MAX_LISTED} files of {gateway}")
        try:
            found = {str(one["Name"]): int(one["Size"]) for one in json.loads(said)}
        except (ValueError, TypeError, KeyError) as error:
            raise BackupError(f"{self._to}: rclone lists what can't be read ({error})") from error
        if len(found) > MAX_LISTED:
            raise BackupError(f"{self._to}: more than {MAX_LISTED} files of {gateway}")
        return found

    def put(self, file: Path, name: str) -> None:
        """Upload a file; where the place shows parts, under another name at first."""
        if not self._shows_parts:
            self._rclone("copyto", str(file), self._path(name))
            return
        part = f"{name}{PART}"
        self._rclone("copyto", str(file), self._path(part))
        self._rclone("moveto", self._path(part), self._path(name))

    def get(self, name: str, to: Path, most_bytes: int) -> None:
        """Download an archive, and no more bytes than it may have."""
        os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        bound = (f"--max-transfer={most_bytes + _SLACK_BYTES}B", "--cutoff-mode=hard")
        self._rclone("copyto", *bound, self._path(name), str(to))
        to.chmod(0o600)
        if (size := to.stat().st_size) > most_bytes:
            raise BackupError(f"{self._to}: {name} has {size} bytes, and {most_bytes} were listed")

    def remove(self, name: str) -> None:
        """Delete an archive by rclone."""
        self._rclone("deletefile", self._path(name))

    def _path(self, name: str) -> str:
        return f"place:{self._folder}/{name}" if name else f"place:{self._folder}"

    def _rclone(self, *arguments: str) -> str:
        options = {f"RCLONE_CONFIG_PLACE_{key}": value for key, value in self._reached.items()}
        environment = {**os.environ, **options}
        # rclone fails at that name, which other programs of S3 know, and has one of its own.
        if authorities := environment.pop("AWS_CA_BUNDLE", ""):
            environment.setdefault("RCLONE_CA_CERT", authorities)
        command = ["rclone", *PATIENCE, "--config=", *arguments]
        with tempfile.TemporaryFile() as complaints:
            try:
                rclone = subprocess.Popen(  # noqa: S603  # no shell
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                )
            except FileNotFoundError as error:
                raise BackupError(f"{self._to}: rclone is not installed") from error
            with rclone, _ended_after(rclone, MOST_S) as is_over:
                assert rclone.stdout is not None
                said = rclone.stdout.read(_LISTING_BYTES + 1)
                if len(said) > _LISTING_BYTES:
                    rclone.kill()
            if is_over.is_set():
                raise BackupError(f"{self._to}: rclone did not end within {MOST_S:g} s")
            if len(said) <= _LISTING_BYTES and rclone.returncode != 0:
                raise BackupError(f"{self._to}: {_last_line(complaints, rclone.returncode)}")
        return said.decode(errors="replace")


@contextlib.contextmanager
def _ended_after(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[threading.Event]:
    """Kill a process that takes too long; the event says that it was."""
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        process.kill()

    timer = threading.Timer(limit_s, end)
    timer.start()
    try:
        yield is_over
        process.wait()
    except BaseException:
        process.kill()
        raise
    finally:
        timer.cancel()


def _last_line(complaints: IO[bytes], returncode: int) -> str:
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _COMPLAINT_BYTES))
    lines = complaints.read().decode(errors="replace").splitlines()
    told = [line for line in lines if line.strip()]
    return told[-1][-_LAST_CHARACTERS:] if told else f"rclone exits {returncode}"
