"""Which form the state folder has, and whether this release reads it.

``format`` in the folder holds a number. A release that does not read that form refuses to start
before it touches anything, so that the release before finds all as it was. A form is written only
when the release before already reads it (docs/decisions/0042-releases-on-trial.md).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gateway import replaced_file
from gateway.configuration.config import ConfigError

NAME = "format"
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
    path = state_dir / NAME
    try:
        text: str | None = path.read_text()
    except FileNotFoundError:
        text = None
    except (OSError, ValueError) as error:
        raise ConfigError("gateway.state_dir", f"{path}: {_why(error)}") from error
    if text is None:
        found = 1 if (state_dir / "boot_epoch").exists() else written
    elif text.strip().isdecimal():
        found = int(text)
    else:
        raise ConfigError("gateway.state_dir", f"{path}: no number")
    if found not in read:
        forms = ", ".join(map(str, sorted(read)))
        why = f"{state_dir} has form {found}, and this release reads {forms}: nothing is touched"
        raise ConfigError("gateway.state_dir", why)
    if text is None or found != written:
        _write(path, written)


def _write(path: Path, written: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replaced_file.replace(path, f"{written}\n".encode(), is_durable=True)
    except OSError as error:
        named = error.filename or path
        raise ConfigError("gateway.state_dir", f"{named}: {_why(error)}") from error


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
