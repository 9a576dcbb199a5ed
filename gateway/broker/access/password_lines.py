"""Making and changing the lines of a password file: by a command, and by a gateway's page."""

from __future__ import annotations

import re
import secrets
import unicodedata
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher

from gateway.base import replaced_file
from gateway.base.lone_change import alone
from gateway.broker.access.passwords import Passwords, UserCheck
from gateway.trust.policy.faults import access_text, read_access_bytes

PASSWORD_BYTES_MAX = 65_535
"""No CONNECT can carry more (section 1.5.6)."""
_DRAWN_BYTES: Final = 18
_MANAGED: Final = re.compile(r"^#[ \t]*managed by:[ \t]*(\S.*?)\s*$", re.MULTILINE)


class PasswordLineError(ValueError):
    """No line can be made of this: ``str(error)`` is one line, without the password."""


def check_name(user: str) -> None:
    """Refuse a name that no line can hold.

    Raises:
        PasswordLineError: it is refused.

    """
    if not user or user != user.strip() or ":" in user or user[0] == "#" or not user.isprintable():
        raise PasswordLineError(f"{user!r} can be no user name")


def check_new_name(user: str) -> None:
    """Refuse what `check_name` refuses, and a name with another form that looks the same.

    Two users whose names a person can't tell apart are how one gets the rights of the other. What
    is not printable (of no width, controls of direction, other spaces) is refused with the rest.

    Raises:
        PasswordLineError: it is refused.

    """
    check_name(user)
    if unicodedata.normalize("NFKC", user) != user:
        why = "has characters that look like others: compose it (NFKC of Unicode)"
        raise PasswordLineError(f"{user!a} {why}")


def line(user: str, password: bytes) -> str:
    """Return the line of a user, with the password's argon2 hash.

    Raises:
        PasswordLineError: no line can hold the name, or no client could send the password.

    """
    check_name(user)
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise PasswordLineError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    return f"{user}:{PasswordHasher().hash(password)}"


def drawn() -> str:
    """Return a password drawn by chance, which can be typed and stand in a file or an address."""
    return secrets.token_urlsafe(_DRAWN_BYTES)


def managed_by(text: str) -> str:
    """Return what writes a password file anew, as a comment ``# managed by: ...`` in it says.

    A change that is made in the file itself is lost then, at a time when nobody looks.

    Args:
        text: all of the file.

    Returns:
        The words of the comment; empty if nothing but people and this module write it.

    """
    found = _MANAGED.search(text)
    return "" if found is None else found[1]


def replaced(text: str, user: str, new: str | None) -> str:
    """Return a password file's text with a user's line replaced, added or, with None, taken out."""
    lines = text.removesuffix("\n").split("\n") if text else []  # as `Passwords.parse` has lines
    at = [i for i, old in enumerate(lines) if old.strip().partition(":")[:2] == (user, ":")]
    if at:
        lines[at[0] : at[0] + 1] = [] if new is None else [new]
    elif new is not None:
        lines.append(new)
    return "".join(f"{one}\n" for one in lines)


def change(
    path: Path,
    user: str,
    new: str | None,
    check: UserCheck = lambda _: None,
    *,
    is_patient: bool = True,
) -> tuple[Passwords, Passwords]:
    """Put a user's line into a file, or take it out.

    The file is there as a whole at every moment. A new one is for its owner alone; another keeps
    its mode and, where that is allowed, its owner.

    Args:
        path: the file.
        user: whose line.
        new: the line; None to take it out.
        check: is shown who has a password now, while nobody else changes the file; it raises what
            keeps this change from being made.
        is_patient: waits while another program changes the file.

    Returns:
        Who had a password, and who has one now.

    Raises:
        PasswordLineError: a new user's name has another form that looks the same.
        AccessFileError: the file can't be read, or one of its lines is wrong.
        BlockingIOError: another program changes the file, and this one does not wait.
        OvertakenError: somebody has changed the file by another way meanwhile; that stands.
        OSError: it can't be written; or it is, and the disk may lose that.

    """
    with alone(path, is_patient=is_patient):
        path = path.resolve()
        held = read_access_bytes(path) if path.exists() else b""
        text = access_text(held, path)
        before = Passwords.parse(text, str(path))
        check(before)
        if user not in before:
            if new is None:
                return before, before
            check_new_name(user)
        text = replaced(text, user, new)
        after = Passwords.parse(text, str(path))
        replaced_file.replace(
            path, text.encode(), is_durable=True, keeps_owner=True, mode=0o600, instead_of=held
        )
    return before, after
