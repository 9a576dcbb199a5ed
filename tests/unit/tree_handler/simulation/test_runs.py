"""Runs of a simulation: when they end, what they report, and how they are drawn again."""

from __future__ import annotations

import pytest

from tree_handler.simulation import runs
from tree_handler.simulation.runs import (
    LOG_BATCHES,
    SOUGHT_S,
    STILL_INTERVALS,
    FaultOptions,
    Options,
    Simulation,
    drawn_size,
)
from tree_handler.simulation.topics import TopicOptions
from tree_handler.spanning.bpdu import Kind

CALM = FaultOptions(rate_per_s=0.0)
WINDOW_S = STILL_INTERVALS * Options(1).parameters.hello_s


def settled(*, hasty: bool = False) -> Simulation:
    simulation = Simulation(Options(7, 3, traffic_per_s=0.0, faults=CALM, hasty=hasty))
    simulation.start_all()
    simulation.clock.run(20.0)
    return simulation


def test_a_hasty_run_ends_with_the_first_still_window_and_another_when_it_had_to_settle() -> None:
    for hasty, windows in ((True, 1), (False, 4)):
        simulation = settled(hasty=hasty)
        report = simulation.calm()
        assert not report.violations
        assert simulation.clock.now == 20.0 + windows * WINDOW_S
        settle_s = simulation.options.settle_hellos * simulation.options.parameters.hello_s
        assert hasty or (windows - 1) * WINDOW_S < settle_s <= windows * WINDOW_S


def test_a_run_is_not_at_peace_while_an_end_alone_is_open() -> None:
    simulation = settled(hasty=True)
    gateway = simulation.gateways["gw-0"]
    end = next(iter(gateway.ends.values()))
    other = end.peer.host
    # Its owner goes on as if nothing were, so only the network has it.
    simulation.network.vanish(end)
    assert not simulation.calm().violations
    assert simulation.clock.now > 20.0 + WINDOW_S
    assert other.gateway_id in {end.peer.host.gateway_id for end in gateway.ends.values()}


def test_a_run_reports_what_was_said_and_when_the_tree_changed_last() -> None:
    simulation = settled()
    report = simulation.calm()
    assert report.options is simulation.options
    assert (report.violations, report.faults, report.published, report.forgotten) == ((), 0, 0, 0)
    assert report.convergence_s == simulation.checks.last_change_s
    assert report.hellos == simulation.checks.said[Kind.HELLO] > 0
    assert report.messages == simulation.checks.said.total() > report.hellos
    assert report.events == simulation.clock.events


def test_delays_stand_still_when_a_network_is_to_find_its_peace() -> None:
    simulation = settled()
    assert all(edge.jitter_s > 0 for edge in simulation.network.edges)
    simulation.calm()
    assert all(edge.jitter_s == 0 for edge in simulation.network.edges)


def test_who_follows_another_root_when_the_network_should_have_settled_is_found() -> None:
    simulation = settled()
    for edge in simulation.network.edges:
        if "gw-2" in edge.ids:
            simulation.network.silence(edge, 0)
            simulation.network.silence(edge, 1)
    simulation.clock.run(30.0)
    root = {one: gateway.tree.root_id for one, gateway in simulation.gateways.items()}
    assert root["gw-2"] == "gw-2"
    assert not simulation.calm().violations
    for edge in simulation.network.edges:
        edge.silent[:] = [False, False]
        edge.delay_s = 1e6  # usable, and nothing arrives
    what = {(one.invariant, one.what.split(",")[0]) for one in simulation.calm().violations}
    assert any(number == 2 for number, _ in what)


def test_a_gateway_that_starts_again_has_a_later_life_and_the_same_clock_rate() -> None:
    simulation = Simulation(Options(7, 2, traffic_per_s=0.0, faults=CALM, skew=0.01))
    simulation.start_all()
    first = simulation.gateways["gw-0"]
    began = first.now - 0.0
    simulation.clock.run(10.0)
    rate = (first.now - began) / (10.0 - simulation.options.start_s)
    assert 0.99 <= rate <= 1.01
    assert rate != 1.0
    first.stop(silently=False)
    simulation.start("gw-0")
    again = simulation.gateways["gw-0"]
    assert again.boot_epoch == first.boot_epoch + 1
    assert simulation.traffic.disks["gw-0"].boot_epoch == again.boot_epoch
    began = again.now
    simulation.clock.run(20.0)
    assert (again.now - began) / 10.0 == pytest.approx(rate, abs=1e-6)


