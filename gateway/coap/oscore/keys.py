"""Keys of OSCORE contexts, from a file (RFC 8613, section 3.2).

TOML, a table for each device; all values but names are hexadecimal:

    [thermometer]
    master_secret = "0102030405060708090a0b0c0d0e0f10"
    master_salt = "9e7ca92223786340"    # none unless the device has one
    sender_id = "01"                    # ours; the device has it as its Recipient ID
    recipient_id = "02"                 # the device's Sender ID
    id_context = "37cbf3210017a2d3"     # none unless the device sends one
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from dtls import private_file
from dtls.byte_order_mark import text_of
from light_dataclasses import dataclass

SECRET_BYTES_MIN = 16
ID_BYTES_MAX = 7
"""The room for an id in the nonce of AES-CCM-16-64-128 (section 3.3)."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_FIELDS = ("master_secret", "master_salt", "sender_id", "recipient_id", "id_context")


class OscoreKeysError(ValueError):
    """A file of contexts is not usable: ``str(error)`` is one line, without a secret in it."""


@dataclass(frozen=True, slots=True)
class OscoreKeys:
    """One context.

    Attributes:
        name: the device's, by which it is known to access rules.
        master_secret: shared with it.
        sender_id: ours.
        recipient_id: its.
        master_salt: shared with it; may be empty.
        id_context: what it sends as kid context; None for none.

    """

    name: str
    master_secret: bytes = field(repr=False)
    sender_id: bytes
    recipient_id: bytes
    master_salt: bytes = field(default=b"", repr=False)
    id_context: bytes | None = None

    @property
    def known_by(self) -> tuple[bytes, bytes | None]:
        """Return what a request names: kid and kid context."""
        return self.recipient_id, self.id_context


def load(path: Path) -> list[OscoreKeys]:
    """Read a file of contexts.

    Raises:
        OscoreKeysError: it can't be read, others can read it, or a value is wrong: the device and
            the field are named.

    """
    try:
        tables = tomllib.loads(text_of(private_file.read(path)))
    except OSError as error:
        raise OscoreKeysError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:  # of TOML, or no UTF-8
        raise OscoreKeysError(f"{path}: {error}") from error
    found = [_keys(path, name, table) for name, table in tables.items()]
    known: dict[tuple[bytes, bytes | None], str] = {}
    for keys in found:
        other = known.setdefault(keys.known_by, keys.name)
        if other != keys.name:
            why = f"{keys.name}.recipient_id: the same as that of {other}"
            raise OscoreKeysError(f"{path}: {why}")
    return found


def _keys(path: Path, name: str, table: Any) -> OscoreKeys:
    if not isinstance(table, Mapping) or not _NAME.fullmatch(name):
        raise OscoreKeysError(f"{path}: {name[:40]!r} is no table of a device")
    for key in table:
        if key not in _FIELDS:
            raise OscoreKeysError(f"{path}: {name}.{key}: no such key")
    values = {key: _bytes(path, f"{name}.{key}", value) for key, value in table.items()}
    for key in ("master_secret", "sender_id", "recipient_id"):
        if key not in values:
            raise OscoreKeysError(f"{path}: {name}.{key}: missing")
    for key in ("sender_id", "recipient_id"):
        if len(values[key]) > ID_BYTES_MAX:
            raise OscoreKeysError(f"{path}: {name}.{key}: longer than {ID_BYTES_MAX} bytes")
    if values["sender_id"] == values["recipient_id"]:
        raise OscoreKeysError(f"{path}: {name}.recipient_id: the same as sender_id")
    if len(values["master_secret"]) < SECRET_BYTES_MIN:
        raise OscoreKeysError(
            f"{path}: {name}.master_secret: shorter than {SECRET_BYTES_MIN} bytes"
        )
    return OscoreKeys(name, **values)


def _bytes(path: Path, where: str, value: Any) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise OscoreKeysError(f"{path}: {where}: not hexadecimal") from None
