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
    """What the honest gateways keep to; what the liar does with its own links is its own matter."""

    def found(self, invariant: int, what: str) -> None:
        """See `Checks`."""
        is_ring_of_liar = invariant == 1 and LIAR in what.split()
        if not is_ring_of_liar:
            super().found(invariant, what)


@dataclass(eq=False)
class LiedTraffic(SimulatedTraffic):
    """Messages of the honest gateways; see `SimulatedTraffic`."""

    def gateway(self, start: Start) -> ReplicatingGateway:
        """See `SimulatedTraffic`."""
        disk = self.disks[start.tree.identity.gateway_id]
        if start.tree.identity.gateway_id == LIAR:
            return LiarGateway(start, disk, self, self.chance)
        return SealedGateway(start, disk, self)

    def standing(self, identity: Identity) -> Identity:
        """See `SimulatedTraffic`."""
        return sealing(identity.gateway_id).stands(identity)

    def clients_of(self, gateway: ReplicatingGateway) -> None:
        """See `SimulatedTraffic`."""
        if gateway.gateway_id != LIAR:
            super().clients_of(gateway)

    def handed(self, gateway: Receiver, header: Header, first: int) -> None:
        """See `SimulatedTraffic`."""
        if gateway.gateway_id != LIAR:
            super().handed(gateway, header, first)

    def lost(self, gateway_id: str, network: Network, lost: Lost) -> None:
        """Nothing is lost: no disk is, and no log drops anything."""
        if gateway_id != LIAR:
            self.checks.found(3, f"{gateway_id} gives up {lost}")

    def missing(self, gateways: dict[str, Gateway], network: Network) -> list[str]:
        """See `SimulatedTraffic`."""
        honest = {one: gateway for one, gateway in gateways.items() if one != LIAR}
        return super().missing(honest, network)


@dataclass(frozen=True, slots=True)
class LiarOptions(Options):
    """A run in which one gateway lies."""

    @property
    def subject(self) -> str:
        """See `Options`."""
        return "liar"

    @classmethod
    def drawn(cls, seed: int, gateways: int) -> Self:
        """See `Options`: the honest ones have ways to each other."""
        options = cls.any_network(seed, gateways)
        faults = replace(options.faults, lose_disk=0.0, full_disk=0.0)
        degree = options.degree and max(3.0, options.degree)
        return replace(options, leaves=0, degree=degree, faults=faults)

    def simulation(self, make_tree: MakeTree = SpanningTree) -> Simulation:
        """See `Options`."""
        return LiarSimulation(self, make_tree)


class LiarSimulation(Simulation):
    """See `Simulation`."""

    traffic_of: ClassVar[type[SimulatedTraffic]] = LiedTraffic

    def make_checks(self) -> Checks:
        """See `Simulation`."""
        return HonestChecks(self.clock, self.options.replay)

    def calm(self) -> Report:
        """See `Simulation`; the liar is turned off before."""
        self._identities.pop(LIAR, None)
        if (liar := self.gateways.pop(LIAR, None)) is not None:
            liar.stop(silently=False)
        self.network.edges = [edge for edge in self.network.edges if LIAR not in edge.ids]
        return super().calm()
