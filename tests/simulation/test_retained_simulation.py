"""Retained messages in simulated networks: alike everywhere in the end, and each guard needed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.replication.replication import Replication
from tree_handler.retained.hybrid_clock import HybridClock, RetainedVersion, Stamp
from tree_handler.retained.sync import RetainedSync
from tree_handler.retained.tombstones import Tombstone
from tree_handler.retained.versions import RetainedVersions
from tree_handler.simulation.report import Report
from tree_handler.simulation.retained import RetainedOptions
from tree_handler.simulation.runs import run, run_many

GATEWAYS = 6


def broken(report: Report) -> set[int]:
    return {violation.invariant for violation in report.violations}


def any_broken(*invariants: int, likely: Sequence[int] = range(1, 9)) -> bool:
    """Return whether what a test has taken away shows in one of many runs."""

    def shows(seed: int) -> bool:
        with suppress(ProtocolError):  # a gateway whose disk was lost may take an epoch again
            return not broken(run(RetainedOptions.drawn(seed, GATEWAYS))).isdisjoint(invariants)
        return False

    return first_seed(shows, within=100, likely=likely) >= 0


def test_in_the_end_all_gateways_in_reach_retain_the_same_and_the_newest() -> None:
    seen: Counter[str] = Counter()
    for report in run_many(10, GATEWAYS, 1, RetainedOptions):
        assert not report.violations, str(report)
        seen.update(published=report.published, faults=report.faults)
    assert seen["published"] > 500
    assert seen["faults"] > 50


def test_what_a_gateway_wrote_before_it_lost_its_disk_may_be_news_to_its_clients() -> None:
    report = run(RetainedOptions.drawn(199, 4))
    assert not report.violations, str(report)


def test_what_logs_had_trimmed_may_be_news_to_the_clients_of_a_gateway_that_restarted() -> None:
    report = run(RetainedOptions.drawn(314, 3))
    assert not report.violations, str(report)


def test_without_the_comparison_of_digests_newcomers_lack_what_logs_no_longer_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RetainedSync, "link_up", lambda *_: None)
    assert any_broken(3)


def test_without_versions_gateways_retain_what_they_heard_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RetainedVersions, "is_news", lambda *_: True)
    assert any_broken(3, 4)


def test_by_the_wall_clock_alone_a_write_loses_against_what_its_gateway_had_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wall(self: HybridClock, wall_us: int, after: Stamp) -> Stamp:
        return Stamp(wall_us, 0)

    monkeypatch.setattr(HybridClock, "stamp", wall)
    assert any_broken(5)


def test_without_tombstones_what_was_deleted_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(
        self: RetainedVersions, topic: str, grave: Tombstone, now_s: float, proof: bytes = b""
    ) -> bool:
        if not self.is_news(topic, grave.version):
            return False
        self._take_out(topic)
        return True

    monkeypatch.setattr(RetainedVersions, "bury", forgets)
    assert any_broken(3)


def test_without_a_look_at_the_log_clients_are_given_things_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def everything(self: Replication, stream: Epoch) -> int:
        return 1 << 60

    monkeypatch.setattr(Replication, "handed_out", everything)
    monkeypatch.setattr(Replication, "is_catching_up", lambda _: False)
    assert any_broken(4)


def test_without_the_epoch_a_gateway_that_lost_its_disk_makes_a_version_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = RetainedVersion.__new__

    def without_epoch(
        cls: type[RetainedVersion], us: int, logical: int, origin: str, _: int
    ) -> RetainedVersion:
        return made(cls, us, logical, origin, 1)

    monkeypatch.setattr(RetainedVersion, "__new__", without_epoch)
    assert any_broken(5, likely=(37, 61))


def test_what_a_new_life_takes_for_had_and_nobody_was_given_may_be_news() -> None:
    """The disk was lost: of the stream only a later number was handed out from the log."""
    assert not run(RetainedOptions.drawn(577, 8)).violations
