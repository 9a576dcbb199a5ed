"""Reads an archive of a gateway to its last byte, and says what it holds, or why it is none.

An archive begins with the folder of the configuration, whose file names the gateway and its folder
of state; nothing but what is in these two folders belongs to a backup. Whoever made an archive may
mean harm: how many files it has, how long they are, and how much of it is in memory are bounded.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tomllib
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

CONFIG_FILE: Final = "hedgerow.toml"
CERTIFICATES: Final = "tls"
"""The Pi's own may be newer than the backup's, and those may be revoked: this folder stays."""
MAX_FILES: Final = 25_000
"""More files are no state of a gateway; making.py makes no archive of so many."""
MAX_CONFIG_BYTES: Final = 4 << 20
"""A longer configuration is none."""
FREE_BYTES: Final = 64 << 20
"""So much of a disk is left to others where an archive is unpacked."""
_MAX_HEADER_BYTES: Final = 64 << 10
"""Bound on what stands before a file, such as a long name: tarfile has all of it in memory."""
_CHUNK: Final = 1 << 20
_ROOT: Final = PurePosixPath("/")
_BY_HOST: Final = b"Whxqht+dQJax1aZeCGLx"
"""Begins what `systemd-creds encrypt --with-key=host` writes: systemd's CRED_AES256_GCM_BY_HOST."""


class RestoreError(Exception):
    """A backup can't be restored; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file or folder of an archive.

    Attributes:
        info: as the archive has it.
        is_state: whether it is of the folder of state; else it is of the configuration's.
        path: in that folder.
        content: of the configuration's file, which has been read already; None of all others.

    """

    info: tarfile.TarInfo
    is_state: bool
    path: PurePosixPath
    content: bytes | None


@dataclass(slots=True)
class Contents:
    """The content of a backup's archive.

    Attributes:
        gateway: whose it is; empty until that was read.
        config: its folder of the configuration, on its Pi.
        state: its folder of state, there.
        files: how many there are, folders too.
        unpacked_bytes: how long they are together.
        newest_s: when the newest of them was changed, in seconds since 1970.
        encrypted: names of the keys that systemd has encrypted for the machine of the backup.
        has_state: whether it has any of the folder of state.

    """

    gateway: str = ""
    config: PurePosixPath = _ROOT
    state: PurePosixPath = _ROOT
    files: int = 0
    unpacked_bytes: int = 0
    newest_s: int = 0
    encrypted: tuple[str, ...] = ()
    has_state: bool = False


