"""Heads that die are replaced within seconds, and no liar can have an honest one replaced."""

from __future__ import annotations

import pytest

from tree_handler.members.suspicion import Suspicion
from tree_handler.simulation.heads import PATIENCE, HeadedFleet

NOTICED_S = 2.0
"""Three hellos are missed, and the locators have told each other."""
PEACE_S = PATIENCE.last_hold_s + PATIENCE.believed_s + PATIENCE.most_s


@pytest.mark.parametrize(("gateways", "seed"), [(10, 1), (10, 2), (30, 3), (60, 4)])
def test_all_agree_on_the_substitutes_of_dead_heads_five_seconds_after_the_tree_noticed(
    gateways: int, seed: int
) -> None:
    fleet = HeadedFleet(gateways, seed)
    fleet.run(6.0)
    assert list(fleet.disagreements()) == []
    victims = sorted(fleet.heads())[: max(1, gateways // 10)]
    for one in victims:
        fleet.kill(one)
    fleet.run(NOTICED_S + 5.0)
    assert list(fleet.disagreements()) == []
    for one in victims:
        fleet.start(one)
    fleet.run(PATIENCE.most_s + PATIENCE.first_hold_s + 1.0)
    assert list(fleet.disagreements()) == []


@pytest.mark.parametrize("seed", range(4))
def test_after_any_storm_of_deaths_and_returns_all_agree(seed: int) -> None:
    fleet = HeadedFleet(12, seed)
    dead: list[str] = []
    for _ in range(12):
        fleet.run(fleet.chance.uniform(0.2, 6.0))
        if dead and fleet.chance.random() < 0.5:
            fleet.start(dead.pop(0))
        elif len(fleet.gateways) > 4:
            dead.append(fleet.chance.choice(sorted(fleet.gateways)))
            fleet.kill(dead[-1])
    fleet.run(PEACE_S)
    assert list(fleet.disagreements()) == []


def test_a_death_costs_each_gateway_a_few_messages() -> None:
    fleet = HeadedFleet(60, 5)
    fleet.run(6.0)
    before = {one: gateway.said for one, gateway in fleet.gateways.items()}
    fleet.kill(sorted(fleet.heads())[0])
    fleet.run(NOTICED_S + 5.0)
    said = [gateway.said - before[one] for one, gateway in fleet.gateways.items()]
    assert 0 < max(said) <= 20


def lied_about(seed: int) -> tuple[set[str], set[str]]:
    """Return who is not reached in somebody's view because of the lie, and who was ever suspect."""
    fleet = HeadedFleet(12, seed, degree=2, liar="gw-3")
    missed, suspected = set[str](), set[str]()
    fleet.run(4.0)
    for _ in range(120):
        fleet.run(0.25)
        for gateway in fleet.gateways.values():
            missed |= fleet.gateways.keys() - gateway.locator.reached - {gateway.gateway_id}
            suspected |= gateway.members.suspects
    return missed, suspected


def test_a_liar_that_denies_whom_it_reaches_unseats_nobody() -> None:
    missed, suspected = lied_about(1)
    assert missed
    assert suspected == set()


def test_without_answers_of_their_own_they_would_be_unseated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Suspicion, "answered", lambda *_: None)
    assert lied_about(1)[1]
