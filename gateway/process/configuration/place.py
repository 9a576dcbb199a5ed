"""Place of a gateway's configuration, if no command line says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SYSTEM = Path("/etc/hedgerow/hedgerow.toml")
IN_WORDS = f"{SYSTEM}, then ~/.config/hedgerow/hedgerow.toml"


class NoConfigError(Exception):
    """There is no configuration in any of the places, which the message names."""


def find(environment: Mapping[str, str] = os.environ, system: Path = SYSTEM) -> Path:
    """Return the system's configuration, or the user's own if there is none.

    Args:
        environment: XDG_CONFIG_HOME and HOME of it are used (XDG Base Directory Specification).
        system: the system's.

    Raises:
        NoConfigError: there is neither.

    """
    places = [system, own(environment)]
    for place in places:
        if _is_there(place):
            return place
    raise NoConfigError(f"neither {places[0]} nor {places[1]} is there")


def own(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the user's own configuration is, or would be.

    Args:
        environment: XDG_CONFIG_HOME and HOME of it are used (XDG Base Directory Specification).

    """
    home = Path(environment.get("HOME", "/")) / ".config"
    given = Path(environment.get("XDG_CONFIG_HOME", ""))
    # One that is relative is invalid, and to be ignored.
    return (given if given.is_absolute() else home) / "hedgerow" / "hedgerow.toml"


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError:  # whoever opens it learns that
        return True


def find_readable() -> Path | None:
    """Return the configuration of this machine's gateway; None if there is none that may be
    read."""
    try:
        found = find()
    except NoConfigError:
        return None
    return found if os.access(found, os.R_OK) else None
