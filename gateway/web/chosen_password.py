"""Passwords that people choose at a page: how long they are, and which are refused. Pure."""

from __future__ import annotations

from typing import Final

CHARACTERS_MIN: Final = 10
CHARACTERS_MAX: Final = 256


def why_unfit(password: str, *known: str) -> str:
    """Return why a password will not do; empty if it will.

    Args:
        password: as it was typed.
        known: names that everybody sees, such as the user's.

    """
    if not CHARACTERS_MIN <= len(password) <= CHARACTERS_MAX:
        return f"is not {CHARACTERS_MIN} to {CHARACTERS_MAX} characters"
    if password.casefold() in (one.casefold() for one in known):
        return "is a name that everybody sees"
    return ""
