"""Messages in simulated networks: nothing lost, doubled or out of order, and each guard needed."""

from __future__ import annotations

import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler.batch import Epoch, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication import arrivals, search
from tree_handler.replication.delivery import Deliver, OrderedDelivery
from tree_handler.replication.epoch_order import EpochOrder
from tree_handler.replication.repair import Summary
from tree_handler.replication.search import Searches
from tree_handler.simulation.report import Report
from tree_handler.simulation.runs import FaultOptions, Options, run

STORM = Options(
    0,
    gateways=6,
    delay_ms=5.0,
    traffic_per_s=10.0,
    faults=FaultOptions(rate_per_s=6.0, outage_s=0.5, lasting=0.0),
)


def broken(report: Report) -> set[int]:
    return {violation.invariant for violation in report.violations}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(12))
def test_in_a_storm_every_message_in_a_log_reaches_everybody_once_and_in_order(seed: int) -> None:
    report = run(replace(STORM, seed=seed))
    assert report.published > 200
    assert not report.violations, str(report)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_log_that_was_full_for_a_while_lacks_nothing_in_the_end(seed: int) -> None:
    kinds = {name.name: 0.0 for name in fields(FaultOptions)}
    full = {"rate_per_s": 3.0, "outage_s": 1.0, "full_disk": 1.0}
    faults = FaultOptions(**(kinds | full))
    report = run(Options(seed, gateways=4, traffic_per_s=10.0, faults=faults))
    assert not report.violations, str(report)


def test_without_order_across_lives_clients_get_later_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def always(self: EpochOrder, stream: Epoch) -> bool:
        return True

    monkeypatch.setattr(EpochOrder, "is_open", always)
    first_seed(
        lambda seed: 5 in broken(run(replace(STORM, seed=seed))),
        within=200,
        likely=(21, 29, 46),
    )


def test_without_deduplication_gateways_take_their_own_messages_for_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(have: Intervals, header: Header) -> bool:
        return False

    monkeypatch.setattr(arrivals, "known", never)
    with pytest.raises(ProtocolError, match="own epoch that it never made"):
        run(STORM)


def test_without_order_clients_get_messages_ahead_of_earlier_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(
        self: OrderedDelivery, frame: bytes, header: Header, have: Intervals
    ) -> list[Deliver]:
        return [Deliver(frame, header, header.first)]

    monkeypatch.setattr(OrderedDelivery, "add", at_once)
    first_seed(lambda seed: 5 in broken(run(replace(STORM, seed=seed))), within=100)


def test_without_the_log_to_repair_from_messages_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, completes: bool) -> list[Summary]:
        return [Summary(completes=completes)]

    monkeypatch.setattr(Summary, "parts", nothing)
    first_seed(lambda seed: 3 in broken(run(replace(STORM, seed=seed))), within=100)


TRIMMED = replace(STORM, log_batches=12, faults=FaultOptions(rate_per_s=8.0, lasting=0.0))


def test_a_search_whose_answers_are_ignored_is_open_when_there_is_peace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "TIMEOUT_S", 1_000.0)
    monkeypatch.setattr(Searches, "receive_sought", lambda *_: [])
    reports = (run(replace(TRIMMED, seed=seed)) for seed in range(4))
    assert any("still waits for a request or a search" in str(report) for report in reports)


@pytest.mark.parametrize("seed", range(4))
def test_where_logs_are_trimmed_and_lives_forgotten_what_a_log_has_reaches_everybody(
    seed: int,
) -> None:
    report = run(replace(TRIMMED, seed=seed))
    assert report.forgotten > 20
    assert not report.violations, str(report)


def test_what_is_forgotten_while_it_is_not_superseded_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_past(self: EpochOrder, stream: Epoch) -> bool:
        return self.is_open(stream) and stream[0].strip("$") != self._own

    monkeypatch.setattr(EpochOrder, "is_past", is_past)
    first_seed(
        lambda seed: 3 in broken(run(replace(TRIMMED, seed=seed))),
        within=200,
        likely=(0, 1, 23, 26),
    )


DAMAGED = replace(
    STORM,
    faults=replace(
        STORM.faults, rate_per_s=4.0, lose_disk=0.2, lose_tail=3.0, lose_page=3.0, swap_card=3.0
    ),
)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("log_batches", [0, 24], ids=["all is kept", "logs are trimmed"])
def test_where_logs_lose_tails_and_pages_and_old_cards_come_back_nothing_is_kept_from_clients(
    log_batches: int, pytestconfig: pytest.Config
) -> None:
    for seed in range(300 if pytestconfig.getoption("--soak") else 4):
        options = replace(DAMAGED, seed=seed, log_batches=log_batches, skew=0.01, quiet_s=60.0)
        report = run(options)
        assert report.published > 200
        assert not report.violations, str(report)
