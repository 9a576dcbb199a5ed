"""Checks of messages in a simulation: none twice, none behind another, none lost or kept back."""

from __future__ import annotations

import pytest

from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.delivery import MAX_HELD_BYTES
from tree_handler.replication.repair import Summary
from tree_handler.replication.replication import Lost, Replication
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.runs import FaultOptions, Options, Simulation
from tree_handler.simulation.traffic import SimulatedTraffic

STREAM = ("gw-0", 5)


class HandedOut:
    """A gateway as a witness sees it."""

    def __init__(self, gateway_id: str = "gw-1") -> None:
        self.gateway_id = gateway_id
        self.replication = Replication(gateway_id, 1)
        self.numbers: dict[Epoch, Intervals] = {}

    def handed(self, header: Header) -> Intervals:
        return self.numbers.setdefault(header.stream, Intervals())


def made(
    first: int, count: int = 1, flags: int = Flags.LOGGED, origin: str = "gw-0", epoch: int = 5
) -> Header:
    rows = [("t", 1, b"")] * count
    return batch.make(origin, epoch, first, rows, flags=flags, origin_time_us=0)[1]


@pytest.fixture
def of() -> SimulatedTraffic:
    options = Options(7, 3, traffic_per_s=0.0, faults=FaultOptions(rate_per_s=0.0))
    return Simulation(options).traffic


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def test_more_in_memory_behind_gaps_than_a_gateway_may_hold_is_found(of: SimulatedTraffic) -> None:
    of.check_bounded("gw-1", MAX_HELD_BYTES)
    assert found(of.checks) == []
    of.check_bounded("gw-1", MAX_HELD_BYTES + 1)
    assert found(of.checks) == [(6, f"gw-1 holds {MAX_HELD_BYTES + 1} bytes behind gaps")]


def test_a_message_that_is_handed_out_twice_is_found(of: SimulatedTraffic) -> None:
    at = HandedOut()
    of.handed(at, made(1, 3), 1)
    of.handed(at, made(4, 3), 4)
    assert found(of.checks) == []
    of.handed(at, made(6, 3), 6)
    assert found(of.checks) == [(4, f"gw-1 hands out {made(6, 3)} from 6 on a second time")]
    assert list(at.numbers[STREAM]) == [(1, 8)]
    of.handed(at, made(8, 3), 9)  # from what is new in it on
    assert found(of.checks) == []


def test_a_logged_message_behind_a_later_one_is_found_and_another_one_may_come_so(
    of: SimulatedTraffic,
) -> None:
    for flags in (Flags.LOGGED, Flags.NONE):
        at = HandedOut()
        for first in (1, 5, 3):
            of.handed(at, made(first, flags=flags), first)
        behind = [(5, f"gw-1 hands out {made(3)} behind 5")] if flags else []
        assert found(of.checks) == behind


def test_what_a_log_has_lost_may_be_handed_out_once_more_and_not_twice(
    of: SimulatedTraffic,
) -> None:
    at, again = HandedOut(), of.disks["gw-1"].again
    of.handed(at, made(1, 9), 1)
    again[STREAM] = Intervals([(3, 6)])
    of.handed(at, made(3, 2), 3)
    assert (found(of.checks), list(again[STREAM])) == ([], [(5, 6)])
    of.handed(at, made(3, 2), 3)
    assert found(of.checks) == [(4, f"gw-1 hands out {made(3, 2)} from 3 on a second time")]
    of.handed(at, made(6, 2), 6)
    assert found(of.checks) == [(4, f"gw-1 hands out {made(6, 2)} from 6 on a second time")]
    of.handed(at, made(6, flags=Flags.NONE), 6)
    assert found(of.checks) == [
        (4, f"gw-1 hands out {made(6, flags=Flags.NONE)} from 6 on a second time")
    ]
    of.handed(at, made(5, 2), 5)
    assert (found(of.checks), len(again[STREAM])) == ([], 0)


