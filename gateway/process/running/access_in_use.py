"""The files of access by which a running gateway goes, on all its faces, and who is out by them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.broker.access.passwords import Passwords
from gateway.broker.broker import GatewayBroker
from gateway.coap.oscore.devices import OscoreDevices
from gateway.coap.server import CoapServer
from gateway.node.links.node import TreeNode
from gateway.node.signing.fleet_proof import FleetProof
from gateway.process.access import files as access_files
from gateway.process.access.device_keys import DeviceKeys
from gateway.process.access.files import AccessFiles
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.running import state
from gateway.process.running.console_part import ConsolePart
from gateway.process.running.page_part import PagePart
from gateway.trust.certificates.expiry import ExpiryWatch
from light_dataclasses import dataclass

RETRY_S = 10.0
"""After a file was found unusable while a revocation waits for it."""
NOTE_AGAIN_S = 300.0
"""After something could not be noted or kept."""
_REVOCATION, _KEEPING, _AUDIT = "revocation", "keeping of revocation lists", "audit trail"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Faces:
    """The parts by which a gateway meets others; each goes by what it was given last."""

    node: TreeNode
    proof: FleetProof
    broker: GatewayBroker
    coap: CoapServer
    oscore: OscoreDevices
    console: ConsolePart
    page: PagePart
    expiry: ExpiryWatch


class AccessInUse:
    """Has all faces of a gateway go by the same files, and by the newest revocation lists.

    Args:
        settings: of the gateway.
        files: by which the faces go.
        faces: of the gateway.
        devices: keys that were made, and that were revoked, while the gateway ran.
        tell: called with what does not work now, and why; with nothing for why when it does.

    Attributes:
        files: as given, or as last followed.
        devices: likewise.

    """

    def __init__(
        self,
        settings: GatewaySettings,
        files: AccessFiles,
        faces: Faces,
        devices: DeviceKeys,
        tell: Callable[[str, str], None] = lambda what, why: None,
    ) -> None:
        self.files = files
        self.devices = devices
        self._tell = tell
        self._settings = settings
        self._faces = faces
        self._retry: asyncio.TimerHandle | None = None
        self._noting = threading.Lock()
        self._notes: set[asyncio.Task[None]] = set()
        self._later: asyncio.Task[None] | None = None
        self._unnoted_by = ""
        faces.proof.tells_of_revocations(self.revoked)

    def follow(self, settings: GatewaySettings, files: AccessFiles) -> None:
        """Go by other files from now on; those who are out by them are disconnected."""
        self._settings, self.files, faces = settings, files, self._faces
        faces.broker.revise(files.broker)
        faces.expiry.follow(files.expiring)
        faces.proof.renew(files.signing, files.revoking)
        faces.node.reseal()  # behind the certificates, which go ahead of it on the links
        self._renew_coap()
        faces.console.follow(files)
        faces.page.follow(files)
        for gateway_id in faces.node.admission.renew(files.links):
            faces.node.drop(gateway_id, "its certificate is no longer accepted")

    @property
    def password_file(self) -> Path | None:
        """Return the file of the users' passwords; None where nobody has one."""
        return self._settings.access.password_file

    def go_by_passwords(self, passwords: Passwords) -> None:
        """Go by other passwords of users, whatever other files say now; who is out is out at once.

        Args:
            passwords: those of `password_file`, as it is now.

        """
        faces, broker = self._faces, replace(self.files.broker, passwords=passwords)
        self.files = replace(self.files, broker=broker)
        faces.broker.revise(broker)
        faces.console.follow(self.files)
        faces.page.follow(self.files)

    def go_by_devices(self, devices: DeviceKeys) -> None:
        """Go by other keys of devices, whatever files say now; who is out is disconnected."""
        self.devices = devices
        self._renew_coap()

    def _renew_coap(self) -> None:
        files, faces = self.files, self._faces
        keys = self.devices.over(files.keystore)
        faces.coap.renew(keys, files.coap_tls, files.policy, faces.oscore.contexts)

    def revoked(self, peer_id: str) -> None:
        """Go by the lists that there are now, one of which a neighbour has handed over."""
        self._wait_no_more()
        # Not in the midst of what a link was read.
        self._retry = asyncio.get_running_loop().call_later(0, self._obey, peer_id)

    def look_again(self) -> None:
        """Read certificates again: the clock is another one, or something has ended by it."""
        self.revoked("the clock")

    def _obey(self, peer_id: str) -> None:
        # Before all else: whatever fails, a revocation is not forgotten for that.
        self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._obey, peer_id)
        if self._goes_by_lists(peer_id):
            self._wait_no_more()

    def _goes_by_lists(self, peer_id: str) -> bool:
        lists = self._faces.proof.revocations.lists
        try:
            files = access_files.with_lists(self._settings, self.files, lists)
        except (ConfigError, OSError) as error:
            what = "certificates can't be read, and what counts by %s waits for them: %s"
            _log.error(what, peer_id, error)
            self._tell(_REVOCATION, str(error))
            return False
        self._tell(_REVOCATION, "")
        if _has_fewer_lists(files, self.files):
            # By the clock. One that is set wrong must let nobody in whom a list keeps out.
            _log.error("revocation lists have ended and are not renewed: they count all the same")
            self._faces.expiry.follow(self.files.expiring)
            return True
        self.follow(self._settings, files)
        self._begin(self.note(peer_id))
        return True

    async def note(self, who: str) -> None:
        """Have what has changed in the audit trail, and lists on the disk.

        What can't be written is tried again, while others go on: all of it at once, as made by who
        came last.

        Args:
            who: made it read: ``start``, ``reload``, a neighbour or the clock.

        """
        if not await asyncio.to_thread(self._note, who):
            self._unnoted_by = who
            if self._later is None or self._later.done():
                self._later = self._begin(self._note_later())

    async def _note_later(self) -> None:
        while self._unnoted_by:
            await asyncio.sleep(NOTE_AGAIN_S)
            who, self._unnoted_by = self._unnoted_by, ""
            if not await asyncio.to_thread(self._note, who):
                self._unnoted_by = self._unnoted_by or who

    def _begin(self, noting: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(noting, name="audit")
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
        return task

    def _note(self, who: str) -> bool:
        """Note it, and return whether all is: waits for the disk, in any thread."""
        self._tell(_KEEPING, unkept := self._faces.proof.revocations.save())
        with self._noting:  # a reload and a neighbour's list may come together
            self._tell(_AUDIT, unnoted := state.note_access(self._settings, who))
        return not unkept and not unnoted

    def close(self) -> None:
        """Wait for nothing any more."""
        self._wait_no_more()
        for task in self._notes:
            task.cancel()

    def _wait_no_more(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None


def _has_fewer_lists(files: AccessFiles, before: AccessFiles) -> bool:
    """Return whether certificates would be held against fewer revocation lists on any face."""
    faces = (
        (files.broker.tls, before.broker.tls),
        (files.coap_tls, before.coap_tls),
        (files.console_tls, before.console_tls),
    )
    return any(
        now is not None and then is not None and len(now.revoked) < len(then.revoked)
        for now, then in faces
    )
