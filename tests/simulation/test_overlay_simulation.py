"""Topic overlays in simulated networks: their invariants, and that each guard is needed."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from islands import TwoIslands
from searching import first_seed

from tree_handler.overlays.overlays import Settings
from tree_handler.overlays.policy import RootPolicy
from tree_handler.routing.interest import Interest
from tree_handler.simulation.gateway import Gateway, Start
from tree_handler.simulation.overlays import OverlayGateway, OverlayOptions, OverlaySimulation
from tree_handler.simulation.runs import FaultOptions, run, run_many
from tree_handler.spanning import agreement, feasibility
from tree_handler.spanning.spanning_tree import Parameters

CALM = FaultOptions(rate_per_s=0.0)


# -- the invariants under faults -------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("gateways", "runs"), [(2, 4), (3, 8), (4, 6), (5, 4), (7, 2)])
def test_no_seed_breaks_an_invariant_of_any_overlay(gateways: int, runs: int) -> None:
    for report in run_many(runs, gateways, 1, OverlayOptions):
        assert not report.violations, str(report)


def test_a_run_is_the_same_each_time() -> None:
    options = OverlayOptions.drawn(6, 4)
    assert run(options) == run(options)


# -- each guard is needed --------------------------------------------------------------------------


class OneOverlay(OverlaySimulation):
    """All gateways are members of one overlay and know of all links, whatever happens to them.

    So the overlay does not end when links do, and has to get along without them.
    """

    def records(self) -> dict[str, Interest]:
        def links(gateway_id: str) -> frozenset[str]:
            edges = [edge.ids for edge in self.network.edges if gateway_id in edge.ids]
            return frozenset(i for ids in edges for i in ids if i != gateway_id)

        wanted = frozenset({"t"})
        return {i: Interest(i, 1, 0, wanted, wanted, links(i)) for i in self._identities}

    def make_gateway(self, start: Start) -> Gateway:
        gateway = super().make_gateway(start)
        assert isinstance(gateway, OverlayGateway)
        gateway.tell(self.records())
        return gateway

    def rings(self) -> list[str]:
        """Return what was seen of rings in overlays."""
        found = self.checks.violations
        return [v.what for v in found if v.invariant == 1 and "overlay" in v.what]


STORM = OverlayOptions(
    0,
    gateways=8,
    degree=3.0,
    delay_ms=10.0,
    jitter_ms=1.0,
    spread=5.0,
    traffic_per_s=0.0,
    topics=0,
    faults=FaultOptions(rate_per_s=8.0, outage_s=0.3),
)


def rings(seed: int) -> list[str]:
    simulation = OneOverlay(replace(STORM, seed=seed))
    simulation.start_all()
    simulation.storm()
    assert simulation.overlay_checks.begun > 20
    return simulation.rings()


def test_without_feasibility_rings_form_in_overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(feasibility, "feasible", lambda offered, remembered: True)
        found = first_seed(lambda seed: bool(rings(seed)), within=100)
    assert not rings(found)


class Islands(TwoIslands, OneOverlay):
    """The islands are two parts of one overlay."""

    def __init__(self) -> None:
        patient = Parameters(missed_hellos=6)
        options = OverlayOptions(
            1, gateways=0, redial_s=0.02, traffic_per_s=0.0, faults=CALM, parameters=patient
        )
        super().__init__(options)

    def overlay_root(self, gateway_id: str) -> str:
        gateway = self.gateways[gateway_id]
        assert isinstance(gateway, OverlayGateway)
        (overlay,) = gateway.overlays.snapshots()
        return overlay.root


def test_two_parts_of_an_overlay_join_without_a_ring_when_the_better_root_dies() -> None:
    islands = Islands()
    assert (islands.overlay_root("gw-u"), islands.overlay_root("gw-y")) == ("gw-a", "gw-b")
    islands.join_while_news_are_held_up()
    for edge in islands.network.edges:
        islands.network.heal(edge)
    islands.clock.run(islands.clock.now + 5.0)
    assert islands.overlay_root("gw-u") == islands.overlay_root("gw-y") == "gw-b"
    assert not islands.checks.violations


def test_without_agreement_rings_form_in_overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "agreed", lambda link_root, root: True)
    islands = Islands()
    assert not islands.checks.violations
    islands.join_while_news_are_held_up()
    assert islands.rings()


# -- what overlays cost, and what they bring -------------------------------------------------------


def settled(topics: int, policy: RootPolicy, density: float = 0.5) -> OverlaySimulation:
    """Five gateways in full mesh, a while after their start (C8)."""
    options = OverlayOptions(
        1,
        delay_ms=10.0,
        jitter_ms=0.0,
        faults=CALM,
        faults_s=1.0,
        traffic_per_s=0.0,
        topics=topics,
        density=density,
        changes_per_s=0.0,
        settings=Settings(policy),
    )
    simulation = OverlaySimulation(options)
    simulation.start_all()
    assert not (report := simulation.calm()).violations, str(report)
    return simulation


def roots(simulation: OverlaySimulation) -> Counter[str]:
    """Count the overlays that each gateway is the root of."""
    return Counter(
        {
            gateway_id: gateway.overlays.rooted
            for gateway_id, gateway in simulation.gateways.items()
            if isinstance(gateway, OverlayGateway)
        }
    )


@pytest.mark.parametrize("topics", [3, 30, 60])
def test_signalling_grows_with_the_roots_and_not_with_the_topics(topics: int) -> None:
    simulation = settled(topics, RootPolicy.CAPACITY)
    before, directions = simulation.overlay_checks.spoken.copy(), 20
    simulation.clock.run(simulation.clock.now + 10.0)
    spoken = simulation.overlay_checks.spoken - before
    rooted = sum(count > 0 for count in roots(simulation).values())
    intervals = 10.0 / simulation.options.parameters.hello_s
    assert 0 < spoken["messages"] <= 2 * directions * intervals * rooted


def test_the_root_by_capacity_is_the_strongest_member_of_each_overlay() -> None:
    simulation = settled(30, RootPolicy.CAPACITY)
    capability = {i: g.tree.identity.root.precedence for i, g in simulation.gateways.items()}
    for gateway in simulation.gateways.values():
        assert isinstance(gateway, OverlayGateway)
        assert gateway.overlays.snapshots()
        for overlay in gateway.overlays.snapshots():
            assert overlay.root == min(overlay.members, key=capability.__getitem__)


def test_balance_spreads_the_roots_that_capacity_heaps_up() -> None:
    heaped = roots(settled(60, RootPolicy.CAPACITY))
    spread = roots(settled(60, RootPolicy.BALANCE))
    assert heaped.total() == spread.total() > 10
    assert max(spread.values()) <= max(heaped.values()) / 2