def test_who_learns_of_a_later_life_of_its_own_starts_again_once_behind_that() -> None:
    simulation = settled()
    before = simulation.gateways["gw-0"]
    for epoch in (before.boot_epoch - 3, before.boot_epoch + 3):
        simulation.gateways["gw-0"].outlived(epoch)
    simulation.clock.run(21.0)
    again = simulation.gateways["gw-0"]
    assert (before.alive, again.alive) == (False, True)
    assert again.boot_epoch > before.boot_epoch + 3
    assert simulation.traffic.disks["gw-0"].boot_epoch == again.boot_epoch
    simulation.clock.run(22.0)
    assert simulation.gateways["gw-0"] is again


# -- what is drawn ---------------------------------------------------------------------------------


def test_as_many_small_networks_as_large_ones_are_drawn_in_each_octave() -> None:
    sizes = [drawn_size(seed, 2, 31) for seed in range(2_000)]
    assert (min(sizes), max(sizes)) == (2, 31)
    octaves = [sum(2**one <= size < 2 ** (one + 1) for size in sizes) for one in range(1, 5)]
    assert all(400 < count < 600 for count in octaves)
    assert [drawn_size(seed, 5, 5) for seed in range(9)] == [5] * 9
    assert drawn_size(1, 7, 3) == 7


def test_networks_are_drawn_within_what_their_gateways_allow() -> None:
    for gateways in (2, 3, 12, 13):
        drawn = [Options.drawn(seed, gateways) for seed in range(300)]
        assert drawn == [Options.drawn(seed, gateways) for seed in range(300)]
        assert {one.leaves for one in drawn} == ({0} if gateways == 2 else {0, 1})
        meshes = {0.0} if gateways <= 12 else set()
        assert {one.degree for one in drawn} == {*meshes, 2.2, 3.0, 4.0}
        assert {one.traffic_per_s for one in drawn} == {min(2.0, 10.0 / gateways)}
        trims = [one for one in drawn if one.log_batches]
        assert {(one.log_batches, one.quiet_s) for one in trims} == {(LOG_BATCHES, SOUGHT_S)}
        assert {one.quiet_s for one in drawn if not one.log_batches} == {Options(1).quiet_s}
        assert 40 < len(trims) < 110
        assert 190 < sum(one.hasty for one in drawn) < 260
        jitters = {round(one.jitter_ms / one.delay_ms, 9) for one in drawn}
        assert jitters == {0.0, 0.1, 0.25}


def test_only_what_is_drawn_is_replayed_by_a_command() -> None:
    drawn = Options.drawn(3, 4)
    assert drawn.replay == "hedgerow simulate --seed 3 --gateways 4 --runs 1"
    topics = TopicOptions.drawn(3, 4)
    assert topics.replay == "hedgerow simulate --subject topic --seed 3 --gateways 4 --runs 1"
    again = Options(3, 4, faults=CALM)
    assert again.replay == f"runs.run(Options(3, gateways=4, faults={CALM!r}))"
    names = vars(runs) | {"runs": runs}
    repeated = eval(again.replay, names).options
    assert repeated == again


def test_seeds_are_run_one_after_the_other() -> None:
    reports = list(runs.run_many(3, 2, 5))
    assert [report.options for report in reports] == [Options.drawn(seed, 2) for seed in (5, 6, 7)]


def test_networks_have_the_degree_that_is_asked_for_and_edges_near_or_far() -> None:
    for degree, count in ((0.0, 28), (2.0, 8), (3.0, 12), (99.0, 28)):
        options = Options(7, 8, degree=degree, delay_ms=10.0, jitter_ms=1.0, spread=4.0)
        simulation = Simulation(options)
        edges = simulation.network.edges
        assert len(edges) == len({edge.ids for edge in edges}) == count
        assert all(edge.ids[0] < edge.ids[1] for edge in edges)
        assert all(0.0025 <= edge.delay_s <= 0.04 for edge in edges)
        assert all(edge.jitter_s == pytest.approx(edge.delay_s / 10) for edge in edges)


def test_the_last_gateways_are_leaves_without_capability() -> None:
    simulation = Simulation(Options(7, 4, leaves=2, traffic_per_s=0.0, faults=CALM))
    simulation.start_all()
    own = [simulation.gateways[f"gw-{number}"].tree.identity for number in range(4)]
    assert [one.transit for one in own] == [True, True, False, False]
    assert [one.capability > 0 for one in own] == [True, True, False, False]


def test_all_gateways_start_within_the_time_for_it() -> None:
    simulation = Simulation(Options(7, 9, start_s=3.0, traffic_per_s=0.0, faults=CALM))
    simulation.start_all()
    assert simulation.clock.now == 3.0
    assert len(simulation.gateways) == 9
