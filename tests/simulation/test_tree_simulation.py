"""The spanning tree in simulated networks: its invariants, and that each guard is needed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from islands import TwoIslands
from searching import first_seed

from tree_handler.simulation.checks import astray, linked
from tree_handler.simulation.network import Edge
from tree_handler.simulation.report import Report
from tree_handler.simulation.runs import FaultOptions, Options, Simulation, run, run_many
from tree_handler.spanning import agreement, feasibility
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.election import Root
from tree_handler.spanning.spanning_tree import Parameters

CALM = FaultOptions(rate_per_s=0.0)


def broken(report: Report) -> set[int]:
    return {violation.invariant for violation in report.violations}


# -- the invariants under faults -------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("gateways", "runs"),
    [(2, 10), (3, 20), (4, 20), (5, 15), (6, 10), (8, 6), (12, 3), (20, 2), (35, 1), (50, 1)],
)
def test_no_seed_breaks_an_invariant(gateways: int, runs: int) -> None:
    for report in run_many(runs, gateways, seed=1):
        assert not report.violations, str(report)


def test_of_three_gateways_one_may_be_a_leaf_and_of_two_none() -> None:
    """A leaf passes nothing on, so a network of a gateway and a leaf has no tree to check."""
    leaves = {n: {Options.drawn(seed, n).leaves for seed in range(50)} for n in (2, 3)}
    assert leaves == {2: {0}, 3: {0, 1}}


def test_a_run_is_the_same_each_time() -> None:
    options = Options.drawn(5, 6)
    assert run(options) == run(options)


def test_sixty_gateways_settle_in_less_than_twenty_hellos_of_a_storm() -> None:
    report = run(replace(Options.drawn(3, 60), faults_s=3.0))
    assert not report.violations, str(report)
    assert report.faults > 0
    assert report.convergence_s < 20 * report.options.parameters.hello_s


# -- each guard is needed --------------------------------------------------------------------------

STORM = Options(
    0,
    gateways=8,
    degree=3.0,
    delay_ms=10.0,
    jitter_ms=1.0,
    spread=5.0,
    quiet_s=3.0,
    settle_hellos=0,
    faults=FaultOptions(rate_per_s=8.0, outage_s=0.3),
)


def test_without_feasibility_rings_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def shows_a_ring(seed: int) -> bool:
        return 1 in broken(run(replace(STORM, seed=seed)))

    with monkeypatch.context() as patched:
        patched.setattr(feasibility, "feasible", lambda offered, remembered: True)
        seed = first_seed(shows_a_ring, within=15, likely=[4, 9, 10])
    assert not shows_a_ring(seed)


class Islands(TwoIslands):
    def __init__(self) -> None:
        patient = Parameters(missed_hellos=6)
        super().__init__(Options(1, gateways=0, redial_s=0.02, faults=CALM, parameters=patient))


def test_two_islands_join_without_a_ring_when_the_better_root_dies() -> None:
    islands = Islands()
    assert islands.gateways["gw-y"].tree.root_id == "gw-b"
    assert islands.gateways["gw-u"].tree.root_id == "gw-a"
    islands.join_while_news_are_held_up()
    for edge in islands.network.edges:
        islands.network.heal(edge)
    assert not islands.calm().violations


def test_what_is_checked_is_held_against_who_is_linked_and_who_was_before_a_time() -> None:
    islands = Islands()
    links = linked(islands.gateways, islands.network)
    assert any(links.values())
    assert links == {
        name: {
            (set(edge.ids) - {name}).pop()
            for edge in islands.network.edges
            if name in edge.ids and gateway.is_linked(edge)
        }
        for name, gateway in islands.gateways.items()
    }
    assert not any(linked(islands.gateways, islands.network, 0.0).values())


def test_without_agreement_rings_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "agreed", lambda link_root, root: True)
    islands = Islands()
    assert not islands.checks.violations
    islands.join_while_news_are_held_up()
    assert 1 in {violation.invariant for violation in islands.checks.violations}


def test_without_stopping_the_old_trees_children_rings_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keeps_them(self: Agreements, root: Root) -> None:
        for other in (self.candidate, self._place.parent):
            if other is not None:
                self.leave(other)

    monkeypatch.setattr(Agreements, "change_root", keeps_them)
    islands = Islands()
    assert not islands.checks.violations
    islands.join_while_news_are_held_up()
    # Each of the bridges' ends has a child of the tree that it was in before.
    ring = next(v for v in islands.checks.violations if v.invariant == 1).what
    assert all(gateway_id in ring for bridge in Islands.bridges for gateway_id in bridge)


# -- how fast ------------------------------------------------------------------------------------


def settled(options: Options) -> Simulation:
    simulation = Simulation(options)
    simulation.start_all()
    simulation.clock.run(6.0)
    return simulation


def until_one_tree_s(simulation: Simulation) -> float:
    """Return how many seconds pass until all follow the right root over live links."""
    began_s = simulation.clock.now
    while astray(simulation.gateways, simulation.network):
        simulation.clock.run(simulation.clock.now + 0.01)
        assert simulation.clock.now < began_s + 60
    return simulation.clock.now - began_s


def test_what_short_logs_have_dropped_is_given_up_and_all_is_still() -> None:
    """Ten gateways were seeking in vain when forty quiet seconds were over."""
    report = run(Options.drawn(5619, 19))
    assert not report.violations, report.violations


@pytest.mark.parametrize(("seed", "gateways"), [(4011, 12), (4549, 13)])
def test_a_root_whose_disk_is_lost_has_all_gateways_again(seed: int, gateways: int) -> None:
    """Of its later life only gateways know that were away when it came back."""
    report = run(Options.drawn(seed, gateways))
    assert not report.violations, report.violations


@pytest.mark.drawn(20)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("gateways", [3, 4, 5])
def test_a_full_mesh_agrees_on_a_new_root_within_half_a_second(gateways: int, seed: int) -> None:
    simulation = settled(Options(seed, gateways, delay_ms=1.0, spread=3.0, faults=CALM))
    root_id = next(iter(simulation.gateways.values())).tree.root_id
    simulation.gateways.pop(root_id).stop(silently=False)
    assert until_one_tree_s(simulation) < 0.5
    assert not simulation.calm().violations


@pytest.mark.parametrize("seed", range(10))
def test_a_silent_partition_is_healed_within_two_and_a_half_seconds(seed: int) -> None:
    simulation = settled(Options(seed, 5, delay_ms=1.0, faults=CALM))
    root_id = next(iter(simulation.gateways.values())).tree.root_id
    simulation.gateways.pop(root_id).stop(silently=True)
    assert until_one_tree_s(simulation) < 2.5
    assert not simulation.calm().violations


@pytest.mark.parametrize("seed", range(10))
def test_data_flow_again_in_fifty_milliseconds_where_another_way_is_known(seed: int) -> None:
    """A ring of four, whose far gateway has two ways to the root: one of them breaks."""
    simulation = Simulation(Options(seed, 0, delay_ms=1.0, faults=CALM))
    for number, gateway_id in enumerate(("gw-r", "gw-a", "gw-b", "gw-far")):
        simulation.add(gateway_id, 9.0 - number, f"10.0.0.{number + 1}")
    pairs = (("gw-a", "gw-r"), ("gw-b", "gw-r"), ("gw-a", "gw-far"), ("gw-b", "gw-far"))
    simulation.network.edges = [Edge(pair, 0.001, 0.0001) for pair in pairs]
    simulation.start_all()
    simulation.clock.run(6.0 + seed / 7)
    far = simulation.gateways["gw-far"].tree
    parent = next(n.peer_id for n in far.neighbours() if n.link == far.parent_link)
    edge = next(edge for edge in simulation.network.edges if edge.ids == (parent, "gw-far"))
    simulation.network.cut(edge)
    assert astray(simulation.gateways, simulation.network)
    assert until_one_tree_s(simulation) < 0.05
    assert not simulation.calm().violations


# -- shapes ----------------------------------------------------------------------------------------


def test_a_triangle_blocks_exactly_one_link() -> None:
    simulation = settled(Options(1, 3, faults=CALM))
    assert len(simulation.network.connections) >= 3
    assert sum(connection.live for connection in simulation.network.connections) == 2
    assert not simulation.calm().violations


def test_jitter_does_not_make_a_gateway_change_its_parent() -> None:
    for seed in range(5):
        simulation = settled(Options(seed, 5, delay_ms=10.0, jitter_ms=2.5, faults=CALM))
        simulation.clock.run(120.0)
        assert simulation.checks.last_change_s < 12.0


def test_a_restarted_root_is_root_again() -> None:
    simulation = settled(Options(4, 5, faults=CALM))
    root_id = next(iter(simulation.gateways.values())).tree.root_id
    simulation.gateways.pop(root_id).stop(silently=False)
    simulation.clock.run(simulation.clock.now + 0.2)
    assert {g.tree.root_id for g in simulation.gateways.values()} != {root_id}
    simulation.start(root_id)
    assert not simulation.calm().violations
    assert {g.tree.root_id for g in simulation.gateways.values()} == {root_id}


def test_a_leaf_between_two_islands_does_not_join_them() -> None:
    simulation = Simulation(Options(1, 0, faults=CALM))
    simulation.add("gw-a", 3.0, "10.0.0.1")
    simulation.add("gw-b", 2.0, "10.0.0.2")
    simulation.add("gw-cloud", 0.0, "10.0.0.3", transit=False)
    simulation.network.edges = [
        Edge((island, "gw-cloud"), 0.001, 0.0) for island in ("gw-a", "gw-b")
    ]
    simulation.start_all()
    assert not simulation.calm().violations
    roots = {i: gateway.tree.root_id for i, gateway in simulation.gateways.items()}
    assert roots == {"gw-a": "gw-a", "gw-b": "gw-b", "gw-cloud": "gw-a"}


def test_what_a_neighbour_has_that_takes_a_life_before_for_alive_is_not_given_up() -> None:
    assert run(Options.drawn(40026, 3)).violations == ()


def test_hellos_over_a_link_that_ended_meanwhile_are_no_noise_of_a_still_network() -> None:
    assert run(Options.drawn(60365, 3)).violations == ()
