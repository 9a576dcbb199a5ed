"""The counter that tells one life of a gateway from the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.identity import count_on_from, next_boot_epoch
from tree_handler import boot_epoch


def test_each_start_has_the_next_epoch(tmp_path: Path) -> None:
    first = next_boot_epoch(tmp_path)
    assert [next_boot_epoch(tmp_path) for _ in range(3)] == [first + 1, first + 2, first + 3]


def test_a_gateway_that_lost_its_disk_does_not_count_from_the_same_epoch_again(
    tmp_path: Path,
) -> None:
    epochs = {next_boot_epoch(tmp_path / str(life)) for life in range(20)}
    assert len(epochs) == 20
    assert all(0 < epoch < 2**31 for epoch in epochs)


def test_a_gateway_that_is_told_of_a_later_life_counts_on_from_it(tmp_path: Path) -> None:
    next_boot_epoch(tmp_path)
    count_on_from(tmp_path, 3_000_000_000)
    assert next_boot_epoch(tmp_path) == 3_000_000_001


def test_a_counter_that_is_no_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boot_epoch").write_text("many\n")
    with pytest.raises(ValueError, match="no number"):
        next_boot_epoch(tmp_path)


def test_the_latest_epoch_counts_what_was_said_to_gateways_too() -> None:
    streams = [("gw-a", 3), ("$gw-a", 5), ("gw-b", 9)]
    assert boot_epoch.latest("gw-a", streams) == 5
    assert boot_epoch.latest("gw-c", streams) == 0
