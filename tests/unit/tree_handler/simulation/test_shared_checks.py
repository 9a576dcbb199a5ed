"""Checks of shared subscriptions in a simulation: each message has one member, and has one."""

from __future__ import annotations

from typing import cast

import pytest

from tree_handler.batch import Entry, Flags
from tree_handler.sharing import handed_on
from tree_handler.sharing.handed_on import HOPS_MAX, HandedOn
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.runs import FaultOptions
from tree_handler.simulation.shared import (
    GROUPS,
    STEADFAST,
    SharedGateway,
    SharedOptions,
    SharedSimulation,
    SharedTraffic,
)

CALM = FaultOptions(rate_per_s=0.0)
GROUP = GROUPS[0]


@pytest.fixture
def shared() -> SharedSimulation:
    """Three gateways; the first has a member of each shared subscription, which is away."""
    simulation = SharedOptions(7, 3, traffic_per_s=0.0, faults=CALM).simulation()
    simulation.start_all()
    simulation.traffic.begin(simulation.gateways, 0.0)
    simulation.clock.run(10.0)
    assert all(len(one.reached) == 2 for one in gateways(simulation).values())
    return simulation


def gateways(simulation: SharedSimulation) -> dict[str, SharedGateway]:
    return {one: cast(SharedGateway, each) for one, each in simulation.gateways.items()}


def traffic(simulation: SharedSimulation) -> SharedTraffic:
    return cast(SharedTraffic, simulation.traffic)


def connect(simulation: SharedSimulation, gateway_id: str) -> None:
    gateways(simulation)[gateway_id].connect(GROUP, is_online=True, lasts=False)
    simulation.clock.run(simulation.clock.now + 5.0)


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def hand_on(simulation: SharedSimulation, to: str, hops: int = 1) -> None:
    """Let gw-2 hand a message on."""
    said = HandedOn(GROUP, hops, Entry("t/1", b"x", 1)).encode()
    sender = gateways(simulation)["gw-2"]
    sender.publish([Entry(handed_on.TOPIC + to, said, qos=1)], Flags.LOGGED | Flags.CONTROL)
    simulation.clock.run(simulation.clock.now + 5.0)


def test_a_message_that_members_of_two_gateways_are_given_is_found(
    shared: SharedSimulation,
) -> None:
    of = traffic(shared)
    for gateway_id, group, payload in (
        ("gw-1", GROUP, b"1"),
        ("gw-1", GROUP, b"1"),
        ("gw-2", GROUPS[1], b"1"),
        ("gw-2", GROUP, b"2"),
    ):
        of.given(gateway_id, group, payload)
    assert found(shared.checks) == []
    of.given("gw-2", GROUP, b"1")
    assert found(shared.checks) == [(4, f"b'1' for {GROUP} is given at gw-1 and at gw-2")]


def test_what_is_due_and_nobody_was_given_is_found_where_all_reach_each_other(
    shared: SharedSimulation,
) -> None:
    of = traffic(shared)
    of.due |= {(GROUP, b"1"), (GROUP, b"2"), (GROUP, b"3")}
    of.given("gw-1", GROUP, b"1")
    of.unclaimed(GROUP, b"2")
    of.check_all_arrived(shared.gateways, shared.network)
    assert found(shared.checks) == [(3, f"nobody of {GROUP} is given b'3'")]
    gone = shared.gateways.pop("gw-2")
    of.check_all_arrived(shared.gateways, shared.network)
    assert found(shared.checks) == []
    shared.gateways["gw-2"] = gone
    for edge in shared.network.edges:
        if "gw-2" in edge.ids:
            shared.network.cut(edge)
    shared.clock.run(shared.clock.now + 5.0)
    of.check_all_arrived(shared.gateways, shared.network)
    assert found(shared.checks) == []


def test_what_is_handed_on_is_given_to_a_member_that_is_there(shared: SharedSimulation) -> None:
    connect(shared, "gw-1")
    hand_on(shared, "gw-1")
    assert traffic(shared).took == {(GROUP, b"x"): "gw-1"}


def test_what_is_handed_on_to_whom_nobody_is_any_more_goes_on_to_the_next_holder(
    shared: SharedSimulation,
) -> None:
    hand_on(shared, "gw-1")
    assert traffic(shared).took == {(GROUP, b"x"): STEADFAST}


def test_what_was_handed_on_as_often_as_may_be_is_due_no_more(shared: SharedSimulation) -> None:
    of = traffic(shared)
    of.due.add((GROUP, b"x"))
    hand_on(shared, "gw-1", HOPS_MAX)
    assert (of.took, of.due) == ({}, set())


def test_a_message_is_for_the_one_member_that_is_connected_anywhere(
    shared: SharedSimulation,
) -> None:
    connect(shared, "gw-1")
    of, accepting = traffic(shared), gateways(shared)["gw-2"]
    holders = accepting.accept("t/1", b"5", 1)
    assert holders is not None
    assert {(*GROUP, "gw-1")} <= set(holders)
    shared.clock.run(shared.clock.now + 5.0)
    assert of.took == {
        (GROUP, b"5"): "gw-1",
        **{(group, b"5"): STEADFAST for group in GROUPS[1:]},
    }
    assert found(shared.checks) == []


def test_a_disk_that_takes_nothing_accepts_nothing(shared: SharedSimulation) -> None:
    traffic(shared).disks["gw-2"].full_until_s = 1e9
    assert gateways(shared)["gw-2"].accept("t/1", b"5", 1) is None
    assert traffic(shared).took == {}
