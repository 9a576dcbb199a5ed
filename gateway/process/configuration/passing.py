"""Faults of a start that may pass by themselves: the same configuration may start later.

Whoever starts a gateway has to tell two things apart. A field that is wrong stays wrong until
somebody mends it: to try again is for nothing. A disk that is full, an address that is still in use
or that this machine does not have yet, a name that nobody resolves yet, a sensor's device that is
not there yet: those pass.
"""

from __future__ import annotations

import errno
import socket
import sqlite3

_PASSING = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOBUFS,
        errno.EAGAIN,
        errno.EINTR,
        errno.EADDRINUSE,
        errno.EADDRNOTAVAIL,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENODEV,
        errno.ENXIO,
        errno.EBUSY,
        errno.ETIMEDOUT,
    )
)


def may_pass(error: BaseException) -> bool:
    """Return whether an error comes of what may be another way in a moment.

    Args:
        error: as it was raised: what it was raised from says it, as far back as that goes.

    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, socket.gaierror | sqlite3.OperationalError):
            return True
        if isinstance(seen, OSError) and (seen.errno in _PASSING or _is_of_a_device(seen)):
            return True
        seen = seen.__cause__
    return False


def _is_of_a_device(error: OSError) -> bool:
    """Return whether it is of a device, which may come, or be given to this user, in a moment."""
    return isinstance(error.filename, str) and error.filename.startswith(("/dev/", "/sys/"))
