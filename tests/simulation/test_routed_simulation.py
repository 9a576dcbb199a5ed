"""Routed mode under faults: nothing lost, doubled or astray; and that the checks bite."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tree_handler.replication.epoch_order import EpochOrder
from tree_handler.routing.accounts import Accounts
from tree_handler.routing.destination import Destination
from tree_handler.routing.routed import Routed
from tree_handler.simulation.routed import RoutedSimulation
from tree_handler.simulation.runs import Options, Report


def storm(seed: int, gateways: int, *, lose_disk: bool = True) -> Report:
    options = Options.drawn(seed, gateways)
    if not lose_disk:
        options = replace(options, faults=replace(options.faults, lose_disk=0.0))
    simulation = RoutedSimulation(options)
    simulation.start_all()
    simulation.storm()
    return simulation.calm()


@pytest.mark.parametrize("gateways", [2, 3, 5, 10])
def test_every_message_reaches_whom_the_origin_knew_to_want_it_once_and_in_order(
    gateways: int, pytestconfig: pytest.Config
) -> None:
    for seed in range(500 if pytestconfig.getoption("--soak") else 60 // gateways):
        report = storm(seed, gateways)
        assert not report.violations, report


@pytest.mark.parametrize(("seed", "gateways"), [(6, 3), (26, 4)])
def test_an_origin_that_lost_its_disk_keeps_nobody_waiting_for_what_it_has_forgotten(
    seed: int, gateways: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = storm(seed, gateways)
    assert not report.violations, report
    monkeypatch.setattr(EpochOrder, "_is_forgotten", lambda *_: False)
    assert 3 in {violation.invariant for violation in storm(seed, gateways).violations}


def _no_claims(self: Accounts, *_: Any) -> list[Any]:
    self.due_at = math.inf
    return []


def _forgets(*_: Any) -> None:
    """Do nothing."""


def _believes_too_much(self: Destination, stream: Any, last: int, tail: int, now: float) -> Any:
    """Take all that is claimed for covered, as if a claim could not be for a lost batch."""
    return self._core.passed_over(stream, 1, last)


@pytest.mark.parametrize(
    ("what", "name", "broken"),
    [
        (Accounts, "claims", _no_claims),
        (Accounts, "load", _forgets),
        (Routed, "recall", _forgets),
        (Destination, "claimed", _believes_too_much),
    ],
)
def test_without_a_guard_a_message_is_lost(
    what: type, name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what, name, broken)
    # Who restarts with its disk depends most on what stands there.
    assert any(storm(seed, 5, lose_disk=False).violations for seed in range(30))
