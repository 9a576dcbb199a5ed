"""Routed mode under faults: nothing lost, doubled or astray; and that the checks bite."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler.routing.accounts import Accounts
from tree_handler.routing.destination import Destination
from tree_handler.routing.interest import OwnInterest
from tree_handler.routing.recollection import Recollection
from tree_handler.routing.routed import Routed
from tree_handler.simulation.report import Report
from tree_handler.simulation.routed import RoutedOptions
from tree_handler.simulation.runs import run, run_many
from tree_handler.simulation.topics import TopicOptions


def storm(seed: int, gateways: int, *, lose_disk: bool = True) -> Report:
    options = replace(RoutedOptions.drawn(seed, gateways), most_batches=math.inf)
    if not lose_disk:
        options = replace(options, faults=replace(options.faults, lose_disk=0.0))
    return run(options)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("gateways", [2, 3, 5, 10])
def test_every_message_reaches_whom_the_origin_knew_to_want_it_once_and_in_order(
    gateways: int,
) -> None:
    for report in run_many(60 // gateways, gateways, 0, RoutedOptions):
        assert not report.violations, report


def test_islands_that_a_leaf_alone_connects_are_not_in_reach_of_each_other() -> None:
    drawn = (RoutedOptions.drawn(seed, 3) for seed in range(100, 1_000))
    for options in itertools.islice((one for one in drawn if one.leaves == 1), 5):
        report = run(options)
        assert not report.violations, report


@pytest.mark.parametrize(("likely", "gateways"), [(19, 3), (24, 4)])
def test_who_lost_its_disk_learns_what_all_want_though_their_logs_are_trimmed(
    likely: int, gateways: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trimmed(seed: int) -> Report:
        drawn = RoutedOptions.drawn(seed, gateways)
        whole = replace(drawn.faults, lose_tail=0.0, lose_page=0.0, swap_card=0.0, rot=0.0)
        return run(replace(drawn, faults=whole, traffic_per_s=6.0, most_batches=16))

    with monkeypatch.context() as patched:
        patched.setattr(OwnInterest, "trimmed", _forgets)
        seed = first_seed(
            lambda seed: "does not know what" in str(trimmed(seed)), within=200, likely=[likely]
        )
    report = trimmed(seed)
    assert not report.violations, report


ENDS = {"lose_tail": 3.0}
PAGES = {"lose_page": 3.0}
ROT = {"rot": 3.0}
CARDS = {"swap_card": 3.0}


def damaged(subject: type[RoutedOptions], seed: int, damage: dict[str, float]) -> Report:
    """Of three gateways, for an origin's word is all that the others go by."""
    drawn = subject.drawn(seed, 3)
    whole = replace(drawn.faults, lose_tail=0.0, lose_page=0.0, swap_card=0.0, rot=0.0)
    return run(replace(drawn, faults=replace(whole, rate_per_s=2.0, lose_disk=0.1, **damage)))


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("damage", "subject", "likely"),
    [
        (ENDS, RoutedOptions, (62, 72)),
        (ENDS, TopicOptions, (45,)),
        (ENDS | CARDS, RoutedOptions, (62, 72)),
        (ENDS | CARDS, TopicOptions, (45,)),
        (PAGES, RoutedOptions, (85, 112, 206)),
        (PAGES, TopicOptions, (17, 45)),
        (ROT, RoutedOptions, (19, 22)),
        (ROT, TopicOptions, (17,)),
        (ENDS | PAGES | ROT, RoutedOptions, (5325,)),
        (ENDS | PAGES | ROT, TopicOptions, ()),  # with --soak, as 84, and 211 of the last one
        (ENDS | PAGES | ROT | CARDS, RoutedOptions, (85, 206)),
        (ENDS | PAGES | ROT | CARDS, TopicOptions, (45,)),
    ],
    ids=lambda one: "_".join(one) if isinstance(one, dict) else None,
)
def test_where_logs_lose_ends_and_pages_and_old_cards_come_back_nothing_that_is_there_is_kept_back(
    damage: dict[str, float],
    subject: type[RoutedOptions],
    likely: tuple[int, ...],
    pytestconfig: pytest.Config,
) -> None:
    for seed in sorted({*range(300), *likely}) if pytestconfig.getoption("--soak") else likely:
        report = damaged(subject, seed, damage)
        assert not report.violations, report


@pytest.mark.parametrize(
    ("what", "name", "damage", "likely"),
    [
        (Recollection, "all_read", PAGES, (85, 108, 112, 139, 206)),
        (Destination, "lost", ROT, (19, 22, 27, 38)),
    ],
)
def test_without_what_is_made_of_a_lost_page_a_message_is_lost(
    what: type,
    name: str,
    damage: dict[str, float],
    likely: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(what, name, _forgets)
    first_seed(
        lambda seed: bool(damaged(RoutedOptions, seed, damage).violations),
        within=200,
        likely=likely,
    )


def _no_claims(self: Accounts, *_: Any) -> list[Any]:
    self.due_at = math.inf
    return []


def _forgets(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _believes_too_much(self: Destination, stream: Any, last: int, *_: Any) -> Any:
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
    first_seed(lambda seed: bool(storm(seed, 5, lose_disk=False).violations), within=200)
