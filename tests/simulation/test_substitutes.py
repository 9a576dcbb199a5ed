"""Goal: no gateway stays alone that knows of others; no loop, no storm, and home again.

Method: a fleet of configured neighbours alone, in virtual time, over the production cores.
"""

from __future__ import annotations

import pytest

from tree_handler.members.substitution import SubstituteTimes
from tree_handler.simulation.substitutes import ParentedFleet

TIMES = SubstituteTimes(after_s=10.0, home_s=20.0, longest_home_s=80.0)
FOUND_S = 12.5 + 3.0
"""`after_s` with its jitter, a dial, and the tree's answer."""


@pytest.mark.parametrize(
    ("gateways", "seed"), [(4, 1), (13, 2), pytest.param(50, 3, marks=pytest.mark.soak)]
)
def test_children_of_a_dead_gateway_join_the_tree_elsewhere_and_return_when_it_is_back(
    gateways: int, seed: int
) -> None:
    fleet = ParentedFleet(gateways, seed, TIMES)
    fleet.run(5.0)
    assert list(fleet.apart()) == []
    assert fleet.substitutes() == {}
    for victim in ("gw-1", "gw-0"):
        fleet.kill(victim)
        children = {one for one, parent in fleet.parents.items() if parent == victim}
        fleet.run(9.0 - 2.0)
        assert fleet.substitutes() == {}  # it may be a restart
        fleet.run(2.0 + FOUND_S)
        assert list(fleet.apart()) == []
        assert fleet.substitutes().keys() <= children
        fleet.start(victim)
        fleet.run(20.0 + 3.0)
        assert fleet.substitutes() == {}
        fleet.run(25.0)
        assert list(fleet.apart()) == []
    assert sum(one.dialled for one in fleet.substituting.values()) <= 6
    assert fleet.checks.violations == []


def test_a_gateway_whose_parent_is_as_lost_as_itself_keeps_its_substitute() -> None:
    """gw-1 comes back without its own parent, which never does: its children must not go home."""
    fleet = ParentedFleet(7, 5, TIMES)
    fleet.run(5.0)
    fleet.kill("gw-0")
    fleet.kill("gw-1")
    fleet.run(FOUND_S + 40.0)  # the dead are tried, too
    assert list(fleet.apart()) == []
    fleet.start("gw-1")
    fleet.run(150.0)
    assert list(fleet.apart()) == []
    assert fleet.checks.violations == []


@pytest.mark.parametrize(
    ("seed", "gateways", "rounds"),
    [(0, 8, 8), *(pytest.param(one, 20, 30, marks=pytest.mark.soak) for one in range(1, 8))],
)
def test_after_any_storm_of_deaths_and_returns_all_are_together_and_few_were_dialled(
    seed: int, gateways: int, rounds: int
) -> None:
    fleet = ParentedFleet(gateways, seed, TIMES)
    dead, seconds = list[str](), 0.0
    for _ in range(rounds):
        wait_s = fleet.chance.uniform(1.0, 30.0)
        seconds += wait_s
        fleet.run(wait_s)
        if dead and fleet.chance.random() < 0.5:
            fleet.start(dead.pop(0))
        elif len(fleet.gateways) > gateways // 2:
            dead.append(fleet.chance.choice(sorted(fleet.gateways)))
            fleet.kill(dead[-1])
    fleet.run(120.0)
    assert list(fleet.apart()) == []
    assert fleet.checks.violations == []
    dialled = [one.dialled for one in fleet.substituting.values()]
    assert max(dialled) <= (seconds + 120.0) / 20.0  # never one after the other without a pause
    for one in dead:
        fleet.start(one)
    fleet.run(120.0)
    assert list(fleet.apart()) == []
    assert fleet.substitutes() == {}


def test_without_substitutes_they_would_stay_alone() -> None:
    fleet = ParentedFleet(7, 2, SubstituteTimes(after_s=0.0))
    fleet.run(5.0)
    fleet.kill("gw-1")
    fleet.run(60.0)
    assert len(list(fleet.apart())) > 3


def test_all_children_of_one_lost_parent_gather_with_one_dial_each() -> None:
    fleet = ParentedFleet(10, 4, TIMES, fan_out=9)
    fleet.run(5.0)
    fleet.kill("gw-0")
    fleet.run(FOUND_S)
    assert list(fleet.apart()) == []
    assert max(one.dialled for one in fleet.substituting.values()) == 1
    fleet.start("gw-0")
    fleet.run(30.0)
    assert list(fleet.apart()) == []
    assert fleet.substitutes() == {}
    assert fleet.checks.violations == []
