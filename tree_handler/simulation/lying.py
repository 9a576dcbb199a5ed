"""Gateways of a fleet in which one lies: the honest ones, who sign and check, and the liar.

The liar has a key of its own, and all that is said to it. It takes part in the tree, and says to
its neighbours whatever may harm: that another gateway is root in a life that it never had, or it
itself, better and nearer than all; batches of others that those never made, or altered; that it has
what nobody has; that what is there is over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import Append
from tree_handler.replication.repair import SearchResult, Seek, Summary
from tree_handler.seal import Seals
from tree_handler.simulation.disk import Disk
from tree_handler.simulation.gateway import Start, WirePing
from tree_handler.simulation.model_keys import ModelRing, ModelSigner
from tree_handler.simulation.network import DATA, End
from tree_handler.simulation.replicating import ReplicatingGateway, WireBatch, Witness
from tree_handler.spanning.bpdu import Bpdu, BpduFlags, Kind
from tree_handler.spanning.election import Root

TREE = "simulated"
LIE_EVERY_S = 0.1


def sealing(gateway_id: str) -> Seals:
    """Return the seals of a gateway."""
    return Seals(ModelSigner(gateway_id), ModelRing(), TREE)


class SealedGateway(ReplicatingGateway):
    """An honest gateway: it seals what it makes, and takes only what is sealed."""

    def seals(self) -> Seals | None:
        """Return the seals of this gateway."""
        return sealing(self.gateway_id)

    def receive(self, end: End, message: object) -> None:
        """Take a message in, unless it names a root that has not said itself what it is."""
        seals = self.replication.settings.seals
        assert seals is not None
        if not isinstance(message, WirePing) or seals.is_candidate(message.bpdu.root):
            super().receive(end, message)

    def outlived(self, epoch: int) -> None:
        """Ignore what others say of its lives: see `_append`."""

    def _append(self, action: Append) -> None:
        super()._append(action)
        header = action.header
        if header.origin == self.gateway_id and header.epoch > self.boot_epoch:
            super().outlived(header.epoch)  # it alone can have sealed it, in a life that it lost


class LiarGateway(SealedGateway):
    """The one that lies.

    Args:
        start: see `Gateway`.
        disk: see `ReplicatingGateway`.
        traffic: likewise.
        chance: of what it says.

    """

    def __init__(self, start: Start, disk: Disk, traffic: Witness, chance: random.Random) -> None:
        super().__init__(start, disk, traffic)
        self._chance = chance
        self._number = 1 << 20
        self._lie_timer = self.timer(self._lie)
        self._lie_timer.set(self.now + LIE_EVERY_S)

    def take(self, end: End, message: object) -> None:
        """Answer a search with a lie: it is nowhere, and its origin was asked."""
        if isinstance(message, Seek):
            origins = frozenset(name.removeprefix("$") for name, _ in message.wanted)
            answer = SearchResult(message.number, message.wanted, origins, complete=True)
            self._network.send(end, answer, DATA)
        else:
            super().take(end, message)

    def _lie(self, now: float) -> None:
        for end in list(self.ends.values()):
            kind = self._chance.randrange(4)
            if kind == 0:
                self._network.send(end, WirePing(self._bpdu(end), now))
            elif kind == 1:
                self._network.send(end, self._summary(), DATA)
            else:
                frame = self._forged()
                repair = self._chance.random() < 0.5
                self._network.send(end, WireBatch(frame, repair), DATA)
        self._lie_timer.set(now + LIE_EVERY_S)

    def _others(self) -> Iterator[tuple[str, int]]:
        """Ids and lives of others, as far as the liar has heard of any."""
        for name, epoch in self.replication.have:
            if name.startswith("gw-") and name != self.gateway_id:
                yield name, epoch

    def _victim(self) -> tuple[str, int]:
        others = list(self._others())
        return self._chance.choice(others) if others else ("gw-0", 1)

    def _bpdu(self, end: End) -> Bpdu:
        chance = self._chance
        self._number += 1
        victim, epoch = self._victim()
        own = self.tree.identity.root
        peer = end.peer.host
        assert isinstance(peer, ReplicatingGateway)
        root = chance.choice(
            (
                Root(victim, min(MAX_BOOT_EPOCH, epoch + chance.randrange(1, 1 << 20)), 1e9, ""),
                sealing(self.gateway_id).stands(replace(self.tree.identity, capability=1e15)).root,
                peer.tree.identity.root,
            )
        )
        if not root.address:
            root = Root(root.gateway_id, root.boot_epoch, root.capability, own.address)
        return Bpdu(
            chance.choice((Kind.HELLO, Kind.HELLO, Kind.JOIN, Kind.ACCEPT, Kind.LEAVE)),
            self._number,
            self.gateway_id,
            self.boot_epoch,
            self.tree.identity.capability,
            root,
            sequence=chance.randrange(1 << 20),
            cost_ms=chance.randrange(3),
            hops=chance.randrange(3),
            parent=chance.choice(("", end.peer.host.gateway_id)),
            flags=BpduFlags.TRANSIT,
            answers=chance.randrange(8),
        )

    def _summary(self) -> Summary:
        chance = self._chance
        name, epoch = self._victim()
        stream = (chance.choice(("", "$")) + name, chance.choice((epoch, epoch + 1, 1)))
        last = chance.choice((1, 100, 1 << 40))
        has = {stream: Intervals([(1, last)])}
        return chance.choice(
            (
                Summary(has),
                Summary(has, {stream: last + 1}),
                Summary(over={stream[0]: Intervals([(1, MAX_BOOT_EPOCH)])}),
            )
        )

    def _forged(self) -> bytes:
        chance = self._chance
        origin, epoch = self._victim()
        epoch = chance.choice((epoch, epoch, epoch + 1, MAX_BOOT_EPOCH))
        known = self.replication.have.get((origin, epoch), Intervals())
        rows = [Entry("t", b"forged", 1).row()] * chance.randrange(1, 4)
        flags = chance.choice(
            (Flags.LOGGED, Flags.NONE, Flags.LOGGED | Flags.CONTROL, Flags.CONTROL)
        )
        seals = self.seals()
        assert seals is not None
        seal = chance.choice((None, seals.seal, lambda *_: b"\0" * 36 + b"\x24"))
        first = max(1, known.last + chance.randrange(-2, 50))
        if chance.random() < 0.2:
            last = first + chance.randrange(1 << 20)
            flags = Flags.PASSED | chance.choice((Flags.NONE, Flags.LOST))
            return batch.passed((origin, epoch), first, last, flags, seal)[0]
        made = batch.make(origin, epoch, first, rows, flags=flags, origin_time_us=0, seal=seal)
        return made[0]
