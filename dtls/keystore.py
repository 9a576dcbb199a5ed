"""Pre-shared keys by identity.

The file has a line ``identity:key`` for each peer, the key in hexadecimal; an empty line or one
that starts with ``#`` is skipped. The last colon separates, so a URN can be an identity. Others
must not be able to read it (`private_file`).

Keys are looked up, never compared, by this code: who holds a key shows it in the handshake.
An identity is no secret, it travels in clear text (RFC 4279, section 2).
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from dtls import private_file
from dtls.byte_order_mark import why_utf_16
from dtls.errors import KeystoreError

KEY_BYTES_MIN = 16
"""A shorter key can be guessed from a recorded handshake (RFC 4279, section 7.2)."""
KEY_BYTES_MAX = 64
"""Every implementation takes keys up to this length (RFC 4279, section 5.3)."""
_IDENTITY = re.compile(r"[!-~]{1,128}")  # RFC 4279, section 5.3: up to 128 octets


class Keystore:
    """Keys of the peers that may connect.

    Args:
        keys: key by identity.

    Raises:
        KeystoreError: an identity or the length of a key is not allowed.

    """

    def __init__(self, keys: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._keys: dict[bytes, bytes] = {}
        for number, (identity, key) in enumerate(keys.items(), 1):
            _check(identity, key, "keys", number)
            self._keys[identity.encode()] = key

    def key_of(self, identity: bytes) -> bytes | None:
        """Return the key of an identity as it came from the wire; None if it is not known."""
        return self._keys.get(identity)

    def has_same(self, identity: bytes, other: Keystore) -> bool:
        """Return whether an identity has a key here, and the same one in another reading."""
        one, two = self.key_of(identity), other.key_of(identity)
        return one is not None and two is not None and hmac.compare_digest(one, two)

    def identities(self) -> Iterable[str]:
        """Return all identities, in the order of the file."""
        return [identity.decode() for identity in self._keys]

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"Keystore({len(self)} keys)"

    def encode(self) -> str:
        """Return the file's text. It holds the keys: for `write` only, never for a log."""
        return "".join(f"{i.decode()}:{key.hex()}\n" for i, key in self._keys.items())

    def write(self, path: Path) -> None:
        """Write a new file that its owner alone can read.

        Raises:
            KeystoreError: the file exists already, or can't be written.

        """
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(self.encode())
        except OSError as error:
            raise KeystoreError(str(path), None, error.strerror or str(error)) from error


def parse(text: str, source: str) -> Keystore:
    """Read the text of a key file; ``source`` names it in errors.

    Raises:
        KeystoreError: with the first line at fault, all others and never the key.

    """
    keys: dict[str, bytes] = {}
    faults: list[KeystoreError] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            identity, key = _entry(line, source, number)
            if identity in keys:
                raise KeystoreError(source, number, f"identity {identity!r} stands here twice")
        except KeystoreError as error:
            faults.append(error)
        else:
            keys[identity] = key
    for first in (others := iter(faults)):
        raise KeystoreError(source, first.line, first.what, others)
    return Keystore(keys)


def _entry(line: str, source: str, number: int) -> tuple[str, bytes]:
    identity, colon, key_hex = line.rpartition(":")
    if not colon:
        raise KeystoreError(source, number, "no colon between identity and key")
    try:
        key = bytes.fromhex(key_hex)
    except ValueError:
        # The cause would show a piece of the key.
        raise KeystoreError(source, number, "the key is not hexadecimal") from None
    _check(identity, key, source, number)
    return identity, key


def load(path: Path) -> Keystore:
    """Read a key file.

    Raises:
        KeystoreError: missing, readable by others, or a line is wrong.

    """
    try:
        data = private_file.read(path)
    except OSError as error:
        raise KeystoreError(str(path), None, error.strerror or str(error)) from error
    if why := why_utf_16(data):
        raise KeystoreError(str(path), None, why)
    try:
        text = data.decode("utf-8-sig")  # an editor may put a mark before it
    except UnicodeDecodeError:
        raise KeystoreError(str(path), None, "not a text file") from None
    return parse(text, str(path))


def _check(identity: str, key: bytes, source: str, number: int) -> None:
    if not _IDENTITY.fullmatch(identity) or identity.startswith("#"):
        raise KeystoreError(source, number, f"identity {identity[:40]!r}: 1 to 128 of '!' to '~'")
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        allowed = f"{KEY_BYTES_MIN} to {KEY_BYTES_MAX}"
        raise KeystoreError(source, number, f"a key of {len(key)} bytes; {allowed} are allowed")
