"""A folder's new files: all of them are there in the end, or none, and nothing is written over.

Files that go into a folder that is there are moved one by one. Before the first of them moves, a
note beside the folder says which they are: who is killed meanwhile leaves it, and the next attempt
takes back what has moved. Where this user may not write beside the folder, new files are made in
it, and the note is there too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from gateway.base import replaced_file

_LAST: Final = "hedgerow.toml"
"""The configuration: without it nothing else is looked at."""
_FRESH: Final = ".new"


class TakenError(Exception):
    """The path that would be written is there already.

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

    They are made in a folder beside it (`beside`), which then gets its name or, where it is there
    already, what is in it is moved.

    Args:
        folder: where they are in the end; what is in it stays.
        fill: writes them into the folder that it is given.

    Raises:
        TakenError: one of them is there.
        OSError: one can't be written.

    """
    take_back(folder)
    with _parents(folder):
        made_in = beside(folder, "x").parent
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=_FRESH, dir=made_in))
        try:
            fill(fresh)
            fresh.chmod(0o755)  # now that what is secret in it has its mode
            if folder.exists():
                _move(fresh, folder)
            else:
                fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def beside(folder: Path, name: str) -> Path:
    """Return where something of this folder stands until it is in it, by a name that is no file's.

    Args:
        folder: which.
        name: tells such things apart.

    """
    is_its_own = folder.is_dir() and not os.access(folder.parent, os.W_OK)
    return (folder if is_its_own else folder.parent) / f".{folder.name}.{name}"


def remove_unfinished(folder: Path) -> None:
    """Remove what attempts have made for a folder that were killed before anything moved.

    Nobody may be writing it meanwhile.

    Raises:
        OSError: it can't be removed.

    """
    place = beside(folder, "")
    for left in place.parent.glob(f"{place.name}*{_FRESH}"):
        found = left.lstat()
        if found.st_uid != os.geteuid():
            continue
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(left)
        else:
            left.unlink()


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


def take_back(folder: Path) -> None:
    """Take back what an attempt has moved into a folder that was killed before it had moved all.

    Args:
        folder: which; what is in it by others stays.

    Raises:
        OSError: the note of that attempt can't be read, or a file can't be moved.

    """
    note = _note_beside(folder)
    moving = _read_note(note)
    if moving is None:
        return
    fresh = note.with_name(moving[0])
    if any(os.path.lexists(fresh / name) for name, _ in moving[1]):
        for name, number in moving[1]:
            # Another file of that name is not what the attempt has moved.
            if _number(folder / name) == number:
                (folder / name).rename(fresh / name)
    note.unlink()
    shutil.rmtree(fresh, ignore_errors=True)


def _move(fresh: Path, folder: Path) -> None:
    names = sorted((path.name for path in fresh.iterdir()), key=lambda name: (name == _LAST, name))
    refuse_taken(folder, reversed(names))
    note = _note_beside(folder)
    numbers = [(name, _number(fresh / name)) for name in names]
    told = json.dumps([fresh.name, numbers]).encode()
    replaced_file.replace(note, told, is_durable=True, mode=0o600)
    try:
        for name in names:
            (fresh / name).rename(folder / name)
    except BaseException:
        take_back(folder)
        raise
    note.unlink()


def _note_beside(folder: Path) -> Path:
    return beside(folder, "moving")


def _read_note(note: Path) -> tuple[str, list[tuple[str, int]]] | None:
    """Return the folder that files moved from, and the name and number of each; None without a
    note.

    Where others may write beside the folder, one may have put a note there: it is left alone.
    """
    if not os.path.lexists(note):
        return None
    found = note.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return None
    fresh, numbers = json.loads(note.read_bytes())
    return fresh, [(name, number) for name, number in numbers]


def _number(path: Path) -> int | None:
    """Return the file's number on its disk, which stays under another name; None if there is no
    file."""
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


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
