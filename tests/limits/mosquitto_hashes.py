"""Lines of password files as `mosquitto_passwd` makes them, of a hash that is computed at once."""

from __future__ import annotations

import base64
import hashlib

SALT = b"salt of a test"


def pbkdf2_line(user: str, password: bytes) -> str:
    """A user with PBKDF2 of one iteration: connecting costs the gateway next to nothing."""
    made = hashlib.pbkdf2_hmac("sha512", password, SALT, 1)
    salt, hashed = (base64.b64encode(part).decode() for part in (SALT, made))
    return f"{user}:$7$1${salt}${hashed}"