def test_a_message_of_an_earlier_life_behind_one_of_a_later_is_found(
    of: SimulatedTraffic,
) -> None:
    at = HandedOut()
    for epoch in (5, 6, 6):
        of.handed(at, made(1 + len(at.numbers), epoch=epoch), 1 + len(at.numbers))
    assert found(of.checks) == []
    of.handed(at, made(9), 9)
    assert found(of.checks) == [(5, f"gw-1 hands out {made(9)} behind epoch 6")]
    of.disks["gw-1"].latest["gw-0"] = 6
    for fine in (
        made(10, flags=Flags.LOGGED | Flags.CONTROL),
        made(10, flags=Flags.NONE),
        made(1, origin="gw-2"),
    ):
        of.handed(at, fine, fine.first)
    # Clients had it before this disk was damaged, and may get it again.
    of.disks["gw-1"].had[STREAM] = Intervals([(11, 12)])
    of.handed(at, made(11, 2), 11)
    assert found(of.checks) == []
    of.handed(at, made(13), 13)
    assert found(of.checks) == [(5, f"gw-1 hands out {made(13)} behind epoch 6")]


def test_of_an_origin_that_lost_its_disk_lives_come_in_any_order(of: SimulatedTraffic) -> None:
    at = HandedOut()
    of.handed(at, made(1, epoch=6), 1)
    of.lose_disk("gw-0")
    of.handed(at, made(1), 1)
    assert found(of.checks) == []


# -- who lacks what --------------------------------------------------------------------------------


@pytest.fixture
def linked() -> Simulation:
    """Three gateways that see each other; all have five messages of gw-0 and handed them out."""
    options = Options(7, 3, traffic_per_s=0.0, faults=FaultOptions(rate_per_s=0.0))
    simulation = Simulation(options)
    simulation.start_all()
    simulation.traffic.begin(simulation.gateways, 0.0)
    simulation.clock.run(10.0)
    for gateway_id in simulation.gateways:
        logs(simulation, gateway_id, made(1, 5))
    assert missing(simulation) == []
    return simulation


def logs(simulation: Simulation, gateway_id: str, header: Header, *, hands: bool = True) -> None:
    disk = simulation.traffic.disks[gateway_id]
    disk.append(b"", header)
    if hands:
        disk.handed[header.stream].add(header.first, header.last)


def missing(simulation: Simulation) -> list[str]:
    return simulation.traffic.missing(simulation.gateways, simulation.network)


def lacks(gateway_id: str, stream: Epoch, first: int, last: int) -> str:
    return f"{gateway_id} lacks {stream} {Intervals([(first, last)])} that others have"


def keeps(gateway_id: str, stream: Epoch, first: int, last: int) -> str:
    return f"{gateway_id} keeps {stream} {Intervals([(first, last)])} from clients"


def test_what_one_has_and_another_lacks_within_reach_is_found(linked: Simulation) -> None:
    logs(linked, "gw-1", made(6, 2))
    assert missing(linked) == [lacks("gw-0", STREAM, 6, 7), lacks("gw-2", STREAM, 6, 7)]
    linked.traffic.check_all_arrived(linked.gateways, linked.network)
    assert found(linked.checks) == [(3, what) for what in missing(linked)]
    for edge in linked.network.edges:
        if "gw-2" in edge.ids:
            linked.network.cut(edge)
    assert missing(linked) == [lacks("gw-0", STREAM, 6, 7)]


def test_notes_of_a_gateway_are_lacked_by_nobody(linked: Simulation) -> None:
    linked.traffic.disks["gw-1"].have["!gw-1", 5].add(1, 1)
    assert missing(linked) == []


