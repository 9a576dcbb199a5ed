"""Format of the state folder, and whether this release reads it.

``format`` in the folder holds a number. A release that does not read that form refuses to start
before it touches anything, so that the release before finds all as it was. A form is written only
when the release before already reads it (docs/decisions/0042-releases-on-trial.md). A number that
can't be read, as after a power cut, is set aside: the folder counts as one without it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gateway.base import replaced_file
from gateway.base.kept_file import KeptFile
from gateway.process.configuration.config import ConfigError
from gateway.process.state_folder.identity import COUNTER, own_folder

NAME = "format"
_WITHOUT = "the folder counts as one of form 1, or of the form of this release if it is new"
WRITTEN = 1
"""The form that this release writes."""
READ: Collection[int] = frozenset({1})
"""The forms that it reads; a folder without a number, of an earlier release, is 1."""


def claim(state_dir: Path, written: int = WRITTEN, read: Collection[int] = READ) -> None:
    """Make sure that a state folder can be used, and have it say in which form.

    Args:
        state_dir: the gateway's; made if it is not there.
        written: the form that is written from now on.
        read: the forms that are read.

    Raises:
        ConfigError: its form is none of these, nothing was touched; or it can't be written.

    """
    file = KeptFile(state_dir / NAME, _WITHOUT, is_durable=True)
    try:
        found = file.read(_form)
        if found is None:
            found = 1 if (state_dir / COUNTER).exists() else written
        if found not in read:
            forms = ", ".join(map(str, sorted(read)))
            why = f"{state_dir} has form {found}, and this release reads {forms}"
            raise ConfigError("gateway.state_dir", f"{why}: nothing is touched")
        own_folder(state_dir)
        file.write(b"%d\n" % written)
        for folder in (state_dir, state_dir / "log"):
            replaced_file.remove_unfinished(folder)
    except OSError as error:
        why = f"{error.filename or state_dir}: {error.strerror or error}"
        raise ConfigError("gateway.state_dir", why) from error


def _form(data: bytes) -> int:
    text = data.strip()
    if not text.isdigit():
        raise ValueError("no number")
    return int(text)
