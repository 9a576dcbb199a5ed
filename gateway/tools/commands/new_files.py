"""Files that commands write for a new gateway: where they stand, and how they are written."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.process.configuration import place as config_place
from gateway.tools.commands.errors import WrongUseError

if TYPE_CHECKING:
    from gateway.tools.provisioning.files import Machine

PACKAGED = Path("/usr/lib/hedgerow")
"""The folder of the Debian package's Python, which its own unit runs (deploy/debian)."""
_FRESH = re.compile(r"/\.([^/]+)\.[^/.]+\.new(?=/|$)")
"""A folder that is made beside the one that somebody named, which alone is told."""


def machine() -> Machine:
    """Return what would run a gateway of this machine: this program, as this user."""
    from gateway.tools.provisioning.files import Machine  # noqa: PLC0415
    from gateway.tools.provisioning.unit import environment_here  # noqa: PLC0415

    beside = Path(sys.executable).with_name("hedgerow")  # not resolved: a venv's is a link
    program = str(beside) if beside.exists() else shutil.which("hedgerow")
    command = (program,) if program else (sys.executable, "-m", "gateway.tools.cli")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number that no user has, as in a container
        user = str(os.getuid())
    return Machine(command, user, environment_here() if beside.exists() else None)


def service(unit: Path) -> str:
    """Return what systemd is told to run: the Debian package's own unit where this program is its.

    An upgrade of the package brings that one up to date.

    Args:
        unit: the file that was written for a program that came in another way.

    """
    return unit.name if Path(sys.prefix) == PACKAGED else str(unit)


def own_folder() -> Path:
    """Return the folder of the gateway of this user, or of the machine's for root."""
    if os.geteuid() == 0:
        return config_place.SYSTEM.parent
    return config_place.own().parent


def absolute(folder: Path) -> Path:
    """Return a folder without what depends on where the command was typed.

    Raises:
        WrongUseError: there can be none.

    """
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise WrongUseError(f"{folder}: {getattr(error, 'strerror', None) or error}") from error


def refuse_taken(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder that is none, or that has one of these files.

    What an attempt has left that was killed is taken back before.

    Raises:
        WrongUseError: it is none, or has one; the file is named.

    """
    from gateway.tools.provisioning import new_folder  # noqa: PLC0415

    if folder.exists() and not folder.is_dir():
        raise WrongUseError(f"{folder} is no folder")
    take_back(folder)
    written(lambda: new_folder.refuse_taken(folder, names), folder)


def take_back(folder: Path) -> None:
    """Take back what an attempt has moved into a folder that was killed before it had moved all.

    Raises:
        WrongUseError: it can't be taken back.

    """
    from gateway.tools.provisioning import new_folder  # noqa: PLC0415

    written(lambda: new_folder.take_back(folder), folder)


def make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Write new files into a folder: all of them, or none.

    Args:
        folder: where they are in the end; what is in it stays.
        fill: writes them into the folder that it is given.

    Raises:
        WrongUseError: one of them is there, or can't be written.

    """
    from gateway.tools.provisioning import new_folder  # noqa: PLC0415

    written(lambda: new_folder.make(folder, fill), folder)


def written(work: Callable[[], None], folder: Path) -> None:
    """Do what writes into a folder, and tell in one line what keeps it from that.

    Raises:
        WrongUseError: something is there, or can't be written.

    """
    from gateway.tools.provisioning.new_folder import TakenError  # noqa: PLC0415

    try:
        work()
    except TakenError as error:
        raise WrongUseError(str(error)) from error
    except OSError as error:
        named = _FRESH.sub(r"/\1", str(error.filename or folder))
        why = f"{named}: {error.strerror or error}"
        raise WrongUseError(f"{why}; nothing is written") from error
