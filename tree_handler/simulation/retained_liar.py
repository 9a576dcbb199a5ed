"""One gateway lies about what is retained: what is checked of the honest ones.

Logs are trimmed and disks lost, so that neighbours fetch retained messages from each other; and
one of them, which has a key of its own, hands over what nobody wrote: messages and deletions in the
name of others, newer than all, unsigned, signed by itself, or with what proves something else. No
honest gateway may retain any of it, and in the end all that are in reach of each other retain the
same. The liar is turned off then, as a gateway whose certificate was revoked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import ClassVar

from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.sync_state import SendRetained
from tree_handler.retained.sync_wire import SyncKind, pack, unpack
from tree_handler.retained.versions import BUCKETS, HASH_BYTES
from tree_handler.seal import Seals
from tree_handler.simulation.gateway import MakeTree, Start
from tree_handler.simulation.liar import LIAR
from tree_handler.simulation.lying import sealing
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.report import Report
from tree_handler.simulation.retained import (
    TOPICS,
    RetainedOptions,
    RetainedSimulation,
    RetainedTraffic,
)
from tree_handler.simulation.retained_gateway import RetainedGateway, RetainedWitness
from tree_handler.simulation.retained_store import RetainedDisk
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.election import Identity
from tree_handler.spanning.spanning_tree import SpanningTree

LIES = 3
"""In an answer."""


class SealedRetainedGateway(RetainedGateway):
    """An honest gateway: it signs, and takes only what is proven."""

    def seals(self) -> Seals | None:
        """Return the seals of this gateway."""
        return sealing(self.gateway_id)


class RetainedLiar(SealedRetainedGateway):
    """The one that lies.

    Args:
        start: see `Gateway`.
        disk: see `RetainedGateway`.
        traffic: likewise.
        wall_us: likewise.
        chance: of what it says.

    """

    def __init__(
        self,
        start: Start,
        disk: RetainedDisk,
        traffic: RetainedWitness,
        wall_us: int,
        chance: random.Random,
    ) -> None:
        super().__init__(start, disk, traffic, wall_us)
        self._chance = chance

    def _tell(self, sends: Iterable[SendRetained]) -> None:
        super()._tell(SendRetained(one.link, self._bent(one.payload)) for one in sends)

    def _bent(self, payload: bytes) -> bytes:
        """Return a message about what it retains as it rather says it."""
        kind, *fields = unpack(payload)
        match kind:
            case SyncKind.ROOT:
                fields[0] = self._chance.randbytes(HASH_BYTES)
            case SyncKind.DIGEST:
                fields[0] = self._chance.randbytes(BUCKETS * HASH_BYTES)
            case SyncKind.ANSWER:
                lies = [self._lie(fields[1]) for _ in range(LIES)]
                fields[1] = (*fields[1], *(told.proven_row() for told in lies))
        return pack((kind, *fields))

    def _lie(self, rows: tuple[object, ...]) -> Retained:
        chance = self._chance
        lives = [life for life in self.replication.have if life[0].startswith("gw-")]
        origin, epoch = chance.choice(lives) if lives else ("gw-0", 1)
        at_us = self._wall_us + chance.randrange(-(1 << 30), 1 << 40)
        version = RetainedVersion(max(0, at_us), chance.randrange(4), origin, epoch)
        payload = chance.choice((b"", b"forged"))
        dead_s = None if payload else 0.0
        where = f"t/{chance.randrange(TOPICS)}", version, chance.randrange(200), 1
        told = Retained(*where, payload, {}, None, dead_s)
        true = [Retained.of(row) for row in rows]
        seals = self.seals()
        assert seals is not None
        (signed,) = seals.retained.prove([told])
        proofs = [b"", signed.proof, *(one.proof for one in true)]
        if true and chance.random() < 0.5:  # a true one, as if it were newer
            one = chance.choice(true)
            return replace(one, version=one.version._replace(physical_us=version.physical_us))
        return replace(told, proof=chance.choice(proofs))


class LiedRetainedTraffic(RetainedTraffic):
    """Writes of the honest gateways; see `RetainedTraffic`."""

    def gateway(self, start: Start) -> RetainedGateway:
        """Return a life of a gateway that seals its messages, or of the liar."""
        gateway_id = start.tree.identity.gateway_id
        disk, wall_us = self.disk(gateway_id), self.wall_us()
        if gateway_id == LIAR:
            return RetainedLiar(start, disk, self, wall_us, self.chance)
        return SealedRetainedGateway(start, disk, self, wall_us)

    def standing(self, identity: Identity) -> Identity:
        """Return the identity with a seal."""
        return sealing(identity.gateway_id).stands(identity)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let clients of an honest gateway do something."""
        if gateway.gateway_id != LIAR:
            super().clients_of(gateway)

    def given_as_news(self, gateway_id: str, told: Retained) -> None:
        """Check what clients of an honest gateway are given as news."""
        if gateway_id != LIAR:
            super().given_as_news(gateway_id, told)

    def _wrong(self, gateway: RetainedGateway, state: dict[str, RetainedVersion]) -> Iterator[str]:
        forged = [
            f"{gateway.gateway_id} retains {topic} {version}, which nobody wrote"
            for topic, version in gateway.store.versions.state().items()
            if version not in self.contents
        ]
        return iter(forged) if forged else super()._wrong(gateway, state)


class LiedRetainedSimulation(RetainedSimulation):
    """A simulation in which one gateway lies about retained messages."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = LiedRetainedTraffic

    def calm(self) -> Report:
        """Turn the liar off, then let the network find its peace."""
        self._identities.pop(LIAR, None)
        if (liar := self.gateways.pop(LIAR, None)) is not None:
            liar.stop(silently=False)
        self.network.edges = [edge for edge in self.network.edges if LIAR not in edge.ids]
        return super().calm()


class RetainedLiarOptions(RetainedOptions):
    """A run of a `LiedRetainedSimulation`."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        """Return ``retained-liar``."""
        return "retained-liar"

    def simulation(self, make_tree: MakeTree = SpanningTree) -> LiedRetainedSimulation:
        """Return a simulation of a liar about retained messages."""
        return LiedRetainedSimulation(self, make_tree)
