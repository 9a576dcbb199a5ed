"""Checks of a fleet over years find what is lacked, otherwise retained, or kept for no reason."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from tree_handler.intervals import Intervals
from tree_handler.replication.replication import Lost
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.years import YearsOptions, YearsSimulation
from tree_handler.simulation.years_gateway import YearsGateway
from tree_handler.simulation.years_tables import SLACK, STREAMS_OF_ONE, FleetSize, too_large
from tree_handler.simulation.years_traffic import TEXTS, YearsTraffic


@pytest.fixture
def years() -> YearsSimulation:
    """Three gateways that retain what gw-0 wrote on one topic, and a deletion of another."""
    simulation = YearsSimulation(replace(YearsOptions.drawn(1, 3), degree=0.0))
    simulation.start_all()
    simulation.traffic.begin(simulation.gateways, 0.0)
    simulation.clock.run(30.0)
    for topic, payload in (("kept", b"1"), ("gone", b"1"), ("gone", b"")):
        assert traffic(simulation).write(simulation.gateways["gw-0"], topic, payload)
    simulation.clock.run(60.0)
    assert lacking(simulation) == []
    return simulation


def traffic(simulation: YearsSimulation) -> YearsTraffic:
    return cast(YearsTraffic, simulation.traffic)


def gateway(simulation: YearsSimulation, gateway_id: str) -> YearsGateway:
    return cast(YearsGateway, simulation.gateways[gateway_id])


def lacking(simulation: YearsSimulation) -> list[str]:
    return list(traffic(simulation).lacking(simulation.gateways, simulation.network))


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def version_of(simulation: YearsSimulation, topic: str) -> RetainedVersion:
    version = gateway(simulation, "gw-0").store.versions.version(topic)
    assert version is not None
    return version


@pytest.mark.parametrize("earlier", ["gw-0", "gw-2"])
def test_the_newest_that_is_on_any_disk_within_reach_must_be_everywhere(
    years: YearsSimulation, earlier: str
) -> None:
    version = version_of(years, "kept")
    newer = version._replace(physical_us=version.physical_us + 1)
    traffic(years).years_disk("gw-1").written["kept"] = newer
    traffic(years).years_disk(earlier).written["kept"] = version
    assert lacking(years) == [f"gw-{one} has kept {version}, not {newer}" for one in range(3)]


def test_what_one_retains_and_another_does_not_is_named_at_the_later_one(
    years: YearsSimulation,
) -> None:
    told = gateway(years, "gw-0").store.told("kept", 0.0)
    assert told is not None
    newer = replace(told, version=told.version._replace(logical=told.version.logical + 1))
    store = gateway(years, "gw-1").store
    store.take(newer, 0.0)
    traffic(years).texts["kept", newer.version] = b"1"
    assert lacking(years) == [f"gw-1 has kept {newer.version}, not {told.version}"]
    other = replace(told, topic="other")
    traffic(years).texts["other", told.version] = b"1"
    store.take(other, 0.0)
    assert lacking(years)[1:] == [f"gw-1 has other {told.version}, not None"]


def test_what_is_retained_must_be_what_was_written(years: YearsSimulation) -> None:
    version = version_of(years, "kept")
    traffic(years).texts["kept", version] = b"2"
    why = f"retains on kept not what was written as {version}"
    assert lacking(years) == [f"gw-{one} {why}" for one in range(3)]


def test_a_deletion_that_came_back_is_found(years: YearsSimulation) -> None:
    disk = traffic(years).years_disk("gw-2")
    grave = disk.graves["gone"]
    disk.graves["gone"] = replace(grave, payload=b"1")
    assert lacking(years) == [
        f"gw-2 retains on gone not what was written as {version_of(years, 'gone')}"
    ]


def test_what_is_in_a_log_within_reach_and_lacked_is_found_once_of_each(
    years: YearsSimulation,
) -> None:
    stream = ("gw-0", gateway(years, "gw-0").boot_epoch)
    disk = traffic(years).years_disk("gw-1")
    disk.have[stream] = Intervals([(1, 2)])
    expected = f"gw-1 lacks {stream} {Intervals([(3, 3)])} that others have"
    assert lacking(years) == [expected]
    for edge in years.network.edges:
        if "gw-1" in edge.ids:
            years.network.cut(edge)
    assert lacking(years) == []


def test_what_is_given_up_may_be_with_nobody_who_has_been_linked_for_a_second(
    years: YearsSimulation,
) -> None:
    stream = ("gw-0", gateway(years, "gw-0").boot_epoch)

    def given_up(first: int, last: int) -> set[str]:
        before = traffic(years).given_up
        lost = Lost(stream, first, last)
        traffic(years).lost("gw-1", years.network, lost)
        assert traffic(years).given_up == before + last - first + 1
        told = found(years.checks)
        assert all(what.startswith(f"gw-1 gives up {lost}, of which ") for _, what in told)
        assert all(number == 3 for number, _ in told)
        return {what.split()[-3] for _, what in told}

    assert given_up(4, 9) == set()
    assert given_up(3, 9) == {"gw-0", "gw-1", "gw-2"}
    for connection in years.network.connections:
        connection.made_s = years.clock.now - 1.0
    assert given_up(3, 9) == {"gw-1"}
    for connection in years.network.connections:
        connection.made_s = years.clock.now - 1.001
    assert given_up(3, 9) == {"gw-0", "gw-1", "gw-2"}


def test_tables_are_bounded_by_who_lives_and_what_is_retained(years: YearsSimulation) -> None:
    size = FleetSize(3, 5, 7)
    assert size.most("tree._neighbours") == 2 * 3 + 2 * 7 + SLACK
    assert size.most("replication.have") == 5 * STREAMS_OF_ONE
    assert size.most("replication.order._epochs") == 2 * 5 + SLACK
    assert size.most("versions._hashes") > 100
    one = gateway(years, "gw-1")
    assert list(too_large(one, FleetSize(3, 3, 2))) == []
    have = one.replication.have
    for epoch in range(STREAMS_OF_ONE):
        have["gw-9", 7 + epoch] = Intervals([(1, 1)])
    assert list(too_large(one, FleetSize(3, 9, 2))) == []
    have["$gw-9", 7] = Intervals([(1, 1)])
    assert list(too_large(one, FleetSize(3, 9, 2))) == [
        f"gw-1 knows {STREAMS_OF_ONE + 1} streams of gw-9"
    ]


def test_of_what_was_written_the_simulation_forgets_what_nobody_has_and_is_long_past(
    years: YearsSimulation,
) -> None:
    of = traffic(years)
    version = version_of(years, "kept")
    filler = [("t", version._replace(logical=number)) for number in range(1, 2 * TEXTS - 2)]
    of.texts |= dict.fromkeys(filler, b"")
    assert len(of.texts) == 2 * TEXTS
    of.expire(years.gateways)
    assert len(of.texts) == 2 * TEXTS
    of.texts["t", version._replace(logical=2 * TEXTS)] = b""
    of.expire(years.gateways)
    # With the last ones what is retained stays, and the deletion.
    assert len(of.texts) == TEXTS + 2
    assert of.texts["kept", version] == b"1"
    assert of.texts["gone", version_of(years, "gone")] == b""


def test_a_disk_makes_deletions_as_old_as_they_are_by_a_clock_that_was_right(
    years: YearsSimulation,
) -> None:
    disk = traffic(years).years_disk("gw-1")
    one = gateway(years, "gw-1")
    buried = one.store.versions.tombstone("gone")
    assert buried is not None
    age_s = one.now - buried.since_s
    one.stop(silently=False)
    assert disk.buried_s["gone"] == pytest.approx(years.clock.now - age_s)
    years.clock.leap(1_000.0)
    disk.grow_old(years.clock.now)
    assert disk.graves["gone"].dead_s == pytest.approx(1_000.0 + age_s)
    disk.grow_old(0.0)
    assert disk.graves["gone"].dead_s == 0.0
