"""Two gateways with one id: the one that is a member stays, and the other waits its turn."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

import pytest

from tree_handler.simulation.gateway import Gateway, Start
from tree_handler.simulation.network import Edge
from tree_handler.simulation.routed import RoutedOptions, RoutedTraffic
from tree_handler.simulation.routed_gateway import RoutedGateway
from tree_handler.simulation.runs import Simulation
from tree_handler.spanning.spanning_tree import SpanningTree

SETTLED_S = 8.0
DIALS_S = 0.3
COPIED = "gw-1"


class Copy:
    """A gateway that starts from a copy of another one's card, beside it.

    Args:
        simulation: the network.
        epochs: so many later (or earlier) than the other one is its boot epoch.
        edges: where it is plugged in; where the other one is if not given.

    """

    def __init__(
        self, simulation: Simulation, epochs: int, edges: list[Edge] | None = None
    ) -> None:
        self._simulation = simulation
        self._identity = simulation.gateways[COPIED].tree.identity
        self.edges = edges or [e for e in simulation.network.edges if COPIED in e.ids]
        self.outlived: list[int] = []
        self._disk = copy.deepcopy(simulation.traffic.disks[COPIED])
        assert self._disk.boot_epoch is not None
        self.gateway = self._start(self._disk.boot_epoch + epochs)
        self._dial()

    def _start(self, epoch: int) -> RoutedGateway:
        simulation, clock = self._simulation, self._simulation.clock
        identity = replace(self._identity, boot_epoch=epoch)
        tree = SpanningTree(identity, simulation.options.parameters, clock.now)
        network, checks = simulation.network, simulation.checks
        start = Start(tree, clock, network, checks, outlived=self._outlived)
        gateway = RoutedGateway(start, self._disk, cast(RoutedTraffic, simulation.traffic))
        gateway.begin()
        return gateway

    def _outlived(self, life: Gateway, epoch: int) -> None:
        """Start again behind a later life, as a gateway does."""
        if life.boot_epoch < epoch and (not self.outlived or life.boot_epoch > self.outlived[-1]):
            self.outlived.append(epoch)
            self._simulation.clock.at(self._simulation.clock.now, lambda: self._again(epoch))

    def _again(self, epoch: int) -> None:
        self.gateway.stop(silently=False)
        self.gateway = self._start(epoch + 1)

    @property
    def links(self) -> set[str]:
        return {end.peer.host.gateway_id for end in self.gateway.ends.values()}

    def _dial(self) -> None:
        """It dials all, and all dial it."""
        there, network = self._simulation.gateways, self._simulation.network
        for edge in self.edges:
            other_id = edge.ids[1 - edge.ids.index(COPIED)]
            if not self.gateway.is_linked(edge):
                network.dial(edge, self.gateway, lambda other_id=other_id: there.get(other_id))
            other = there.get(other_id)
            if other is not None and other_id not in self.links:
                network.dial(edge, other, lambda: self.gateway)
        clock = self._simulation.clock
        clock.at(clock.now + DIALS_S, self._dial)


def settled(seed: int, **options: float) -> Simulation:
    """Four gateways that have found one tree."""
    simulation = RoutedOptions(seed, gateways=4, degree=2.2, **options).simulation()
    simulation.start_all()
    simulation.clock.run(SETTLED_S)
    assert not simulation.checks.violations
    return simulation


def linked(gateway: Gateway) -> set[str]:
    return {end.peer.host.gateway_id for end in gateway.ends.values()}


@pytest.mark.drawn(8)
@pytest.mark.parametrize("epochs", [-3, 3])
@pytest.mark.parametrize("seed", range(10))
def test_the_member_stays_and_the_copy_gets_no_link_while_it_is_there(
    seed: int, epochs: int
) -> None:
    simulation = settled(seed)
    member = simulation.gateways[COPIED]
    links = linked(member)
    assert links
    copied = Copy(simulation, epochs)
    simulation.clock.run(simulation.clock.now + 60.0)
    assert simulation.gateways[COPIED] is member and member.alive  # not once started again
    assert linked(member) == links
    assert copied.links == set() and copied.outlived == []
    assert not simulation.checks.violations


@pytest.mark.parametrize("seed", range(10))
def test_a_copy_that_is_plugged_in_elsewhere_is_kept_out_too(seed: int) -> None:
    simulation = settled(seed)
    member = simulation.gateways[COPIED]
    far = sorted(simulation.gateways.keys() - linked(member) - {COPIED})
    edges = [Edge((COPIED, other), 0.002, 0.0) for other in far or ["gw-3"]]
    copied = Copy(simulation, 3, edges)
    simulation.clock.run(simulation.clock.now + 30.0)
    assert simulation.gateways[COPIED] is member and copied.links == set()


@pytest.mark.drawn(8)
@pytest.mark.parametrize("silently", [False, True])
@pytest.mark.parametrize("epochs", [-3, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_restored_card_comes_in_once_the_old_life_is_gone(
    seed: int, epochs: int, silently: bool
) -> None:
    simulation = settled(seed)
    copied = Copy(simulation, epochs)
    simulation.clock.run(simulation.clock.now + 5.0)
    assert copied.links == set()
    simulation.gateways.pop(COPIED).stop(silently=silently)
    simulation.clock.run(simulation.clock.now + SETTLED_S)
    assert copied.links == {edge.ids[1 - edge.ids.index(COPIED)] for edge in copied.edges}
    # An earlier one is told of the later life, as ever, and would start again behind it.
    assert bool(copied.outlived) == (epochs < 0)


@pytest.mark.parametrize("epochs", [-3, 3])
@pytest.mark.parametrize("seed", range(5))
def test_two_that_became_members_while_cut_off_from_each_other_are_soon_one(
    seed: int, epochs: int
) -> None:
    simulation = RoutedOptions(seed, gateways=4).simulation()
    here, network, clock = {"gw-0", COPIED}, simulation.network, simulation.clock
    between = [edge for edge in network.edges if len(here & set(edge.ids)) == 1]
    network.edges = [edge for edge in network.edges if edge not in between]
    simulation.start_all()
    clock.run(SETTLED_S)
    copied = Copy(simulation, epochs, [Edge((COPIED, "gw-2"), 0.002, 0.0)])
    clock.run(clock.now + SETTLED_S)
    first = simulation.gateways[COPIED]
    assert copied.links == {"gw-2"} and linked(first) == {"gw-0"}  # both are members
    bridge = Edge(("gw-0", "gw-2"), 0.002, 0.0)
    network.edges.append(bridge)
    network.dial(bridge, simulation.gateways["gw-0"], lambda: simulation.gateways["gw-2"])
    clock.run(clock.now + 60.0)
    there = [one for one in (simulation.gateways[COPIED], copied.gateway) if one.ends]
    assert len(there) == 1
    restarts = len(copied.outlived) + (simulation.gateways[COPIED] is not first)
    # A copy with an earlier epoch than its own log has is told so by its first neighbour.
    assert restarts == (1 if epochs > 0 else 2)
