"""Announcements of a gateway to its neighbours: BPDUs, numbered and filled in."""

from __future__ import annotations

from tree_handler.spanning.actions import Send, SpanningAction
from tree_handler.spanning.bpdu import NO_FLAGS, UNREACHABLE_MS, Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Identity, Root
from tree_handler.spanning.feasibility import Distance
from tree_handler.spanning.neighbour import Neighbour
from tree_handler.spanning.place import TreePosition


class Announcer:
    """Makes the BPDUs of one gateway.

    Args:
        identity: the sender.
        place: what it says of itself.
        actions: where what is to be sent is appended.

    """

    def __init__(
        self, identity: Identity, place: TreePosition, actions: list[SpanningAction]
    ) -> None:
        self._identity = identity
        self._place = place
        self._actions = actions
        self.number = 0
        """Of the last BPDU."""

    def hello(
        self, neighbour: Neighbour, distance: Distance, *, seeking: bool, agrees: bool
    ) -> None:
        """Announce the distance to a neighbour."""
        place = self._place
        flags = BpduFlags.TRANSIT if self._identity.transit else NO_FLAGS
        if seeking:
            flags |= BpduFlags.SEEKING
        if agrees:
            flags |= BpduFlags.AGREEMENT
        parent = "" if place.parent is None else place.parent.peer_id
        self.number += 1
        own = self._identity
        hello = Bpdu(
            Kind.HELLO,
            self.number,
            own.gateway_id,
            own.boot_epoch,
            own.capability,
            place.root,
            distance.sequence,
            distance.cost_ms,
            place.hops,
            parent,
            flags,
        )
        self._send(neighbour, hello)

    def say(self, neighbour: Neighbour, kind: Kind, answers: int) -> int:
        """Send one of the kinds that make or end an agreement; returns its number."""
        place = self._place
        return self._send(
            neighbour, self._bpdu(kind, place.root, place.feasibility_distance, answers)
        )

    def request(self, neighbour: Neighbour, root: Root, sequence: int) -> None:
        """Ask for a sequence newer than ``sequence``, once."""
        if neighbour.requested != (root, sequence):
            neighbour.requested = (root, sequence)
            wanted = Distance(root.boot_epoch, sequence, UNREACHABLE_MS)
            self._send(neighbour, self._bpdu(Kind.SEQUENCE_REQUEST, root, wanted, 0))

    def _bpdu(self, kind: Kind, root: Root, distance: Distance, answers: int) -> Bpdu:
        self.number += 1
        identity = self._identity
        return Bpdu(
            kind,
            self.number,
            identity.gateway_id,
            identity.boot_epoch,
            identity.capability,
            root,
            distance.sequence,
            distance.cost_ms,
            answers=answers,
        )

    def _send(self, neighbour: Neighbour, bpdu: Bpdu) -> int:
        self._actions.append(Send(neighbour.link, bpdu))
        return bpdu.number