def test_what_comes_in_one_run_is_due_to_clients_and_what_waits_behind_a_gap_is_not(
    linked: Simulation,
) -> None:
    other = ("gw-7", 2)
    for gateway_id in linked.gateways:
        logs(linked, gateway_id, made(1, 4, origin="gw-7", epoch=2), hands=False)
        logs(linked, gateway_id, made(6, 4, origin="gw-7", epoch=2), hands=False)
    disks = linked.traffic.disks
    assert missing(linked) == [keeps(one, other, 1, 4) for one in sorted(disks)]
    disks["gw-0"].handed[other].add(1, 4)
    disks["gw-1"].passed[other].add(1, 4)
    disks["gw-2"].handed[other].add(1, 2)
    assert missing(linked) == [keeps("gw-2", other, 3, 4)]


def test_what_a_gateway_made_itself_its_clients_have_from_the_broker(linked: Simulation) -> None:
    epoch = linked.gateways["gw-0"].boot_epoch
    for gateway_id in linked.gateways:
        logs(linked, gateway_id, made(1, 4, epoch=epoch), hands=False)
        control = made(1, 4, Flags.LOGGED | Flags.CONTROL, epoch=epoch)
        logs(linked, gateway_id, control, hands=False)
    assert missing(linked) == [
        keeps(one, stream, 1, 4)
        for one in ("gw-1", "gw-2")
        for stream in (("gw-0", epoch), ("$gw-0", epoch))
    ]


def test_of_logs_that_are_trimmed_only_what_they_hold_is_due(linked: Simulation) -> None:
    logs(linked, "gw-1", made(6, 2))
    logs(linked, "gw-1", made(8, 2))
    linked.traffic.log_batches = 5
    disk = linked.traffic.disks["gw-1"]
    del disk.log[1]
    disk.handed[STREAM] = Intervals([(1, 3), (8, 8)])
    assert missing(linked) == [
        lacks("gw-0", STREAM, 8, 9),
        keeps("gw-1", STREAM, 4, 5).replace("(4, 5)", "(4, 5), (9, 9)"),
        lacks("gw-2", STREAM, 8, 9),
    ]
    for edge in linked.network.edges:
        linked.network.cut(edge)
    assert missing(linked) == []  # alone, it may wait until there is whom to ask


def test_what_is_given_up_may_be_nowhere_within_reach(linked: Simulation) -> None:
    traffic, network = linked.traffic, linked.network

    def given_up(first: int, last: int) -> list[str]:
        traffic.lost("gw-1", network, Lost(STREAM, first, last))
        return [what for invariant, what in found(linked.checks) if invariant == 3]

    assert given_up(6, 9) == []
    assert traffic.given_up == 4
    expected = f"gw-1 gives up {Lost(STREAM, 5, 9)}, of which gw-{{}} has some".format
    assert sorted(given_up(5, 9)) == [expected(number) for number in range(3)]
    assert traffic.given_up == 9
    for gateway_id in ("gw-0", "gw-1"):
        traffic.disks[gateway_id].log.clear()
    traffic.disks["gw-0"].log.append(batch.passed(STREAM, 1, 9))
    assert given_up(5, 9) == [expected(2)]
    for end in list(linked.gateways["gw-2"].ends.values()):
        network.close(end)
    for edge in network.edges:
        if "gw-2" in edge.ids:
            network.cut(edge)
    assert given_up(5, 9) == []


def test_what_is_sent_in_still_time_is_found(of: SimulatedTraffic) -> None:
    of.sent = 7
    of.check_quiet(7)
    assert found(of.checks) == []
    of.check_quiet(5)
    assert found(of.checks) == [(7, "replication sent 2 messages in still time")]


def test_who_waits_for_an_answer_has_something_open(linked: Simulation) -> None:
    traffic = linked.traffic
    traffic.check_nothing_open(linked.gateways)
    assert found(linked.checks) == []
    gateway = linked.gateways["gw-1"]
    assert isinstance(gateway, ReplicatingGateway)
    link = min(gateway.ends)
    gateway.take(gateway.ends[link], Summary({("gw-9", 1): Intervals([(1, 1)])}))
    traffic.check_nothing_open(linked.gateways)
    assert found(linked.checks) == [(7, "gw-1 still waits for a request or a search")]
