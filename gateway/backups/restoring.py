"""Puts a backup of a gateway into the place of what it has, in steps that can be taken back.

    restoring unpack ARCHIVE --id ID --user USER    look at all of it, and unpack it beside
    restoring swap                                  each folder and what was unpacked change places
    restoring keep                                  it is well: remove the ones of before
    restoring undo                                  it is not: the ones of before come back

Nothing that the gateway has is touched before the whole archive was read and found to be this
gateway's. A folder and its backup change places in one system call: at no moment is there none,
in the place of which systemd would make an empty one at the next boot. Each step can be repeated,
and a restore that a power cut ended goes on when the same archive is unpacked again.

The mark in a folder tells where it stands (the folder in its place, the one beside it):

    none, none    nothing was begun, or it was ended; what is beside is rubbish
    none, mark    unpacked
    mark, none    swapped; the folder of before is beside
    mark and the other folder is unmarked in both places    `keep` has begun

Keys that systemd has encrypted for one machine are of no use to another: those of the Pi stay.

Exit codes: 0 done; 1 the archive or the disk is not as it has to be, and why; nothing was changed.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import shutil
import sys
from pathlib import Path, PurePosixPath

from . import contents
from .contents import FREE_BYTES, RestoreError

MARK = ".of-a-backup"
"""A file in each folder that was unpacked, until it is known to be well: the archive's digest."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def beside(folder: Path) -> Path:
    """Return where the backup's folder waits, and afterwards the one of before."""
    return folder.with_name(folder.name + ".restore")


def is_of_backup(folder: Path) -> bool:
    """Return whether a folder is what was unpacked, and not the one of before."""
    return (folder / MARK).exists()


def unpack(archive: Path, gateway: str, config: Path, state: Path) -> bool:
    """Read the whole archive, check it, and unpack it beside the two folders.

    Returns:
        Whether it did; if not, an earlier restore of the same archive was cut off, and goes on.

    Raises:
        RestoreError: it is cut off, damaged, another gateway's, too large, or holds what no backup
            has; or an earlier restore, of another archive, was not ended.

    """
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    for folder in (config, state):
        if is_of_backup(folder):
            if (folder / MARK).read_text() == digest:
                return False
            raise RestoreError(
                f"an earlier restore, of another archive, was not ended; what it replaced is in"
                f" {beside(folder)}: play restore.yml with -e hedgerow_restore=keep if the gateway"
                " is well, else with undo"
            )
        if folder.is_mount():
            raise RestoreError(
                f"{folder} is a file system of its own and can't be replaced by a rename: have"
                " gateway_state_dir name a folder in it"
            )
    _remove_beside(config, state)
    try:
        _unpack(archive, _kept(archive, gateway, config, state), config, state)
        # The mark vouches for what is on the disk.
        os.sync()
        for folder in (config, state):
            (beside(folder) / MARK).write_text(digest)
        os.sync()
    except BaseException:
        _remove_beside(config, state)
        raise
    return True


def _unpack(archive: Path, kept: set[str], config: Path, state: Path) -> None:
    shutil.copytree(config, beside(config), symlinks=True)
    _keep_owners(config, beside(config))
    beside(state).mkdir(mode=0o700)
    contents.extract(archive, kept, beside(config), beside(state))


