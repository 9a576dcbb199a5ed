"""Substitutes for configured neighbours that are gone, found in virtual time (row A2).

A fleet with nothing but configured neighbours: a tree in which each gateway dials its parent. What
dials, and leaves, is modelled as `Neighbours` does it; who is dialled the production core decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from tree_handler.members.place import may_be_dialled
from tree_handler.members.substitution import (
    DialSubstitute,
    LeaveSubstitute,
    Substitute,
    SubstituteTimes,
    Substitution,
    WaysHome,
    best_first,
)
from tree_handler.remote.query import Publication
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.heads import DELAY_S, JITTER_S, HeadedFleet, HeadedGateway
from tree_handler.simulation.local_time import Timer
from tree_handler.simulation.network import Edge, End

LOOK_S: Final = 0.25
"""So often a gateway looks at its links; in the process it is told of each change."""
LINK_PORT: Final = 8883


class Substituting:
    """A `Tenant` that dials substitutes for one life of a gateway.

    Args:
        fleet: whose network it is.
        times: how long what takes.

    Attributes:
        core: the one of production.
        dialled: how often it has begun to dial somebody.

    """

    def __init__(self, fleet: ParentedFleet, times: SubstituteTimes) -> None:
        self.core = Substitution(times)
        self.dialled = 0
        self._fleet = fleet
        self._edge: Edge | None = None
        self._gateway: HeadedGateway
        self._timer: Timer

    def begin(self, gateway: HeadedGateway) -> None:
        """Begin to look for substitutes in a gateway."""
        self._gateway = gateway
        self._timer = gateway.timer(self._look)
        self._look(gateway.now)

    def heard(self, origin: str, body: Publication) -> None:
        """Ignore what other tenants have flooded."""

    def took(self, link: int, message: object) -> None:
        """Ignore what a neighbour's tenant says."""

    def forwards(self, link: int) -> None:
        """Ignore that a link forwards: it looks soon anyway."""

    def moved(self) -> None:
        """Ignore that others are in reach or not: it looks soon anyway."""

    def _look(self, now: float) -> None:
        gateway, fleet = self._gateway, self._fleet
        links = [end.peer.host.gateway_id for end in gateway.ends.values()]
        parent = fleet.parents.get(gateway.gateway_id)
        seen = WaysHome(None if parent is None else parent in links, links, gateway.locator.reached)
        for action in self.core.look(seen, self._candidates, now, fleet.chance.random()):
            match action:
                case DialSubstitute(substitute):
                    self.dialled += 1
                    ids = (gateway.gateway_id, substitute.id)
                    self._edge = edge = Edge(ids, DELAY_S, JITTER_S)
                    fleet.network.edges.append(edge)
                    self._dial(edge)
                case LeaveSubstitute():
                    self._leave()
        self._timer.set(min(self.core.next_timer(), now + LOOK_S))

    def _candidates(self) -> list[Substitute]:
        own = self._fleet.records[self._gateway.gateway_id]
        return [
            Substitute(one.id, one.address, LINK_PORT)
            for one in best_first(list(self._gateway.members), own.id)
            if may_be_dialled(one.address, own.address)
            and one.id != self._fleet.parents.get(own.id)
        ]

    def _dial(self, edge: Edge) -> None:
        gateway, fleet = self._gateway, self._fleet
        if self._edge is not edge or not gateway.alive:
            return
        if not gateway.is_linked(edge):
            fleet.network.dial(edge, gateway, partial(fleet.gateways.get, edge.ids[1]))
        again_s = fleet.clock.now + fleet.chance.uniform(0.1, 0.5)
        fleet.clock.at(again_s, partial(self._dial, edge))

    def _leave(self) -> None:
        edge, self._edge = self._edge, None
        assert edge is not None
        for end in [end for end in self._gateway.ends.values() if _is_over(end, edge)]:
            self._fleet.network.close(end)
            self._gateway.link_down(end)
        self._fleet.network.edges.remove(edge)


class ParentedFleet(HeadedFleet):
    """A fleet in which each gateway but the first has one configured neighbour, its parent.

    Args:
        gateways: how many.
        seed: of the network, and of who is what.
        times: how long what takes.
        fan_out: children of each.

    Attributes:
        parents: by id; the first has none.
        checks: finds a ring of links that forward, at the instant at which it closes.

    """

    def __init__(self, gateways: int, seed: int, times: SubstituteTimes, fan_out: int = 3) -> None:
        self._times = times
        self.parents = {f"gw-{one}": f"gw-{(one - 1) // fan_out}" for one in range(1, gateways)}
        self.substituting: dict[str, Substituting] = {}
        super().__init__(gateways, seed, tenant_of=self._substituting)
        self.watch = self.checks = Checks(self.clock, f"ParentedFleet({gateways}, {seed})")
        self._edges = [Edge(pair, DELAY_S, JITTER_S) for pair in self.parents.items()]
        self.network.edges[:] = self._edges
        self.start_all()

    def _substituting(self, gateway_id: str) -> Substituting:
        made = self.substituting[gateway_id] = Substituting(self, self._times)
        return made

    def substitutes(self) -> dict[str, str]:
        """Return who of those that live dials whom, or is linked to it in place of its parent."""
        found = ((one, self.substituting[one].core.current) for one in self.gateways)
        return {one: current.id for one, current in found if current is not None}

    def apart(self) -> Iterator[str]:
        """Give the gateways that do not reach all others that live."""
        for gateway_id, gateway in self.gateways.items():
            if self.gateways.keys() - gateway.locator.reached - {gateway_id}:
                yield gateway_id


def _is_over(end: End, edge: Edge) -> bool:
    return end.connection.edge is edge
