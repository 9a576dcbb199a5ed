"""Keys of devices that were made, and keys that were revoked, while a gateway ran.

A gateway that is a service may write its state folder alone: ``coap.psk_file`` is an operator's, or
comes as one of systemd's credentials. So both stand in a file of the state folder. A revocation is
of one key, by its digest: whoever gives the identity another key lets its device in again, and a
file that is put back does not.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from dtls.errors import KeystoreError
from dtls.keystore import Keystore
from gateway.base.kept_file import KeptFile
from light_dataclasses import dataclass

FILE_NAME: Final = "device_keys.json"
VERSION: Final = 1
"""The version of the file's format."""
WITHOUT: Final = (
    "keys of devices that were made at the page are gone: make them again; keys of coap.psk_file "
    "that were revoked there count again: take them out of that file"
)
KEY_BYTES: Final = 32
MADE_MAX: Final = 1_000
REVOKED_MAX: Final = 4_000
"""Keys of `coap.psk_file` that are revoked."""


class DeviceKeyError(ValueError):
    """A key can't be made or revoked as things are; the message says why."""


class NoDeviceKeyError(DeviceKeyError):
    """An identity has no key."""


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """An identity that has a key.

    Attributes:
        identity: of the device.
        is_made: its key was made while the gateway ran; else it stands in ``coap.psk_file``.

    """

    identity: str
    is_made: bool


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """Keys that were made and revoked. It never changes: a change returns another one.

    Attributes:
        made: a key by its identity.
        revoked: digests of keys of ``coap.psk_file`` that count no more, by identity.

    """

    made: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    revoked: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def over(self, configured: Keystore) -> Keystore:
        """Return the keys that count.

        Args:
            configured: those of ``coap.psk_file``, which go before what was made here.

        """
        keys = dict(self.made)
        for identity in configured.identities():
            key = configured.key_of(identity.encode())
            if key is not None and _digest(key) not in self.revoked.get(identity, ()):
                keys[identity] = key
        return Keystore(keys)

    def known(self, configured: Keystore) -> list[KnownDevice]:
        """Return who has a key that counts, in the order of names."""
        counting = self.over(configured)
        return [
            KnownDevice(one, not configured.has_same(one.encode(), counting))
            for one in sorted(counting.identities())
        ]

    def with_key(self, identity: str, key: bytes, configured: Keystore) -> DeviceKeys:
        """Return what there is with one more key.

        Raises:
            KeystoreError: the identity can't be one.
            DeviceKeyError: it has a key, or there are too many.

        """
        Keystore({identity: key})  # whether it can be one
        if self.over(configured).key_of(identity.encode()) is not None:
            raise DeviceKeyError(f"{identity!r} has a key: revoke that before")
        if len(self.made) >= MADE_MAX:
            raise DeviceKeyError(f"{MADE_MAX} keys are made already: revoke those of no use")
        return DeviceKeys({**self.made, identity: key}, self.revoked)

    def without(self, identity: str, configured: Keystore) -> DeviceKeys:
        """Return what there is when an identity has no key.

        Raises:
            NoDeviceKeyError: it has none.
            DeviceKeyError: there is no room for further revocations.

        """
        if self.over(configured).key_of(identity.encode()) is None:
            raise NoDeviceKeyError(f"{identity!r} has no key")
        made = {one: key for one, key in self.made.items() if one != identity}
        key = configured.key_of(identity.encode())
        digests = self.revoked.get(identity, ())
        if key is None or _digest(key) in digests:
            return DeviceKeys(made, self.revoked)
        if sum(map(len, self.revoked.values())) >= REVOKED_MAX:
            raise DeviceKeyError(
                f"{REVOKED_MAX} keys of coap.psk_file are revoked: take keys out of that file"
            )
        return DeviceKeys(made, {**self.revoked, identity: (*digests, _digest(key))})

    def encode(self) -> bytes:
        """Return the content of the file. It holds the keys: never for a log."""
        keys = {identity: key.hex() for identity, key in self.made.items()}
        told = {"version": VERSION, "keys": keys, "revoked": dict(self.revoked)}
        return json.dumps(told, indent=1).encode() + b"\n"


class DeviceKeyFile:
    """The file in which they stand.

    Args:
        state_dir: the gateway's state folder.

    """

    def __init__(self, state_dir: Path) -> None:
        self._file = KeptFile(state_dir / FILE_NAME, WITHOUT, is_durable=True)

    def recalled(self) -> DeviceKeys:
        """Return what was made and revoked before this start.

        Raises:
            OSError: it can't be read now.

        """
        return self._file.read(_decoded) or DeviceKeys()

    def write(self, keys: DeviceKeys) -> None:
        """Write them, so that they are there after a power cut.

        Raises:
            OSError: they can't be written, and what was there stands.

        """
        self._file.write(keys.encode())


def new_key() -> bytes:
    """Return a key that nobody knows."""
    return secrets.token_bytes(KEY_BYTES)


def _decoded(data: bytes) -> DeviceKeys:
    told = json.loads(data)
    if told["version"] != VERSION:
        raise ValueError(f"version {told['version']!r}, not {VERSION}")
    keys, revoked = told["keys"], told["revoked"]
    try:
        made = {str(identity): bytes.fromhex(key) for identity, key in keys.items()}
        Keystore(made)
    except (ValueError, TypeError, KeystoreError):
        # The cause would show a piece of a key.
        raise ValueError("no keys by identity") from None
    return DeviceKeys(made, {str(one): tuple(map(str, each)) for one, each in revoked.items()})


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
