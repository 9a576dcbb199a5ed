"""Look-ups and requests keep their promises while gateways die, move and are cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.tools.directory_simulation.costs import measure
from gateway.tools.directory_simulation.world import DirectoryOptions, DirectoryWorld
from resource_directory.registry import Registry

GATEWAYS_MOST = 9


def violations(seed: int, gateways: int) -> list[str]:
    world = DirectoryWorld(DirectoryOptions(seed, gateways))
    report = world.run()
    assert world.done["look-ups"] > 30
    assert world.done["answers"] > 10
    return [str(one) for one in report.violations]


def test_what_is_told_was_there_each_answer_is_its_gateways_and_after_peace_all_agree(
    pytestconfig: pytest.Config,
) -> None:
    for seed in range(1, 400 if pytestconfig.getoption("--soak") else 9):
        assert violations(seed, 2 + seed % (GATEWAYS_MOST - 1)) == []


def test_a_fleet_of_a_thousand_keeps_them_too(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--soak"):
        pytest.skip("takes minutes: --soak")
    assert violations(1, 1_000) == []


def test_a_criterion_that_few_meet_costs_few_messages_and_a_change_one_over_each_link() -> None:
    costs = {cost.what: cost for cost in measure(30, seed=2)}
    assert costs["a new kind of device"].messages == 29
    few, every = (costs[f"look-up scope=all{more}"] for more in (" rt=new-kind", ""))
    assert few.found == 1
    assert few.messages <= 2 * every.messages / 10
    assert every.found > 29 * 2
    assert costs["a request to all (256 at most)"].found == 30


def _keeps_answers_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.coap.fleet_directory.kept.FRESH_S", 1e9)


def _never_tells_of_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource_directory.digest.AFTER_S", 1e6)


def _keeps_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "remove", lambda *_, **__: None)


@pytest.mark.parametrize(
    "spoil", [_keeps_answers_for_ever, _never_tells_of_news, _keeps_what_is_over]
)
def test_a_fleet_that_is_spoilt_is_found_out(
    spoil: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch)
    assert any(violations(seed, 6) for seed in range(1, 9))
