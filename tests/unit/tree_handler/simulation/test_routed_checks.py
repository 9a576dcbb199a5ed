"""Checks of routed messages in a simulation find what is lost, astray or kept back."""

from __future__ import annotations

from typing import cast

import pytest

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Lost
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.routed import RoutedOptions, RoutedSimulation, RoutedTraffic
from tree_handler.simulation.routed_gateway import RoutedGateway
from tree_handler.simulation.runs import FaultOptions

CALM = FaultOptions(rate_per_s=0.0)
NOTHING = Intervals()


@pytest.fixture
def routed() -> RoutedSimulation:
    """Three gateways; of gw-0 and gw-1 clients want what three batches of gw-2 have."""
    simulation = RoutedOptions(7, 3, traffic_per_s=0.0, faults=CALM).simulation()
    simulation.start_all()
    simulation.traffic.begin(simulation.gateways, 0.0)
    simulation.clock.run(10.0)
    for gateway_id in ("gw-0", "gw-1"):
        gateway(simulation, gateway_id).subscribe("a/#")
    simulation.clock.run(20.0)
    for _ in range(3):
        gateway(simulation, "gw-2").publish([Entry("a", b"", qos=1)] * 2, Flags.LOGGED)
    simulation.clock.run(40.0)
    assert missing(simulation) == []
    assert found(simulation.checks) == []
    return simulation


def gateway(simulation: RoutedSimulation, gateway_id: str) -> RoutedGateway:
    return cast(RoutedGateway, simulation.gateways[gateway_id])


def traffic(simulation: RoutedSimulation) -> RoutedTraffic:
    return cast(RoutedTraffic, simulation.traffic)


def missing(simulation: RoutedSimulation) -> list[str]:
    return traffic(simulation).missing(simulation.gateways, simulation.network)


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def stream(simulation: RoutedSimulation) -> batch.Epoch:
    return "gw-2", gateway(simulation, "gw-2").boot_epoch


def test_a_message_that_is_due_and_not_there_is_named_and_others_are_not(
    routed: RoutedSimulation,
) -> None:
    disk, sent = traffic(routed).disks["gw-1"], stream(routed)
    assert disk.have[sent] == Intervals([(1, 6)])
    for gone in (1, 4, 6):
        disk.have[sent] = Intervals([(1, 6)]).without(Intervals([(gone, gone)]))
        assert missing(routed) == [f"gw-1 lacks {sent} {Intervals([(gone, gone)])}"]
    # Passed over is not there; nobody misses what nobody has named it for.
    disk.have[sent] = Intervals([(1, 6)])
    disk.passed[sent].add(3, 4)
    assert missing(routed) == [f"gw-1 lacks {sent} {Intervals([(3, 4)])}"]
    disk.passed.clear()
    ledger = traffic(routed).ledger
    ledger.due[sent, 5] = frozenset(("gw-0",))
    disk.have[sent] = Intervals([(1, 6)]).without(Intervals([(5, 5)]))
    assert missing(routed) == []


def test_a_message_that_was_not_sent_to_a_gateway_is_astray_in_its_log(
    routed: RoutedSimulation,
) -> None:
    disk, sent = traffic(routed).disks["gw-1"], stream(routed)
    ledger = traffic(routed).ledger

    def logs(first: int, count: int, flags: int, origin: str = "gw-2") -> Header:
        rows = [("a", 1, b"")] * count
        made = batch.make(origin, sent[1], first, rows, flags=flags, origin_time_us=0)
        disk.log.append(made)
        disk.handed[made[1].stream].add(made[1].first, made[1].last)
        return made[1]

    for number in range(10, 15):
        ledger.sent_to[sent, number] = frozenset(("gw-0", "gw-1"))
    logs(10, 5, Flags.LOGGED)
    logs(1, 5, Flags.LOGGED | Flags.CONTROL)
    logs(10, 1, Flags.LOGGED, "gw-1")
    disk.log.append(batch.passed(sent, 20, 30))
    assert missing(routed) == []
    for number in (10, 12, 14):
        ledger.sent_to[sent, number] = frozenset(("gw-0",))
        [(_, header)] = [row for row in disk.log if row[1].first == 10 and row[1].stream == sent]
        assert missing(routed) == [f"gw-1 has {header}, not sent to it"]
        ledger.for_everybody[sent].add(number, number)
        assert missing(routed) == []


def test_a_message_that_is_here_and_not_handed_out_is_kept_from_clients(
    routed: RoutedSimulation,
) -> None:
    disk, sent = traffic(routed).disks["gw-1"], stream(routed)
    disk.handed[sent] = Intervals([(1, 3), (5, 6)])
    kept = f"gw-1 keeps {sent} {Intervals([(4, 4)])} from clients"
    assert missing(routed) == [kept, kept]  # by what is due of its origin, and by what is here
    # What it has told as lost may come to its origin later.
    told_lost = Lost(sent, 4, 4)
    traffic(routed).disks["gw-2"].log.clear()
    traffic(routed).lost("gw-1", routed.network, told_lost)
    assert missing(routed) == [kept]
    disk.log.clear()
    assert missing(routed) == []


def test_who_does_not_know_the_latest_record_of_another_is_named(
    routed: RoutedSimulation,
) -> None:
    interests = gateway(routed, "gw-2").interests
    known = interests.get("gw-0")
    interests.forget("gw-0")
    assert missing(routed) == [f"gw-2 does not know what gw-0 wants: {known}"]


def test_what_is_given_up_may_not_be_in_the_log_of_its_origin(routed: RoutedSimulation) -> None:
    messages, sent = traffic(routed), stream(routed)
    for first, last, is_there in ((6, 9, True), (7, 9, False), (1, 1, True)):
        lost = Lost(sent, first, last)
        before = messages.given_up
        messages.lost("gw-1", routed.network, lost)
        assert messages.given_up == before + last - first + 1
        expected = [(3, f"gw-1 gives up {lost}, which gw-2 has")] if is_there else []
        assert found(routed.checks) == expected


def test_what_was_given_up_in_the_4_s_behind_a_swap_of_its_origins_card_is_no_loss(
    routed: RoutedSimulation,
) -> None:
    messages, sent, now = traffic(routed), stream(routed), routed.clock.now
    messages.swap_card("gw-2")
    for waited_s in (0.0, 3.9, 4.0):
        routed.clock.run(now + waited_s)
        messages.lost("gw-1", routed.network, Lost(sent, 1, 1))
    assert found(routed.checks) == [(3, f"gw-1 gives up {Lost(sent, 1, 1)}, which gw-2 has")]


def test_a_log_that_is_trimmed_keeps_back_no_more_than_it_holds(routed: RoutedSimulation) -> None:
    messages, sent = traffic(routed), stream(routed)
    disk = messages.disks["gw-1"]
    disk.handed[sent] = Intervals([(3, 3)])
    kept = "gw-1 keeps {} {} from clients".format
    assert kept(sent, Intervals([(1, 2)])) in missing(routed)
    disk.log[:] = [row for row in disk.log if row[1].stream != sent or row[1].first != 1]
    assert kept(sent, Intervals([(1, 2)])) in missing(routed)
    messages.most_batches = 100.0
    expected = [Intervals([one]) for one in ((4, 4), (5, 6), (4, 6))]
    assert missing(routed) == [kept(sent, one) for one in expected]