def _remove_beside(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(beside(folder), ignore_errors=True)


def _kept(archive: Path, gateway: str, config: Path, state: Path) -> set[str]:
    """Return the names of keys that stay those of the Pi, of an archive that is this gateway's."""
    free_bytes = shutil.disk_usage(state.parent).free
    found = contents.survey(archive, max(0, free_bytes - FREE_BYTES))
    if found.gateway != gateway:
        raise RestoreError(
            f"{archive} is a backup of {found.gateway!r}, and this gateway is {gateway!r}"
        )
    folders = PurePosixPath(config), PurePosixPath(state)
    if (found.config, found.state) != folders:
        raise RestoreError(
            f"{archive} is of {found.config} and {found.state}, and this gateway has {config} and"
            f" {state}: it is not unpacked"
        )
    if lacking := [name for name in found.encrypted if not (config / name).exists()]:
        raise RestoreError(
            f"{', '.join(lacking)} of {archive}: encrypted for the machine of the backup, and this"
            " one has none: give it in the inventory, play site.yml, then this again"
        )
    own = {
        path.name
        for path in config.iterdir()
        if path.is_file() and contents.is_encrypted_for_a_host(_head(path))
    }
    return own.union(found.encrypted)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def _keep_owners(source: Path, copy: Path) -> None:
    for path in (source, *source.rglob("*")):
        found = path.lstat()
        os.chown(copy / path.relative_to(source), found.st_uid, found.st_gid, follow_symlinks=False)


def own(user: str, config: Path, state: Path) -> None:
    """Give what was unpacked to the service's user, whatever number that has here."""
    for path in (beside(state), *beside(state).rglob("*")):
        shutil.chown(path, user, user)
    for path in (beside(config), *beside(config).glob("*.toml")):
        shutil.chown(path, group=user)
    if (passwords := beside(config) / "passwords").exists():
        shutil.chown(passwords, user, user)


def swap(config: Path, state: Path) -> None:
    """Have the backup and what the gateway has change places.

    Raises:
        RestoreError: nothing was unpacked.

    """
    if _is_being_kept(config, state):
        return
    for folder in (config, state):
        if not (is_of_backup(folder) or is_of_backup(beside(folder))):
            raise RestoreError(f"{beside(folder)} is not of a backup: unpack an archive first")
    for folder in (config, state):
        if not is_of_backup(folder):
            _exchange(folder, beside(folder))
    os.sync()


def _is_being_kept(config: Path, state: Path) -> bool:
    return is_of_backup(state) and not (is_of_backup(config) or is_of_backup(beside(config)))


def keep(config: Path, state: Path) -> None:
    """Remove what was there before.

    Raises:
        RestoreError: one of the two folders is still the one of before.

    """
    for folder, other in ((config, state), (state, config)):
        if is_of_backup(folder) and is_of_backup(beside(other)):
            raise RestoreError(f"{other} is not of the backup yet: play restore.yml again")
    # From the first step on it is kept: nothing brings back what has begun to be removed.
    for folder in (config, state):
        (folder / MARK).unlink(missing_ok=True)
        os.sync()
    _remove_beside(config, state)
    os.sync()


def undo(config: Path, state: Path) -> None:
    """Bring back what was there before, and remove what was unpacked.

    Raises:
        RestoreError: it was found to be well, and `keep` has begun.

    """
    if _is_being_kept(config, state):
        raise RestoreError("the backup was found to be well before: play it with keep")
    for folder in (config, state):
        if is_of_backup(folder):
            _exchange(folder, beside(folder))
    os.sync()
    _remove_beside(config, state)
    os.sync()


def _exchange(one: Path, other: Path) -> None:
    """Exchange two paths in one step: renameat2(2), RENAME_EXCHANGE.

    Raises:
        OSError: the file system has no such thing, or one is not there.

    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def main() -> int:
    """Take one step and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", choices=("unpack", "swap", "keep", "undo"))
    parser.add_argument("archive", type=Path, nargs="?")
    parser.add_argument("--id", default="")
    parser.add_argument("--user", default="hedgerow")
    parser.add_argument("--config", type=Path, default=Path("/etc/hedgerow"))
    parser.add_argument("--state", type=Path, default=Path("/var/lib/hedgerow"))
    asked = parser.parse_args()
    folders = asked.config, asked.state
    try:
        if asked.step == "unpack":
            if asked.archive is None:
                parser.error("unpack what? name the archive")
            if unpack(asked.archive, asked.id, *folders):
                try:
                    own(asked.user, *folders)
                except BaseException:
                    _remove_beside(*folders)
                    raise
        else:
            {"swap": swap, "keep": keep, "undo": undo}[asked.step](*folders)
    except (RestoreError, OSError, LookupError) as error:
        sys.stderr.write(f"restore: {_told(error)}\n")
        return 1
    return 0


def _told(error: RestoreError | OSError | LookupError) -> str:
    if isinstance(error, shutil.Error):  # of a folder: what could not be copied of it, and why
        _, target, why = error.args[0][0]
        return f"{target}: {why}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
