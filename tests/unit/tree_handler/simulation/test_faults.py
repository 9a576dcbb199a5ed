"""Faults of a simulation: what each breaks, and when it is put right."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest

from tree_handler.batch import Header, make
from tree_handler.simulation.faults import DAMAGES, FaultOptions
from tree_handler.simulation.network import FIRST, SECOND
from tree_handler.simulation.runs import Options, Simulation

RATES = ("rate_per_s", "stability_s", "outage_s", "lasting")
KINDS = [one.name for one in fields(FaultOptions) if one.name not in RATES]
BEGIN_S = 10.0
APART_S = 10.0
NEVER_S = 1e9
"""So long what is broken stays so, in the mean."""


def batch(origin: str, number: int) -> tuple[bytes, Header]:
    return make(origin, 1, number, [("t", 1, b"")], flags=1, origin_time_us=0)


class Struck:
    """Two settled gateways; one fault of a kind strikes 10 s after its begin, and no other one."""

    def __init__(
        self,
        kind: str,
        *,
        outage_s: float = NEVER_S,
        lasting: float = 0.0,
        until_s: float = NEVER_S,
    ) -> None:
        weights = dict.fromkeys(KINDS, 0.0) | {kind: 1.0}
        options = FaultOptions(
            rate_per_s=1e6, stability_s=APART_S, outage_s=outage_s, lasting=lasting, **weights
        )
        self.simulation = Simulation(Options(7, 2, traffic_per_s=0.0, faults=options))
        self.simulation.start_all()
        self.clock, self.faults = self.simulation.clock, self.simulation.faults
        self.simulation.traffic.begin(self.simulation.gateways, 0.0)
        self.clock.run(BEGIN_S)
        self.before = dict(self.simulation.gateways)
        for gateway_id in self.before:
            for number in range(1, 51):
                self.simulation.traffic.disks[gateway_id].append(*batch("gw-x", number))
        self.faults.begin(until_s)
        self.clock.run(BEGIN_S + APART_S - 0.001)
        assert self.faults.kinds.total() == 0
        self.clock.run(BEGIN_S + APART_S + 0.001)
        assert self.faults.kinds == {kind: 1}
        assert self.faults.last_s == pytest.approx(BEGIN_S + APART_S, abs=0.001)

    @property
    def down(self) -> set[str]:
        """Return the gateways that are down."""
        return self.before.keys() - self.simulation.gateways.keys()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(self.clock.now + seconds)


@pytest.mark.parametrize("kind", ["behead", "kill", "power_cut", "lose_disk", "lose_tail"])
def test_a_gateway_that_is_stopped_starts_again_after_its_outage(kind: str) -> None:
    root = Struck("pause").before["gw-0"].tree.root_id
    one = Struck(kind, outage_s=0.5)
    (gone,) = one.down or {""}
    assert gone in one.before
    assert kind != "behead" or gone == root
    assert not one.before[gone].alive
    struck_s = one.faults.last_s
    one.run(8.0)
    assert one.down == set()
    assert one.simulation.gateways[gone] is not one.before[gone]
    assert struck_s < one.faults.last_s < struck_s + 8.0


@pytest.mark.parametrize(("kind", "silently"), [("kill", False), ("power_cut", True)])
def test_a_power_cut_says_nothing_and_a_process_that_is_killed_closes_its_links(
    kind: str, silently: bool
) -> None:
    one = Struck(kind)
    (left,) = one.simulation.gateways.values()
    one.run(0.2)
    assert bool(left.ends) is silently
    one.run(8.0)
    assert not left.ends


@pytest.mark.parametrize(
    ("kind", "left"),
    [("lose_disk", {0}), ("lose_tail", set(range(38, 50))), ("lose_page", set(range(38, 50)))],
)
def test_a_disk_that_is_damaged_is_one_of_the_gateway_that_stops(kind: str, left: set[int]) -> None:
    one = Struck(kind)
    (gone,) = one.down
    (other,) = one.simulation.gateways
    disks = one.simulation.traffic.disks
    assert len(disks[other].log) == 50
    assert len(disks[gone].log) in left
    numbers = [header.first for _, header in disks[gone].log]
    lost = sorted(set(range(1, 51)) - set(numbers))
    assert lost == list(range(lost[0], lost[0] + len(lost)))
    assert (lost[-1] == 50) is (kind != "lose_page")


def test_a_card_that_is_put_by_comes_back_the_next_time_as_a_later_life_of_its_own() -> None:
    one = Struck("swap_card")
    (gone,) = one.down
    disks = one.simulation.traffic.disks
    newer = disks[gone]
    assert newer.is_damaged
    newer.append(*batch("gw-x", 51))
    one.simulation.traffic.swap_card(gone)
    older = disks[gone]
    assert (len(newer.log), len(older.log)) == (51, 50)
    assert (older.boot_epoch or 0) > (newer.boot_epoch or 0)
    older.append(*batch("gw-x", 61))
    older.append(*batch("gw-x", 62))
    one.simulation.traffic.swap_card(gone)
    assert len(disks[gone].log) == 51
    one.simulation.traffic.swap_card(gone)
    assert len(disks[gone].log) == 52


def test_what_rots_is_of_a_gateway_that_runs() -> None:
    one = Struck("rot")
    assert one.down == set()
    lengths = sorted(len(disk.log) for disk in one.simulation.traffic.disks.values())
    assert 38 <= lengths[0] < lengths[1] == 50


@pytest.mark.parametrize(
    ("kind", "silent"), [("cut", [False] * 2), ("silent", [True] * 2), ("one_way", None)]
)
def test_an_edge_that_is_broken_is_healed_after_its_outage(
    kind: str, silent: list[bool] | None
) -> None:
    for outage_s in (NEVER_S, 1.0):
        one = Struck(kind, outage_s=outage_s)
        (edge,) = one.simulation.network.edges
        assert not edge.usable
        assert edge.cut is (kind == "cut")
        assert edge.silent == silent if silent is not None else any(edge.silent)
        assert silent is not None or not all(edge.silent)
        one.run(8.0)
        assert edge.usable is (outage_s < NEVER_S)


def test_a_stall_ends_in_a_reset_of_what_was_held() -> None:
    one = Struck("stall", outage_s=0.1)
    (edge,) = one.simulation.network.edges
    assert edge.silent == [True, True]
    (connection,) = one.simulation.network.connections
    one.run(8.0)
    assert connection.broken
    assert edge.usable


@pytest.mark.parametrize(("kind", "least", "most"), [("lossy", 0.02, 0.3), ("slow", 0.02, 0.2)])
def test_an_edge_that_is_slow_or_loses_packets_stays_usable(
    kind: str, least: float, most: float
) -> None:
    one = Struck(kind, outage_s=0.5)
    (edge,) = one.simulation.network.edges
    assert edge.usable
    value, other = (edge.loss, edge.message_s)[:: 1 if kind == "lossy" else -1]
    assert least <= value <= most
    assert other == 0
    one.run(8.0)
    assert (edge.loss, edge.message_s) == (0.0, 0.0)


def test_a_reset_breaks_one_connection_and_another_one_is_made() -> None:
    one = Struck("reset")
    one.run(5.0)
    (connection,) = one.simulation.network.connections
    assert connection.made_s > BEGIN_S + APART_S
    assert one.simulation.network.edges[0].usable


@pytest.mark.parametrize("kind", ["pause", "full_disk"])
def test_what_stands_still_does_so_for_a_while_and_not_beyond_the_end_of_faults(kind: str) -> None:
    one = Struck(kind, outage_s=2.0)
    now = one.clock.now

    def until() -> list[float]:
        disks = one.simulation.traffic.disks
        return sorted(
            gateway.paused_until_s if kind == "pause" else disks[gateway_id].full_until_s
            for gateway_id, gateway in one.before.items()
        )

    assert until()[0] == 0.0
    assert now < until()[1] < now + 40.0
    one = Struck(kind, until_s=BEGIN_S + APART_S + 3.0)
    assert until() == [0.0, BEGIN_S + APART_S + 3.0]


def test_a_second_link_is_dialled_though_there_is_one() -> None:
    one = Struck("second_link")
    made: set[float] = set()
    for _ in range(100):
        one.run(0.002)
        made |= {connection.made_s for connection in one.simulation.network.connections}
    assert len(made) == 2


def test_who_dials_itself_is_refused() -> None:
    one = Struck("dial_self")
    one.run(1.0)
    (connection,) = one.simulation.network.connections
    assert connection.edge.ids == ("gw-0", "gw-1")


@pytest.mark.parametrize("lasting", [0.0, 1.0])
def test_at_the_end_what_is_broken_is_put_right_unless_it_lasts(lasting: float) -> None:
    for kind in ("kill", "cut", "silent"):
        one = Struck(kind, lasting=lasting)
        one.run(1.0)
        one.faults.end()
        assert one.faults.last_s == one.clock.now
        (edge,) = one.simulation.network.edges
        is_whole = edge.usable and not one.down
        assert is_whole is (lasting == 0.0)
        one.run(2 * APART_S)
        assert one.faults.kinds.total() == 1
        assert (edge.usable and not one.down) is is_whole


@pytest.mark.parametrize("kind", ["lossy", "slow"])
def test_no_edge_stays_slow_or_loses_packets_behind_the_end(kind: str) -> None:
    one = Struck(kind, lasting=1.0)
    one.faults.end()
    (edge,) = one.simulation.network.edges
    assert (edge.loss, edge.message_s) == (0.0, 0.0)


def test_what_is_to_be_put_right_after_the_end_stays_as_it_is() -> None:
    for kind in ("kill", "cut"):
        one = Struck(kind, outage_s=5.0, lasting=1.0)
        one.faults.end()
        ended_s = one.faults.last_s
        one.run(50.0)
        assert one.faults.last_s == ended_s
        assert bool(one.down) is (kind == "kill")
        assert one.simulation.network.edges[0].usable is (kind == "kill")


def test_a_network_without_faults_has_none() -> None:
    for options in (
        FaultOptions(rate_per_s=0.0),
        FaultOptions(rate_per_s=9.0, **dict.fromkeys(KINDS, 0.0)),
    ):
        simulation = Simulation(Options(7, 2, traffic_per_s=0.0, faults=options))
        simulation.start_all()
        simulation.storm()
        assert simulation.faults.kinds.total() == 0


def test_in_a_quarter_of_the_runs_whose_disks_may_be_damaged_they_are() -> None:
    kinds = ("lose_tail", "lose_page", "swap_card", "rot")

    def damages(options: FaultOptions) -> set[float]:
        return {getattr(options, kind) for kind in kinds}

    drawn = [FaultOptions.drawn(random.Random(1), random.Random(seed)) for seed in range(400)]
    whole = FaultOptions.drawn(random.Random(1), None)
    assert damages(whole) == {0.0}
    damaged = replace(whole, **dict.fromkeys(kinds, 1.0))
    assert set(drawn) == {whole, damaged}
    assert 60 < drawn.count(damaged) < 140
    later = [FaultOptions().with_damaged_disks(random.Random(seed)) for seed in range(400)]
    assert later.count(FaultOptions()) + drawn.count(damaged) == 400
    assert {frozenset(damages(one)) for one in later} == {frozenset({0.0}), frozenset({1.0})}
    assert DAMAGES == 0.25
    assert (FIRST, SECOND) == (0, 1)
