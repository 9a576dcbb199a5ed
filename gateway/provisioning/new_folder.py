"""A folder's new files: all of them are there in the end, or none, and nothing is written over."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class TakenError(Exception):
    """What would be written is there already.

    Args:
        path: what.

    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is there already, and stays as it is")
        self.path = path


def refuse_taken(folder: Path, names: Iterable[str]) -> None:
    """Refuse names that a folder has.

    Raises:
        TakenError: it has one; it is named.

    """
    for name in names:
        if os.path.lexists(folder / name):
            raise TakenError(folder / name)


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Write new files into a folder.

    They are made in a folder beside it, which then gets its name or, where it is there already,
    what is in it is moved.

    Args:
        folder: where they are in the end; what is in it stays.
        fill: writes them into the folder that it is given.

    Raises:
        TakenError: one of them is there.
        OSError: one can't be written.

    """
    with _parents(folder):
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".new", dir=folder.parent))
        try:
            fill(fresh)
            fresh.chmod(0o755)  # now that what is secret in it has its mode
            if folder.exists():
                _move(fresh, folder)
            else:
                fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def write(path: Path, text: str, mode: int) -> None:
    """Write one file that is not there yet, with this mode whatever the umask is.

    Raises:
        OSError: it can't be written.

    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)


def force_to_disk(folder: Path) -> None:
    """Have new files on the disk, whatever happens to the power.

    Args:
        folder: whose files and folders they are.

    Raises:
        OSError: the disk does not take them.

    """
    for _, _, names, descriptor in os.fwalk(folder, follow_symlinks=False):
        for name in names:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        os.fsync(descriptor)


def _move(fresh: Path, folder: Path) -> None:
    # The configuration last: without it nothing else is looked at.
    names = sorted(
        (path.name for path in fresh.iterdir()), key=lambda name: (name == "hedgerow.toml", name)
    )
    refuse_taken(folder, reversed(names))
    moved = list[str]()
    try:
        for name in names:
            (fresh / name).rename(folder / name)
            moved.append(name)
    except BaseException:
        for name in moved:
            (folder / name).rename(fresh / name)
        raise


@contextlib.contextmanager
def _parents(folder: Path) -> Iterator[None]:
    """Have the folders above it; those that were made go again if it comes to nothing."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    made = list[Path]()
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.append(parent)
        yield
    except BaseException:
        for parent in reversed(made):
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise
