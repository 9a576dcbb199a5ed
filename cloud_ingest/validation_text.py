"""Texts of a configuration's errors: the key in front, then what is wrong with it."""

from __future__ import annotations

import msgspec


def named(error: msgspec.ValidationError, where: str) -> str:
    """Put the key in front, as errors of configurations have it.

    Args:
        error: as msgspec raised it.
        where: the key of the table that was converted, or ``""``.

    """
    why, _, path = str(error).partition(" - at `$")
    key = f"{where}{path.rstrip('`')}".lstrip(".")
    return f"{key}: {why}" if key else why
