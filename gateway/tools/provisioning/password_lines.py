"""Making and changing the lines of a password file."""

from __future__ import annotations

from pathlib import Path

from argon2 import PasswordHasher

from gateway.base import replaced_file
from gateway.base.lone_change import alone
from gateway.broker.access.passwords import Passwords
from gateway.trust.policy.faults import read_access_file

PASSWORD_BYTES_MAX = 65_535
"""No CONNECT can carry more (section 1.5.6)."""


class PasswordLineError(ValueError):
    """No line can be made of this: ``str(error)`` is one line, without the password."""


def line(user: str, password: bytes) -> str:
    """The line of a user, with the password's argon2 hash.

    Raises:
        PasswordLineError: no line can hold the name, or no client could send the password.

    """
    if not user or user != user.strip() or ":" in user or user[0] == "#" or not user.isprintable():
        raise PasswordLineError(f"{user!r} can be no user name")
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise PasswordLineError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    return f"{user}:{PasswordHasher().hash(password)}"


def replaced(text: str, user: str, new: str | None) -> str:
    """A password file's text with a user's line replaced, added or, with None, taken out."""
    lines = text.splitlines()
    at = [i for i, old in enumerate(lines) if old.strip().partition(":")[:2] == (user, ":")]
    if at:
        lines[at[0] : at[0] + 1] = [] if new is None else [new]
    elif new is not None:
        lines.append(new)
    return "".join(f"{one}\n" for one in lines)


def change(path: Path, user: str, new: str | None) -> bool:
    """Put a user's line into a file, or take it out; whether the user had one.

    The file is there as a whole at every moment. A new one is for its owner alone; another keeps
    its mode and, where that is allowed, its owner.

    Raises:
        AccessFileError: the file can't be read, or one of its lines is wrong.
        OSError: it can't be written.

    """
    path = path.resolve()
    with alone(path):
        text = read_access_file(path) if path.exists() else ""
        was_there = user in Passwords.parse(text, str(path))
        if was_there or new is not None:
            data = replaced(text, user, new).encode()
            replaced_file.replace(path, data, is_durable=True, keeps_owner=True, mode=0o600)
    return was_there
