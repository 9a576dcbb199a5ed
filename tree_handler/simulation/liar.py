"""One gateway lies: what is checked of the honest ones (`hedgerow simulate --liar`).

While things break, as ever, one gateway says what it likes of the others (`lying`). The honest ones
must lose nothing, double nothing and keep each origin's order among each other, whatever it says;
no ring of honest gateways may ever be live. In the end the liar is turned off, as a gateway whose
certificate was revoked, and the others must find one tree and their peace as if it had never been.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from light_dataclasses import dataclass
from tree_handler.batch import Header
from tree_handler.replication.replication import Lost
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.gateway import Gateway, MakeTree, Start
from tree_handler.simulation.lying import LiarGateway, SealedGateway, sealing
from tree_handler.simulation.network import Network
from tree_handler.simulation.replicating import Receiver, ReplicatingGateway
from tree_handler.simulation.report import Report
from tree_handler.simulation.runs import Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic
from tree_handler.spanning.election import Identity
from tree_handler.spanning.spanning_tree import SpanningTree

LIAR = "gw-1"


class HonestChecks(Checks):
    """The invariants of honest gateways; those of the liar's own links are left out."""

    def found(self, invariant: int, what: str) -> None:
        """Note a violation, unless the liar itself is in the ring."""
        is_ring_of_liar = invariant == 1 and LIAR in what.split()
        if not is_ring_of_liar:
            super().found(invariant, what)


@dataclass(eq=False)
class LiedTraffic(SimulatedTraffic):
    """Messages of the honest gateways; see `SimulatedTraffic`."""

    def gateway(self, start: Start) -> ReplicatingGateway:
        """Return a life of a gateway that seals its batches, or of the liar."""
        disk = self.disks[start.tree.identity.gateway_id]
        if start.tree.identity.gateway_id == LIAR:
            return LiarGateway(start, disk, self, self.chance)
        return SealedGateway(start, disk, self)

    def standing(self, identity: Identity) -> Identity:
        """Return the identity with a seal."""
        return sealing(identity.gateway_id).stands(identity)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """Let clients of an honest gateway do something."""
        if gateway.gateway_id != LIAR:
            super().clients_of(gateway)

    def handed(self, gateway: Receiver, header: Header, first: int) -> None:
        """Check what an honest gateway hands its clients."""
        if gateway.gateway_id != LIAR:
            super().handed(gateway, header, first)

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Nothing is lost: no disk is, and no log drops anything."""
        if gateway_id != LIAR:
            self.checks.found(3, f"{gateway_id} gives up {lost}")

    def missing(self, gateways: dict[str, Gateway], network: Network) -> list[str]:
        """Return what an honest gateway lacks."""
        honest = {one: gateway for one, gateway in gateways.items() if one != LIAR}
        return super().missing(honest, network)


@dataclass(frozen=True, slots=True)
class LiarOptions(Options):
    """A run in which one gateway lies."""

    @property
    def subject(self) -> str:
        """Return ``liar``."""
        return "liar"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """Draw options by which the honest gateways have ways to each other."""
        options = cls.any_network(seed, gateways)
        faults = replace(options.faults, lose_disk=0.0, full_disk=0.0)
        degree = options.degree and max(3.0, options.degree)
        return replace(options, leaves=0, degree=degree, faults=faults)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> Simulation:
        """Return a simulation with a liar."""
        return LiarSimulation(self, make_tree)


class LiarSimulation(Simulation):
    """A simulation of a network in which one gateway lies."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = LiedTraffic

    def make_checks(self) -> Checks:
        """Return the checks of honest gateways."""
        return HonestChecks(self.clock, self.options.replay)

    def calm(self) -> Report:
        """Turn the liar off, then let the network find its peace."""
        self._identities.pop(LIAR, None)
        if (liar := self.gateways.pop(LIAR, None)) is not None:
            liar.stop(silently=False)
        self.network.edges = [edge for edge in self.network.edges if LIAR not in edge.ids]
        return super().calm()
