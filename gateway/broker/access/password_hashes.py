"""The hashes of passwords that a password file may hold, and whether a password has made one.

======================  ==========================================================================
``$argon2id$...``       argon2 (RFC 9106) in the PHC string format; also ``argon2i`` and ``argon2d``
``$7$N$SALT$HASH``      PBKDF2 with HMAC-SHA-512 (RFC 8018, section 5.2) of N iterations, which
                        mosquitto_passwd makes
``$6$SALT$HASH``        one SHA-512 of password and salt, which that of Mosquitto 1.6 and earlier
                        made: guessed fast where the file is lost. It is not crypt's ``$6$``.
======================  ==========================================================================

Mosquitto's salts and hashes are in base64, the hash of 64 bytes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

_ARGON2 = re.compile(
    r"\$argon2(?:id|i|d)\$v=19"
    r"\$m=[1-9][0-9]{0,9},t=[1-9][0-9]{0,9},p=[1-9][0-9]{0,7}"
    r"\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{16,}"
)
_MOSQUITTO = re.compile(
    r"\$(?:6|7\$(?P<iterations>[1-9][0-9]{0,7}))"
    r"\$(?P<salt>[A-Za-z0-9+/]{2,}={0,2})\$(?P<hash>[A-Za-z0-9+/]{86}==)"
)


def is_known(encoded: str) -> bool:
    """Return whether a hash is of a form that can be checked."""
    if _ARGON2.fullmatch(encoded) is not None:
        return True
    found = _MOSQUITTO.fullmatch(encoded)
    return found is not None and len(found["salt"]) % 4 == 0


def matches(encoded: str, password: bytes) -> bool:
    """Return whether a password has made a hash; compared in constant time.

    Args:
        encoded: one that `is_known`.
        password: computing takes as long, and as much memory, as the hash was made to.

    """
    found = _MOSQUITTO.fullmatch(encoded)
    if found is None:
        return _is_argon2_of(encoded, password)
    salt, expected = [base64.b64decode(found[name]) for name in ("salt", "hash")]
    if found["iterations"] is None:
        computed = hashlib.sha512(password + salt).digest()
    else:
        computed = hashlib.pbkdf2_hmac("sha512", password, salt, int(found["iterations"]))
    return hmac.compare_digest(computed, expected)


def _is_argon2_of(encoded: str, password: bytes) -> bool:
    from argon2 import PasswordHasher  # noqa: PLC0415  # where somebody has a password
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415  # as above

    try:
        return bool(PasswordHasher().verify(encoded, password))
    except (VerificationError, InvalidHashError):
        return False
