"""Opens an archive with the key that it is encrypted for, or takes one that is not encrypted."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from .contents import FREE_BYTES, RestoreError

_AGE: Final = b"age-encryption.org/v1\n"
_GZIP: Final = b"\x1f\x8b"
_OPENING_S: Final = 6 * 3600.0


def opened(archive: Path, key: Path | None, scratch: Path) -> Path:
    """Return a file with the archive in plain: itself, or one that is made in a folder.

    Args:
        archive: encrypted by age, or not.
        key: file of age's identities, or of an SSH key; None: none was given.
        scratch: gets what is decrypted, for this user alone.

    Raises:
        RestoreError: it is empty, of another kind, for another key, cut off or damaged.
        OSError: it can't be read, or the folder not be written, as it has no room for it.

    """
    with archive.open("rb") as file:
        head = file.read(len(_AGE))
    if not head:
        raise RestoreError(f"{archive} is empty: take another")
    if head.startswith(_GZIP):
        return archive
    if head != _AGE:
        raise RestoreError(f"{archive} is no archive of a gateway, encrypted or not")
    if key is None:
        raise RestoreError(f"{archive} is encrypted: name the file with its key (--key)")
    needed, free = archive.stat().st_size + FREE_BYTES, shutil.disk_usage(scratch).free
    if needed > free:
        raise lack_of_room(scratch, needed, free)
    plain = scratch / "archive.tar.gz"
    with os.fdopen(os.open(plain, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        _decrypt(archive, key, target.fileno())
    return plain


def lack_of_room(folder: Path, needed_bytes: int, free_bytes: int) -> OSError:
    """Return the error of a folder that has too little room: no backup is at fault.

    Args:
        folder: the folder.
        needed_bytes: how much room it would take.
        free_bytes: how much it has.

    """
    why = f"{needed_bytes >> 20} MiB are needed there, and {free_bytes >> 20} are free"
    return OSError(errno.ENOSPC, why, str(folder))


def _decrypt(archive: Path, key: Path, target: int) -> None:
    command = ["age", "--decrypt", "--identity", str(key), "--", str(archive)]
    try:
        done = subprocess.run(  # noqa: S603  # no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.PIPE,
            timeout=_OPENING_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise RestoreError("age is not installed: it decrypts the backup") from error
    except subprocess.TimeoutExpired as error:
        raise RestoreError(f"{archive}: age did not end within {_OPENING_S:g} s") from error
    if done.returncode != 0:
        said = done.stderr[:4096].decode(errors="replace").strip().partition("\n")[0]
        why = said or f"age exits {done.returncode}"
        raise RestoreError(f"{archive} can't be decrypted with {key}: {why}")
