"""Checks of a simulation find what is wrong, at its exact bound, and nothing where all is well."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from tree_handler.simulation import checks
from tree_handler.simulation.checks import Checks, StillWindow, Violation
from tree_handler.simulation.network import Edge
from tree_handler.simulation.overlays import OverlayGateway, OverlayOptions, OverlaySimulation
from tree_handler.simulation.report import Report
from tree_handler.simulation.runs import FaultOptions, Options, Simulation
from tree_handler.spanning.bpdu import Kind

CALM = FaultOptions(rate_per_s=0.0)


def settled(gateways: int = 3) -> Simulation:
    simulation = Simulation(Options(7, gateways, leaves=0, traffic_per_s=0.0, faults=CALM))
    simulation.start_all()
    simulation.clock.run(20.0)
    assert checks.astray(simulation.gateways, simulation.network) == []
    assert simulation.checks.violations == []
    return simulation


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def test_a_violation_says_what_was_seen_when_and_how_to_see_it_again() -> None:
    one = Violation(3, 1.5, "gw-1 lacks a batch", "hedgerow simulate --seed 7")
    assert str(one) == (
        "invariant 3 at 1.500000 s: gw-1 lacks a batch; replay: hedgerow simulate --seed 7"
    )


def test_a_report_has_its_figures_and_each_violation_with_one_command_for_all() -> None:
    options = Options(7, 3, faults=CALM)
    violations = tuple(Violation(3, 1.0, what, "again") for what in ("one", "two"))
    report = Report(options, violations, 1.25, 9, 10, 11, 12, 13)
    head = "seed 7: 3 gateways, 12 faults, 11 events, 10 BPDUs, 13 messages, settled in 1.250 s"
    assert str(report).splitlines() == [
        head,
        "  invariant 3 at 1.000000 s: one",
        "  invariant 3 at 1.000000 s: two",
        f"  replay: {options.replay}",
    ]
    assert str(Report(options, (), 1.25, 9, 10, 11, 12, 13)) == head


def test_twenty_violations_of_a_run_are_noted_and_no_more() -> None:
    of = settled(2).checks
    for number in range(21):
        of.found(1, str(number))
    assert [one.what for one in of.violations] == [str(number) for number in range(20)]


def test_a_gateway_does_four_things_for_each_link_and_one_more_at_most() -> None:
    simulation = settled()
    gateway = simulation.gateways[min(simulation.gateways)]
    links = len(gateway.ends)
    most = 4 * (links + 1)
    simulation.checks.acts(gateway, most)
    assert found(simulation.checks) == []
    assert simulation.checks.most_actions == 4.0
    simulation.checks.acts(gateway, most + 1)
    assert found(simulation.checks) == [
        (6, f"{gateway.gateway_id} does {most + 1} things at once on {links} links")
    ]


def test_a_gateway_that_pauses_is_reached_over_the_connections_that_it_has() -> None:
    simulation = settled()
    gateways, network, now = simulation.gateways, simulation.network, simulation.clock.now
    awake = checks.within_reach(gateways, network, now)
    assert awake == checks.usable_paths(gateways, network)
    paused, *others = sorted(gateways)
    gateways[paused].paused_until_s = now + 1.0
    # All of its connections are there: nothing is new.
    assert checks.within_reach(gateways, network, now) == awake
    for end in list(gateways[paused].ends.values()):
        network.close(end)
    simulation.clock.run(now + 0.5)
    cut_off = checks.within_reach(gateways, network, now + 0.5)
    links = checks.linked(gateways, network)[paused]
    assert cut_off[paused] == links
    for other in others:
        assert (paused in cut_off[other]) is (other in links)
    assert checks.within_reach(gateways, network, now + 1.0) == checks.usable_paths(
        gateways, network
    )


def test_ends_forward_as_their_trees_do_when_another_root_comes() -> None:
    simulation = settled()
    old = sorted(simulation.gateways)
    forwarded = {one: simulation.gateways[one].tree.forwarding for one in old}
    simulation.add("gw-9", 99.0, "10.99.0.1")
    for other in old:
        edge = Edge((other, "gw-9"), 0.001, 0.0)
        simulation.network.edges.append(edge)
    simulation.start("gw-9")
    for edge in simulation.network.edges[-3:]:
        other = simulation.gateways[edge.ids[0]]
        simulation.network.dial(edge, simulation.gateways["gw-9"], lambda other=other: other)
    simulation.clock.run(60.0)
    assert checks.astray(simulation.gateways, simulation.network) == []
    stopped = 0
    for gateway in simulation.gateways.values():
        forwarding = {link for link, end in gateway.ends.items() if end.forwards}
        assert forwarding == gateway.tree.forwarding
        stopped += len(forwarded.get(gateway.gateway_id, frozenset()) - forwarding)
    assert stopped > 0


def test_a_ring_of_live_links_is_found_with_its_gateways_when_it_closes() -> None:
    simulation = settled()
    of, connections = simulation.checks, simulation.network.connections
    [blocked] = [one for one in connections if not one.live]
    ends = [end for end in blocked.ends if not end.forwards]
    for end in ends:
        assert found(of) == []
        end.forwards = True
        of.forwards(end)
    [(invariant, what)] = found(of)
    assert invariant == 1
    ring = what.removeprefix("live ring ").split(" - ")
    assert sorted(ring) == sorted(simulation.gateways)
    assert {ring[0], ring[-1]} == {end.host.gateway_id for end in blocked.ends}
    # Without one of the others, which ends, it is none.
    [other, *_] = [one for one in connections if one is not blocked]
    other.ends[0].open = False
    of.forwards(ends[0])
    assert found(of) == []


def test_who_follows_another_root_or_has_no_live_way_to_it_is_astray() -> None:
    simulation = settled()
    gateways, network = simulation.gateways, simulation.network
    root = checks.right_roots(gateways, network)["gw-0"]
    [leaf, *_] = [
        name
        for name, one in gateways.items()
        if len(one.tree.forwarding) == 1 and name != root.gateway_id
    ]
    for end in gateways[leaf].ends.values():
        end.forwards = False
    assert checks.astray(gateways, network) == [f"{leaf} has no live way to its root {root}"]
    for edge in network.edges:
        if root.gateway_id in edge.ids:
            network.cut(edge)
    others = sorted(gateways.keys() - {root.gateway_id})
    right = checks.right_roots(gateways, network)[others[0]]
    assert right != root
    told = checks.astray(gateways, network)
    assert {f"{one} follows {root.gateway_id}, not {right}" for one in others} <= set(told)


def test_whoever_can_be_reached_over_others_is_found_once() -> None:
    ways = {"a": ["b"], "b": ["a", "c"], "c": ["b"], "d": ["a"]}
    assert checks.component("a", ways.__getitem__) == {"a", "b", "c"}
    assert checks.component("d", ways.__getitem__) == {"a", "b", "c", "d"}


def test_a_still_network_says_hellos_alone_one_for_each_end_and_interval() -> None:
    simulation = settled(2)
    of, gateways = simulation.checks, simulation.gateways
    ends = sum(len(one.ends) for one in gateways.values())
    window = StillWindow.begins(of, gateways)
    assert window.is_still(of, gateways)
    of.said[Kind.HELLO] += ends * 4
    window.check_quiet(of, gateways, 3.0)
    assert found(of) == []
    assert window.is_still(of, gateways)
    of.said[Kind.HELLO] += 1
    window.check_quiet(of, gateways, 3.0)
    assert found(of) == [(7, f"{ends * 4 + 1} HELLOs, at most {ends * 4} are due")]
    other = next(kind for kind in Kind if kind is not Kind.HELLO)
    of.said[Kind.HELLO] -= 1
    of.said[other] += 1
    window.check_quiet(of, gateways, 3.0)
    assert found(of) == [(7, f"a still network sent {other.name}")]
    assert not window.is_still(of, gateways)


@pytest.fixture
def overlaid() -> OverlaySimulation:
    """Three gateways of which all publish and want one topic."""
    options = OverlayOptions(7, 3, leaves=0, traffic_per_s=0.0, faults=CALM, topics=1, density=1.0)
    simulation = OverlaySimulation(options)
    simulation.start_all()
    simulation.clock.run(40.0)
    return simulation


def hosts(simulation: OverlaySimulation) -> dict[str, OverlayGateway]:
    return {one: cast(OverlayGateway, each) for one, each in simulation.gateways.items()}


def test_overlays_that_are_well_have_nothing_against_them(overlaid: OverlaySimulation) -> None:
    overlaid.overlay_checks.check_settled(hosts(overlaid))
    assert found(overlaid.checks) == []


def test_a_still_overlay_says_hellos_alone_one_for_each_end_and_interval(
    overlaid: OverlaySimulation,
) -> None:
    gateways, of = hosts(overlaid), overlaid.overlay_checks
    ends = sum(
        end.peer.host.gateway_id in instance.members
        for one in gateways.values()
        for instance in one.overlays.instances.values()
        for end in one.ends.values()
    )
    assert ends > 0
    of.check_quiet(Counter({"HELLO": ends * 4}), gateways, 3)
    assert found(overlaid.checks) == []
    of.check_quiet(Counter({"HELLO": ends * 4 + 1}), gateways, 3)
    assert found(overlaid.checks) == [
        (7, f"{ends * 4 + 1} overlay HELLOs, at most {ends * 4} are due")
    ]
    other = next(kind.name for kind in Kind if kind is not Kind.HELLO)
    of.check_quiet(Counter({other: 1}), gateways, 3)
    of.check_quiet(Counter({"greetings": 1}), gateways, 3)
    assert found(overlaid.checks) == [
        (7, f"still overlays sent ['{other}']"),
        (7, "still overlays sent greetings"),
    ]


def test_an_overlay_that_one_of_its_members_does_not_run_is_told_of_all(
    overlaid: OverlaySimulation,
) -> None:
    gateways = hosts(overlaid)
    lacking = max(gateways)
    instances = gateways[lacking].overlays.instances
    [name] = instances
    left = instances.pop(name)
    overlaid.overlay_checks.check_settled(gateways)
    told = found(overlaid.checks)
    instances[name] = left
    assert (2, f"{lacking} runs other overlays than it is in") in told
    assert told.count((2, f"not all members run overlay {name.hex()}")) == 3
    assert (2, f"{lacking} sends topic/0 another way: None") in told
    assert {invariant for invariant, _ in told} == {2, 3}
    for other in sorted(gateways.keys() - {lacking}):
        assert any(f"topic/0 of {other} reached" in what for number, what in told if number == 3)


def test_a_gateway_of_an_overlay_that_alone_lost_its_links_does_not_reach_all_of_it(
    overlaid: OverlaySimulation,
) -> None:
    gateways = hosts(overlaid)
    alone = max(gateways)
    [name] = gateways[alone].overlays.instances
    for end in list(gateways[alone].ends.values()):
        overlaid.network.close(end)
    overlaid.overlay_checks.check_settled(gateways)
    told = found(overlaid.checks)
    assert (2, f"{alone} does not reach all of overlay {name.hex()}") in told
