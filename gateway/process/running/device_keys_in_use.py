"""Makes and revokes keys of devices, and has a running gateway go by that at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from dtls.keystore import Keystore
from gateway.process.access.device_keys import (
    DeviceKeyError,
    DeviceKeyFile,
    DeviceKeys,
    KnownDevice,
    new_key,
)
from gateway.process.access.whole_change import WholeChanges
from gateway.process.running.access_in_use import AccessInUse


class DeviceKeysInUse:
    """Has the deeds.

    Args:
        state_dir: the gateway's state folder.
        access: by which the gateway goes.
        uri: where devices reach the gateway over DTLS; empty where they do not.

    Attributes:
        uri: as given.

    """

    def __init__(self, state_dir: Path, access: AccessInUse, uri: str) -> None:
        self.uri = uri
        self._file = DeviceKeyFile(state_dir)
        self._access = access
        self._changes = WholeChanges()
        self._changing = asyncio.Lock()

    def known(self) -> Sequence[KnownDevice]:
        """Return who has a key that counts."""
        return self._access.devices.known(self._access.files.keystore)

    async def make(self, identity: str, check: Callable[[], None]) -> bytes:
        """Make a key for a device, which may come at once.

        Args:
            identity: of the device, which has no key.
            check: called when the change has its turn; it raises what keeps this from being done.

        Returns:
            The key, which nobody is told again.

        Raises:
            KeystoreError: the identity can't be one.
            DeviceKeyError: it has a key, there are too many, or no device can come over DTLS.
            OSError: it can't be kept.

        """
        if not self.uri:
            raise DeviceKeyError(
                "CoAP over DTLS is off: set coap.psk_file, which may be an empty file, and restart"
            )
        key = new_key()
        await self._changes.carry_out(
            self._change(
                lambda: self._access.devices.with_key(identity, key, self._configured), check
            )
        )
        return key

    async def revoke(self, identity: str, check: Callable[[], None]) -> None:
        """Let nobody in by an identity's key any more; a session that it opened ends.

        Args:
            identity: whose.
            check: as of `make`.

        Raises:
            NoDeviceKeyError: it has none.
            DeviceKeyError: there is no room for further revocations.
            OSError: that can't be kept.

        """
        await self._changes.carry_out(
            self._change(lambda: self._access.devices.without(identity, self._configured), check)
        )

    @property
    def _configured(self) -> Keystore:
        return self._access.files.keystore

    async def _change(self, change: Callable[[], DeviceKeys], check: Callable[[], None]) -> None:
        async with self._changing:
            check()
            devices = change()
            await asyncio.to_thread(self._file.write, devices)
            self._access.go_by_devices(devices)
