"""Readings of the machine are the kernel's, and none is made up where it does not tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.sensors import host

INTERFACES = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo:    1000      10    0    0    0     0          0         0     1000      10    0    0    0
  eth0:20000000       5    0    0    0     0          0         0      300       5    0    0    0
"""


def kernel_file(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def chip(root: Path, number: int, name: str, **inputs: str) -> None:
    for file, text in ({"name": name} | inputs).items():
        kernel_file(root, f"sys/class/hwmon/hwmon{number}/{file}", f"{text}\n")


def test_memory_that_can_be_had_without_swapping_is_not_used(tmp_path: Path) -> None:
    kernel_file(
        tmp_path, "proc/meminfo", "MemTotal: 4000 kB\nMemFree: 1 kB\nMemAvailable: 3000 kB\n"
    )
    assert host.memory_used(tmp_path) == 0.25
    with pytest.raises(OSError, match="how much memory"):
        host.memory_used(tmp_path / "none")


def test_the_bytes_of_all_interfaces_are_summed_each_way(tmp_path: Path) -> None:
    kernel_file(tmp_path, "proc/net/dev", INTERFACES)
    assert host.received_bytes(tmp_path) == 20_001_000
    assert host.sent_bytes(tmp_path) == 1_300
    kernel_file(tmp_path, "proc/net/dev", "\n".join(INTERFACES.splitlines()[:2]))
    with pytest.raises(OSError, match="no network interface"):
        host.sent_bytes(tmp_path)


def test_the_temperature_is_the_first_that_the_processors_chip_tells(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no processor temperature"):
        host.cpu_temperature(tmp_path)
    chip(tmp_path, 0, "nvme", temp1_input="30000")
    with pytest.raises(OSError, match="no processor temperature"):
        host.cpu_temperature(tmp_path)
    chip(tmp_path, 1, "cpu_thermal", temp1_input="N/A", temp2_input="51540")
    chip(tmp_path, 2, "k10temp", temp1_input="70000")
    assert host.cpu_temperature(tmp_path) == 51.54


def test_a_disk_that_is_not_there_is_no_reading() -> None:
    assert 0 <= host.disk_used("/") <= 1
    with pytest.raises(FileNotFoundError):
        host.disk_used("/none/such")
    with pytest.raises(FileNotFoundError):
        host.host_sensors(disk="/none/such")


def test_a_temperature_is_read_where_the_machine_has_a_chip_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.glob

    def glob(path: Path, pattern: str) -> Iterator[Path]:
        return real(tmp_path if path == Path("/") else path, pattern)

    monkeypatch.setattr(Path, "glob", glob)
    before = {sensor.name: sensor for sensor in host.host_sensors(7.0)}
    assert "host/cpu-temperature" not in before
    (tmp_path / "sys/class/hwmon/hwmon0").mkdir(parents=True)  # a chip without a name
    chip(tmp_path, 1, "cpu_thermal", temp1_input="51540")
    after = {sensor.name: sensor for sensor in host.host_sensors(7.0)}
    assert after.keys() - before.keys() == {"host/cpu-temperature"}
    hot = after["host/cpu-temperature"]
    told = (hot.read(), hot.unit, hot.resource_type, hot.interval_s, hot.is_quick)
    assert told == (51.54, "Cel", "temperature", 7.0, False)


def test_what_the_machine_tells_has_units_and_only_the_disk_may_wait() -> None:
    told = {one.name: (one.unit, one.resource_type, one.is_quick) for one in host.host_sensors()}
    told.pop("host/cpu-temperature", None)
    assert told == {
        "host/load1": ("count", "load", True),
        "host/memory": ("/", "memory-use", True),
        "host/disk": ("/", "disk-use", False),
        "host/net-received": ("B", "network-bytes", True),
        "host/net-sent": ("B", "network-bytes", True),
    }


@pytest.mark.parametrize(
    ("blocks", "free", "available", "told"),
    [
        (1000, 400, 300, 0.667),  # of 900 that anybody may have, root's own 100 are left out
        (1000, 400, 400, 0.6),
        (1000, 1000, 950, 0.0),
        (1000, 100, 0, 1.0),
        (0, 0, 0, 0.0),
    ],
)
def test_of_a_disk_what_is_used_is_told_of_what_anybody_may_write(
    blocks: int, free: int, available: int, told: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(f_blocks=blocks, f_bfree=free, f_bavail=available)
    monkeypatch.setattr(os, "statvfs", {"/srv": found}.__getitem__)
    assert host.disk_used("/srv") == told
