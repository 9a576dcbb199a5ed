"""The counter that tells one life of a gateway from the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.process.state_folder.identity import capability, count_on_from, next_boot_epoch
from tree_handler import boot_epoch


def test_each_start_has_a_later_epoch_than_the_one_before(tmp_path: Path) -> None:
    epochs = [next_boot_epoch(tmp_path) for _ in range(9)]
    assert epochs == sorted(set(epochs))
    assert epochs[-1] - epochs[0] <= 8 * boot_epoch.MAX_STEP


def test_lives_that_start_from_the_same_image_have_epochs_of_their_own() -> None:
    assert len({boot_epoch.after(7, drawn) for drawn in range(boot_epoch.MAX_STEP)}) == 4096
    assert boot_epoch.after(7, 0) == 8


def test_a_gateway_that_lost_its_disk_does_not_count_from_the_same_epoch_again(
    tmp_path: Path,
) -> None:
    epochs = {next_boot_epoch(tmp_path / str(life)) for life in range(20)}
    assert len(epochs) == 20
    assert all(0 < epoch < 2**31 for epoch in epochs)


def test_a_gateway_that_is_told_of_a_later_life_counts_on_from_it(tmp_path: Path) -> None:
    next_boot_epoch(tmp_path)
    count_on_from(tmp_path, 3_000_000_000)
    assert next_boot_epoch(tmp_path) > 3_000_000_000


@pytest.mark.parametrize("text", ["many\n", "", "-5\n", "99999999999\n", f"{2**32 - 1}\n"])
def test_a_counter_that_is_no_number_is_set_aside_and_a_start_is_later_than_those_known_elsewhere(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "boot_epoch").write_text(text)
    assert next_boot_epoch(tmp_path, known=3_000_000_000) > 3_000_000_000
    assert (tmp_path / "boot_epoch.damaged-1").read_text() == text


def test_a_counter_that_is_behind_what_is_known_elsewhere_is_counted_on_from_that(
    tmp_path: Path,
) -> None:
    count_on_from(tmp_path, 7)
    assert next_boot_epoch(tmp_path, known=3_000_000_000) > 3_000_000_000
    count_on_from(tmp_path, 3_500_000_000)
    assert next_boot_epoch(tmp_path, known=3_000_000_000) > 3_500_000_000


def test_the_latest_epoch_counts_what_was_said_to_gateways_too() -> None:
    streams = [("gw-a", 3), ("$gw-a", 5), ("gw-b", 9)]
    assert boot_epoch.latest("gw-a", streams) == 5
    assert boot_epoch.latest("gw-c", streams) == 0


def kernel_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_gateways_capability_is_its_cores_speed_and_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert capability(tmp_path) == 4_000
    kernel_file(tmp_path / "proc/meminfo", "MemTotal: 524288 kB\n")
    kernel_file(tmp_path / "proc/cpuinfo", "cpu MHz\t\t: 1500.0\nmodel name: x\ncpu MHz : 1700.0\n")
    assert capability(tmp_path) == 4 * 1_600 + 512
    kernel_file(tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "1000000\n")
    assert capability(tmp_path) == 4 * 1_000 + 512
