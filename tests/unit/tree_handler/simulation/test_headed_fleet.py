"""A fleet of which heads die: its links come back, and its check finds who disagrees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tree_handler.members.suspicion import Question
from tree_handler.simulation.heads import REDIAL_S, HeadedFleet


@pytest.fixture
def fleet() -> HeadedFleet:
    made = HeadedFleet(8, 1)
    made.run(6.0)
    assert list(made.disagreements()) == []
    return made


def linked(fleet: HeadedFleet) -> set[tuple[str, str]]:
    return {
        connection.edge.ids
        for connection in fleet.network.connections
        if all(end.open for end in connection.ends)
    }


def test_a_link_that_ends_is_dialled_again_however_often(fleet: HeadedFleet) -> None:
    edges = {edge.ids for edge in fleet.network.edges}
    assert linked(fleet) == edges
    for _ in range(3):
        for connection in fleet.network.connections:
            fleet.network.reset(connection)
        fleet.run(0.01)
        assert len(linked(fleet)) < len(edges)
        fleet.run(2 * REDIAL_S)
        assert linked(fleet) == edges
        assert len(fleet.network.connections) == len(edges)


def test_a_gateway_that_is_dead_is_neither_dialled_nor_dials(fleet: HeadedFleet) -> None:
    gone = fleet.gateways["gw-3"]
    fleet.kill("gw-3")
    fleet.run(10.0)
    assert linked(fleet) == {edge.ids for edge in fleet.network.edges if "gw-3" not in edge.ids}
    assert gone.ends == {}
    fleet.start("gw-3")
    fleet.run(2.0)
    assert linked(fleet) == {edge.ids for edge in fleet.network.edges}
    assert fleet.gateways["gw-3"].boot_epoch > gone.boot_epoch


def test_who_takes_a_gateway_for_suspect_that_lives_is_named(fleet: HeadedFleet) -> None:
    (root, *_) = fleet.heads()
    one = fleet.gateways[next(name for name in fleet.gateways if name != root)]
    one.members.suspect(frozenset({root}))
    found = list(fleet.disagreements())
    assert found
    assert all(what.startswith(f"{one.gateway_id}: ") for what in found)
    assert all(what.endswith(f" differ; it suspects frozenset({{{root!r}}})") for what in found)


def test_who_does_not_suspect_the_dead_is_named_with_a_head_that_is_gone(
    fleet: HeadedFleet,
) -> None:
    victim = min(fleet.heads())
    fleet.kill(victim)
    named = {what.split(":")[0] for what in fleet.disagreements()}
    assert named >= fleet.gateways.keys()
    fleet.run(10.0)
    assert list(fleet.disagreements()) == []
    assert victim not in fleet.heads()


def test_a_record_that_one_gateway_has_otherwise_makes_it_disagree(fleet: HeadedFleet) -> None:
    record = fleet.records["gw-5"]
    changed = replace(record, version=record.version + 1, domain="elsewhere")
    fleet.gateways["gw-2"].members.update(changed)
    assert {what.split(":")[0] for what in fleet.disagreements()} == {"gw-2"}


def test_a_flooded_message_reaches_all_once_and_whom_it_asks_for_answers(
    fleet: HeadedFleet,
) -> None:
    before = {one: gateway.said for one, gateway in fleet.gateways.items()}
    fleet.gateways["gw-0"].flood(Question(("gw-4",)))
    fleet.run(0.5)
    said = {one: gateway.said - before[one] for one, gateway in fleet.gateways.items()}
    # The question, and the answer of gw-4: each passed on by each gateway once.
    assert set(said.values()) == {2}
    assert fleet.gateways["gw-0"].asked == 1
