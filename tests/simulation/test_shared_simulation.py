"""Shared subscriptions in simulated networks: one member a message, and each guard needed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler.holders import SharedGroup
from tree_handler.sharing.groups import FleetGroups
from tree_handler.simulation.runs import run, run_many
from tree_handler.simulation.shared import SharedOptions

GATEWAYS = 4


def any_broken(invariant: int, likely: Sequence[int] = range(1, 5)) -> bool:
    """Return whether what a test has taken away shows in one of many runs."""

    def shows(seed: int) -> bool:
        report = run(SharedOptions.drawn(seed, GATEWAYS))
        return any(violation.invariant == invariant for violation in report.violations)

    return first_seed(shows, within=50, likely=likely) >= 0


def test_each_message_is_given_to_members_of_one_gateway_whatever_breaks() -> None:
    seen: Counter[str] = Counter()
    for report in run_many(3, GATEWAYS, 2, SharedOptions):
        assert not report.violations, str(report)
        seen.update(published=report.published, faults=report.faults)
    assert seen["published"] > 150
    assert seen["faults"] > 10


@pytest.mark.timeout(3_600)
@pytest.mark.soak("many runs of what one run shows")
def test_the_same_holds_in_hundreds_of_networks() -> None:
    for gateways in (2, 3, 5, 8):
        for report in run_many(60, gateways, 1, SharedOptions):
            assert not report.violations, str(report)


def test_if_gateways_did_not_obey_the_origin_members_of_two_would_get_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FleetGroups, "gives", lambda *_: True)
    assert any_broken(4)


def test_if_a_holder_without_members_kept_a_message_nobody_would_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(self: FleetGroups, topic: str, group: SharedGroup) -> str:
        return "nobody"

    monkeypatch.setattr(FleetGroups, "next_holder", nobody)
    assert any_broken(3)