class _BoundedInfo(tarfile.TarInfo):
    """A header that makes tarfile take no more than some of an archive into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        is_file = found.type in tarfile.REGULAR_TYPES and found.type != tarfile.GNUTYPE_SPARSE
        if found.size < 0 or not (is_file or found.size <= _MAX_HEADER_BYTES):
            raise RestoreError(f"no backup has a header of {found.size} bytes: it is not unpacked")
        return found


def survey(archive: Path, most_bytes: int) -> Contents:
    """Read all of an archive, to the check of its last byte.

    Args:
        archive: a tar in gzip.
        most_bytes: so long all of its files may be together.

    Raises:
        RestoreError: it is empty, cut off, damaged, no backup, or longer.

    """
    found = Contents()
    with _named(archive), gzip.open(archive) as stream:
        with _tar(stream) as tar:
            for member in _members(tar, found):
                _bound(archive, found, most_bytes)
                if not member.is_state and len(member.path.parts) == 1 and member.info.isfile():
                    _note_key(tar, member, found)
        tail_bytes = 0
        while chunk := stream.read(_CHUNK):
            tail_bytes += len(chunk)
            if found.unpacked_bytes + tail_bytes > most_bytes:
                raise RestoreError(f"{archive} goes on behind its last file: it is no backup")
    if not found.gateway or not found.has_state:
        lacks = found.state if found.gateway else CONFIG_FILE
        raise RestoreError(f"{archive} is no backup of a gateway: it lacks {lacks}")
    return found


def extract(archive: Path, kept: Collection[str], config: Path, state: Path) -> None:
    """Unpack an archive that was surveyed into two folders, for this user alone.

    Args:
        archive: as `survey` takes it.
        kept: names of files of the configuration that are left out.
        config: gets the others, but for certificates.
        state: gets the files of the state.

    Raises:
        RestoreError: it has changed since it was surveyed.
        OSError: a file can't be written.

    """
    with _named(archive), gzip.open(archive) as stream, _tar(stream) as tar:
        for member in _members(tar, Contents()):
            if not member.is_state and (
                member.path.parts[:1] == (CERTIFICATES,) or str(member.path) in kept
            ):
                continue
            _extract(tar, member, (state if member.is_state else config) / member.path)


def is_encrypted_for_a_host(content: bytes) -> bool:
    """Return whether a file begins as what systemd has encrypted for one machine."""
    return content.startswith(_BY_HOST)


def _tar(stream: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedInfo)


@contextmanager
def _named(archive: Path) -> Iterator[None]:
    """Have what is wrong with an archive be an error that names it.

    Raises:
        RestoreError: in place of an error of its formats; of a disk, an `OSError` stays.

    """
    try:
        if archive.stat().st_size == 0:
            raise RestoreError(f"{archive} is empty: take another")
        yield
    except (EOFError, gzip.BadGzipFile, RecursionError, tarfile.TarError, zlib.error) as error:
        raise RestoreError(f"{archive} is cut off or damaged ({error}): take another") from error


def _members(tar: tarfile.TarFile, found: Contents) -> Iterator[ArchivedFile]:
    """Yield each file and folder, with what is known so far of the archive noted in ``found``."""
    for info in tar:
        name = PurePosixPath("/", info.name)
        if not (info.isfile() or info.isdir()) or info.issparse():
            raise RestoreError(f"no backup has a link or device: {info.name!r} is not unpacked")
        if not found.files:
            if not info.isdir() or name == _ROOT:
                raise RestoreError(f"no backup begins with {info.name!r}: it is not unpacked")
            found.config = name
        is_state = not name.is_relative_to(found.config)
        folder = found.state if is_state else found.config
        is_foreign = not name.is_relative_to(folder) or (is_state and not found.gateway)
        if is_foreign or ".." in name.parts:
            raise RestoreError(f"no backup has {info.name!r}: it is not unpacked")
        found.files += 1
        found.unpacked_bytes += info.size
        found.newest_s = max(found.newest_s, int(info.mtime) if info.isfile() else 0)
        found.has_state |= is_state
        path = name.relative_to(folder)
        is_config = not is_state and path == PurePosixPath(CONFIG_FILE)
        yield ArchivedFile(info, is_state, path, _noted(tar, info, found) if is_config else None)


def _noted(tar: tarfile.TarFile, info: tarfile.TarInfo, found: Contents) -> bytes:
    """Read the configuration's file; ``found`` gets the gateway and its state."""
    if info.size > MAX_CONFIG_BYTES:
        raise RestoreError(f"no gateway has a {CONFIG_FILE} of {info.size} bytes")
    content = tar.extractfile(info)
    if content is None:
        raise RestoreError(f"{CONFIG_FILE} is a folder: this is no backup")
    data = content.read()
    try:
        told = tomllib.loads(data.decode())["gateway"]
        found.gateway, state = str(told["id"]), str(told["state_dir"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RestoreError(f"its {CONFIG_FILE} names no gateway, or no state ({error})") from error
    found.state = PurePosixPath(found.config, state)
    return data


def _note_key(tar: tarfile.TarFile, member: ArchivedFile, found: Contents) -> None:
    content = tar.extractfile(member.info) if member.content is None else None
    if content is not None and is_encrypted_for_a_host(content.read(len(_BY_HOST))):
        found.encrypted = (*found.encrypted, str(member.path))


def _bound(archive: Path, found: Contents, most_bytes: int) -> None:
    if found.unpacked_bytes > most_bytes:
        raise RestoreError(
            f"{archive} takes more than {most_bytes >> 20} MiB when it is unpacked, and no more"
            " are free or allowed"
        )
    if found.files > MAX_FILES:
        raise RestoreError(f"{archive} has more than {MAX_FILES} files: it is no backup")


def _extract(tar: tarfile.TarFile, member: ArchivedFile, target: Path) -> None:
    info = member.info
    if info.isdir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        content = tar.extractfile(info) if member.content is None else io.BytesIO(member.content)
        assert content is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        with (
            content,
            os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            shutil.copyfileobj(content, file)
    # In the order of the archive a folder comes before what is in it; its owner writes into it.
    target.chmod((info.mode & 0o777) | (0o700 if info.isdir() else 0))
