"""Signatures on a node: what seals its batches, who checks those of others, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.node.links.node import TreeNode
from gateway.node.links.part import Unheeded
from gateway.node.signing.quarantine import Quarantine
from gateway.node.signing.revocation_part import RevocationPart
from gateway.node.signing.revocations import Revocations
from gateway.node.signing.revoking import Revoking
from gateway.node.signing.topics import CERTIFICATES
from tree_handler.batch import Entry, Header
from tree_handler.proof import Verdict
from tree_handler.remote.seals import RemoteSeals
from tree_handler.replication.actions import Refuse
from tree_handler.retained.sync_state import RefusedRetained
from tree_handler.seal import Seals

if TYPE_CHECKING:
    from gateway.node.signing.certificate_part import CertificatePart
    from gateway.node.signing.fleet_keys import FleetKeys, SigningFiles
    from gateway.node.signing.life_proof import LifeProof


class FleetProof:
    """The signatures of one gateway or collector.

    Args:
        files: what it signs and checks with; None where signatures are off: it makes none then,
            and asks for none.
        folder: its state.
        tree: the tree's name.
        revocations: the revocation lists that it has.

    Attributes:
        keys: signs, and knows the keys of all; None where signatures are off.
        seals: of its batches; None there too.
        remote_seals: of the requests that it lets in for others, and of answers; None there too.
        revocations: as given, or those of the folder.

    Raises:
        OSError: a file of the folder can't be read now.

    """

    def __init__(
        self,
        files: SigningFiles | None,
        folder: Path,
        tree: str,
        revocations: Revocations | None = None,
    ) -> None:
        self.keys = keys = None if files is None else _keys_of(files, folder)
        self.seals = None if keys is None else Seals(keys, keys.ring, tree)
        self.remote_seals = None if keys is None else RemoteSeals(keys, keys.ring, tree)
        self._quarantine = Quarantine(folder)
        self.revocations = revocations or Revocations(folder)
        self._part: CertificatePart | None = None
        self._revocation_part: RevocationPart | None = None
        self._tell_revoked: Callable[[str], None] | None = None
        self._revoked_by = ""
        self._lives: LifeProof | None = None

    def ride_on(
        self, node: TreeNode, own_id: str, epoch: int, revoking: Revoking | None = None
    ) -> None:
        """Spread certificates and revocations over a node's links; to be called before any is up.

        Args:
            node: the gateway's part in the tree.
            own_id: its id.
            epoch: its boot epoch.
            revoking: whose revocation lists count; nobody's if it is not given.

        """
        self.revocations.follow(revoking or Revoking())
        now = asyncio.get_running_loop().time
        self._revocation_part = RevocationPart(node, self.revocations, self._revoked, now)
        node.add_part(self._revocation_part)
        if self.keys is None:
            node.add_part(Unheeded(CERTIFICATES))
            return
        from gateway.node.signing.certificate_part import CertificatePart  # noqa: PLC0415  # with keys alone
        from gateway.node.signing.life_proof import LifeProof  # noqa: PLC0415  # as above

        def publish(topic: str, payload: bytes) -> None:
            node.publish(Entry(topic, payload), control=True)

        self.keys.begin(own_id, epoch)
        self._lives = LifeProof(own_id, epoch, publish, now)
        self._part = CertificatePart(node, self.keys, now)
        node.add_part(self._part)

    def __contains__(self, gateway_id: object) -> bool:
        """Return whether a gateway has shown a certificate of the fleet, even if long gone."""
        return (
            self.keys is not None
            and isinstance(gateway_id, str)
            and self.keys.ring.knows(gateway_id)
        )

    def only_receives(self, gateway_id: str) -> bool:
        """Return whether it is a collector, as its certificates say."""
        return self.keys is not None and self.keys.ring.only_receives(gateway_id)

    def is_there(self, gateway_id: str, epoch: int) -> bool:
        """Return whether neighbours say that a life is in the tree: see `NodeReceiver`."""
        return self._lives is None or self._lives.is_there(gateway_id, epoch)

    def receive(self, entry: Entry, header: Header) -> None:
        """Take a message between gateways; most are not this module's."""
        if self._lives is not None:
            self._lives.receive(entry, header)

    def unproven(self, refuse: Refuse, peer_id: str) -> None:
        """A batch was refused that this neighbour handed over: a part of `NodeReceiver`."""
        self._quarantine.take(refuse, peer_id)
        if refuse.verdict is Verdict.UNKNOWN and refuse.link is not None and self._part is not None:
            self._part.unknown(refuse.header.origin, refuse.link)

    def unproven_retained(self, refused: RefusedRetained, peer_id: str) -> None:
        """A retained message was refused that this neighbour told of."""
        self._quarantine.take_retained(refused, peer_id)
        if refused.verdict is Verdict.UNKNOWN and self._part is not None:
            self._part.unknown(refused.retained.version.origin, refused.link)

    def tells_of_revocations(self, tell: Callable[[str], None]) -> None:
        """From now on call this with the neighbour's id when a list of one's is new here.

        It is called at once if that has happened before.
        """
        self._tell_revoked = tell
        if self._revoked_by:
            tell(self._revoked_by)

    def _revoked(self, peer_id: str) -> None:
        self._revoked_by = peer_id
        if self._tell_revoked is not None:
            self._tell_revoked(peer_id)

    def renew(self, files: SigningFiles | None, revoking: Revoking) -> None:
        """The files were read again."""
        is_new = self.revocations.follow(revoking)
        if is_new and self._revocation_part is not None:
            self._revocation_part.announce()
        if self.keys is not None and files is not None:
            self.keys.renew(files)
            if self._part is not None:
                self._part.renewed()

    def close(self) -> None:
        """Keep what is known of others."""
        self.revocations.save()
        if self.keys is not None:
            self.keys.save()


def _keys_of(files: SigningFiles, folder: Path) -> FleetKeys:
    from gateway.node.signing.fleet_keys import FleetKeys  # noqa: PLC0415  # X.509 takes a while to load

    return FleetKeys(files, folder)
