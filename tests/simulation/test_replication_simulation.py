"""Messages in simulated networks: nothing lost, doubled or out of order, and each guard needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tree_handler import replication
from tree_handler.batch import Epoch, Header
from tree_handler.delivery import Deliver, Delivery
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.repair import Summary
from tree_handler.simulation import FaultOptions, Options, Report, run

STORM = Options(
    0,
    gateways=6,
    delay_ms=5.0,
    traffic_per_s=10.0,
    faults=FaultOptions(rate_per_s=6.0, outage_s=0.5, lasting=0.0),
)


def broken(report: Report) -> set[int]:
    return {violation.invariant for violation in report.violations}


@pytest.mark.parametrize("seed", range(12))
def test_in_a_storm_every_message_in_a_log_reaches_everybody_once_and_in_order(seed: int) -> None:
    report = run(replace(STORM, seed=seed))
    assert report.published > 200
    assert not report.violations, str(report)


def test_without_deduplication_gateways_take_their_own_messages_for_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(have: Intervals, header: Header) -> bool:
        return False

    monkeypatch.setattr(replication, "known", never)
    with pytest.raises(ProtocolError, match="own epoch that it never made"):
        run(STORM)


def test_without_order_clients_get_messages_ahead_of_earlier_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_once(self: Delivery, frame: bytes, header: Header, have: Intervals) -> list[Deliver]:
        return [Deliver(frame, header, header.first)]

    monkeypatch.setattr(Delivery, "add", at_once)
    assert any(5 in broken(run(replace(STORM, seed=seed))) for seed in range(6))


def test_without_the_log_to_repair_from_messages_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(have: dict[Epoch, Intervals], kept_from: dict[Epoch, int]) -> Summary:
        return Summary({}, {})

    monkeypatch.setattr(Summary, "of", nothing)
    assert any(3 in broken(run(replace(STORM, seed=seed))) for seed in range(3))
