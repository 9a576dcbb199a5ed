"""Checks of retained messages in a simulation find what is wrong of honest gateways."""

from __future__ import annotations

from typing import cast

import pytest

from tree_handler.proof import Verdict
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained
from tree_handler.retained.proof import RetainedProofs
from tree_handler.simulation.checks import Checks
from tree_handler.simulation.liar import LIAR
from tree_handler.simulation.retained import NOW_US
from tree_handler.simulation.retained_gateway import RetainedGateway
from tree_handler.simulation.retained_liar import (
    LiedRetainedSimulation,
    LiedRetainedTraffic,
    RetainedLiarOptions,
)
from tree_handler.simulation.runs import FaultOptions

CALM = FaultOptions(rate_per_s=0.0)
TOLD = Retained("t/1", RetainedVersion(NOW_US, 0, "gw-0", 1), 5, 1, b"x", {})


def found(of: Checks) -> list[tuple[int, str]]:
    told = [(one.invariant, one.what) for one in of.violations]
    of.violations.clear()
    return told


def lied_to(traffic_per_s: float = 0.0) -> LiedRetainedSimulation:
    """A liar and an honest gateway."""
    options = RetainedLiarOptions(1, 2, faults=CALM, traffic_per_s=traffic_per_s)
    simulation = options.simulation()
    simulation.start_all()
    return simulation


def test_news_that_an_honest_gateway_gives_twice_are_found_and_those_of_the_liar_are_not() -> None:
    simulation = lied_to()
    traffic = cast(LiedRetainedTraffic, simulation.traffic)
    for gateway_id in ("gw-0", LIAR):
        traffic.given_as_news(gateway_id, TOLD)
    assert found(simulation.checks) == []
    for gateway_id in ("gw-0", LIAR):
        traffic.given_as_news(gateway_id, TOLD)
    assert found(simulation.checks) == [(4, f"gw-0 gives t/1 {TOLD.version} as news a second time")]


def test_what_the_liar_says_would_be_newer_than_all_that_was_written_if_it_were_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RetainedProofs, "check", lambda *_: Verdict.PROVEN)
    simulation = lied_to(traffic_per_s=2.0)
    simulation.storm()
    written = cast(LiedRetainedTraffic, simulation.traffic).contents
    honest = cast(RetainedGateway, simulation.gateways["gw-0"])
    forged = [one for one in honest.store.versions.state().values() if one not in written]
    assert max(forged) > max(written)
