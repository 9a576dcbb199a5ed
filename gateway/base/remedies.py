"""Remedies for what the system has refused, in a few words behind the line."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dtls.errors import HandshakeFailedError, HandshakeTimeoutError

_OF: Final[Mapping[int, str]] = {
    errno.ENOSPC: "make room on its disk (`df -h` shows how full it is), and repeat this",
    errno.EDQUOT: "make room on its disk (`quota` shows how much is yours), and repeat this",
    errno.EROFS: "its disk is mounted to be read only: `findmnt` shows how",
    errno.ECONNREFUSED: "nobody listens there: does it run, and is that its address and port?",
    errno.EHOSTUNREACH: "is that machine on, and in this network?",
    errno.ENETUNREACH: "this machine has no way there: is it in a network?",
    errno.EADDRINUSE: "another program listens there (`ss -lntup` shows which): take another port",
    errno.EADDRNOTAVAIL: "this machine has no such address: `ip address` shows those that it has",
}

_SILENCE: Final = (
    "is that machine on, and does a gateway listen at that port? A firewall drops in silence"
)
_OTHER_KEY: Final = "has the gateway's coap.psk_file this identity, and the same key for it?"


def with_remedy(line: str, error: BaseException | None) -> str:
    """Say what to do behind a line, if that is known.

    Args:
        line: what went wrong.
        error: what it was raised from, or itself; None if nothing was.

    """
    what_to_do = remedy(error)
    return f"{line}; {what_to_do}" if what_to_do else line


def remedy(error: BaseException | None) -> str:
    """Find what to do about an error of the system that an error was raised from.

    Args:
        error: which a command ends with, or which a fault was found by.

    Returns:
        A few words, or nothing: nothing is known, or the system is not the cause.

    """
    cause = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "is the name right, and does this machine ask a name server?"
        if isinstance(cause, HandshakeTimeoutError):
            return _OTHER_KEY if cause.answered else _SILENCE
        if isinstance(cause, HandshakeFailedError):
            return _OTHER_KEY
        if isinstance(cause, TimeoutError):
            return _SILENCE
        if isinstance(cause, OSError) and cause.errno is not None:
            return _of(cause)
        cause = cause.__cause__
    return ""


def of_file(error: OSError) -> str:
    """Return the file that the system refused, as far as the error names it, and why."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def of_pem(error: OSError | ValueError) -> str:
    """Return what is wrong with a file of certificates or keys.

    Args:
        error: of reading it, or of OpenSSL, which names a line of its own source.

    """
    if hasattr(error, "library"):  # `ssl.SSLError`, without loading all of ssl for it
        reason = getattr(error, "reason", None) or "no PEM that can be read"
        return str(reason).replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


def is_denied(error: BaseException | None) -> bool:
    """Return whether an error was raised since this user may not do what another one may."""
    while error is not None:
        if isinstance(error, PermissionError):
            return True
        error = error.__cause__
    return False


def _of(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM) and isinstance(error.filename, str):
        return f"it is {_owner(Path(error.filename))}'s: repeat this as that user, or with sudo"
    return _OF.get(error.errno or 0, "")


def _owner(path: Path) -> str:
    """Return whose a file is, or the nearest folder above it that can be seen."""
    for each in (path.absolute(), *path.absolute().parents):
        try:
            return each.owner()
        except KeyError:
            return f"user {each.stat().st_uid}"
        except OSError:
            continue
    return "root"
