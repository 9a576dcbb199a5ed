"""A gateway says how it is: when, and what its machine's files say."""

from __future__ import annotations

import ctypes
import math
import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine_files import machine_with_a_card

from gateway.process.configuration.config import ConfigError, GatewaySection
from gateway.process.fleet_status.machine import (
    MachineFiles,
    kernel_clock_offset_ms,
    processor_temperature_cel,
)
from gateway.process.fleet_status.pace import FIRST_S, LEAST_GAP_S, SETTLE_S, StatusPace, TreePlace
from gateway.process.fleet_status.strain import StrainFiles, StrainReading

OWN = TreePlace("gw-a", None)
BELOW = TreePlace("gw-b", "gw-b")


def test_the_first_record_comes_soon_after_the_start_and_then_one_an_interval() -> None:
    pace = StatusPace("gw-a", 10.0, OWN, 100.0)
    assert pace.due == 100.0 + FIRST_S
    pace.published(102.0)
    assert pace.due == 112.0


def test_a_new_parent_is_told_once_it_has_settled() -> None:
    pace = StatusPace("gw-a", 10.0, OWN, 100.0)
    pace.published(102.0)
    pace.is_at(BELOW, 107.0)
    assert pace.due == 107.0 + SETTLE_S
    assert (pace.reconvergences, pace.elections) == (1, 0)
    pace.is_at(OWN, 107.1)
    assert (pace.reconvergences, pace.elections) == (2, 1)


def test_a_place_that_is_the_same_is_no_change() -> None:
    pace = StatusPace("gw-a", 10.0, OWN, 100.0)
    pace.published(102.0)
    pace.is_at(OWN, 105.0)
    assert pace.due == 112.0
    assert pace.reconvergences == 0


def test_with_an_interval_of_zero_nothing_is_ever_due() -> None:
    pace = StatusPace("gw-a", 0.0, OWN, 100.0)
    pace.is_at(BELOW, 107.0)
    assert pace.due == float("inf")


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=60))
def test_however_a_root_flaps_records_keep_their_distance(steps: list[float]) -> None:
    pace, now, sent, place = StatusPace("gw-a", 10.0, OWN, 0.0), 0.0, [], OWN
    for step in steps:
        until = now + step
        while pace.due <= until:
            now = pace.due
            sent.append(now)
            pace.published(now)
        now, place = until, BELOW if place == OWN else OWN
        pace.is_at(place, now)
        assert pace.due <= now + max(LEAST_GAP_S, SETTLE_S, FIRST_S)
    gaps = [after - before for before, after in pairwise(sent)]
    assert all(gap >= LEAST_GAP_S - 1e-9 for gap in gaps)


def files(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_files_of_a_raspberry_pi_are_read(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    state.mkdir()
    device = state.stat().st_dev
    block = root / "sys/devices/mmc0/block/mmcblk0"
    files(
        root,
        {
            "proc/meminfo": "MemTotal: 900 kB\nMemAvailable:     300 kB\n",
            "proc/self/statm": "100 20 1 1 0 1 0\n",
            "proc/loadavg": "0.42 0.3 0.2 1/80 900\n",
            "sys/class/thermal/thermal_zone0/type": "gpu\n",
            "sys/class/thermal/thermal_zone0/temp": "1000\n",
            "sys/class/thermal/thermal_zone1/type": "cpu-thermal\n",
            "sys/class/thermal/thermal_zone1/temp": "51540\n",
            "sys/class/hwmon/hwmon0/name": "cpu_thermal\n",
            "sys/class/hwmon/hwmon1/name": "rpi_volt\n",
            "sys/class/hwmon/hwmon1/in0_lcrit_alarm": "1\n",
            "sys/devices/mmc0/block/mmcblk0/stat": "9 9 9 9 9 9 2000 9 9 9 9\n",
            "sys/devices/mmc0/block/mmcblk0/mmcblk0p2/stat": "1 1 1 1 1 1 1 1 1 1 1\n",
            "sys/devices/mmc0/block/mmcblk0/mmcblk0p2/partition": "2\n",
        },
    )
    numbers = root / "sys/dev/block"
    numbers.mkdir(parents=True)
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to(block / "mmcblk0p2")
    told = MachineFiles(state, root, lambda: 1.5).read()
    assert told.temperature_cel == processor_temperature_cel(root) == 51.54
    assert told.under_voltage is True
    assert told.disk_written_bytes == 2000 * 512
    assert told.memory_available_bytes == 300 * 1024
    assert told.memory_bytes == 20 * os.sysconf("SC_PAGESIZE")
    assert (told.load1, told.clock_offset_ms) == (0.42, 1.5)
    assert told.disk_free_bytes is not None and told.disk_total_bytes is not None


@pytest.mark.parametrize(("text", "is_low"), [("0", False), ("50000", False), ("50005", True)])
def test_an_older_firmware_says_whether_the_supply_is_too_weak_now(
    tmp_path: Path, text: str, is_low: bool
) -> None:
    files(tmp_path, {"sys/devices/platform/soc/soc:firmware/get_throttled": text})
    assert MachineFiles(tmp_path, tmp_path).read().under_voltage is is_low


@pytest.mark.parametrize(
    ("bits", "life", "told"),
    [
        ("0", "0x01 0x02", StrainReading(is_throttled=False, disk_life_used=0.2)),
        ("50004", "0x0b 0x01", StrainReading(is_throttled=True, disk_life_used=1.1)),
        ("50000", "0x00 0x00", StrainReading(is_throttled=False)),
        ("slow", "0x01 worn", StrainReading()),
        ("", "", StrainReading()),
    ],
)
def test_a_slowed_processor_and_a_worn_card_are_read(
    tmp_path: Path, bits: str, life: str, told: StrainReading
) -> None:
    card = machine_with_a_card(tmp_path)
    files(tmp_path, {"sys/devices/platform/soc/soc:firmware/get_throttled": bits})
    (card / "device/life_time").write_text(f"{life}\n")
    assert StrainFiles(tmp_path, tmp_path).read() == told
    assert StrainFiles(tmp_path / "gone", tmp_path / "none").read() == StrainReading()


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        ("1 1 1 1 1 1", None),
        ("1 1 1 1 1 1 20", 20 * 512),
        ("1 1 1 1 1 1 0 1", 0),
        ("1 1 1 1 1 1 many 1", None),
        ("", None),
    ],
)
def test_what_was_written_to_a_disk_is_its_seventh_column_of_sectors(
    tmp_path: Path, columns: str, written: int | None
) -> None:
    (machine_with_a_card(tmp_path) / "stat").write_text(columns)
    assert MachineFiles(tmp_path, tmp_path).read().disk_written_bytes == written


@pytest.mark.parametrize(
    ("columns", "pages"), [("100", None), ("100 20", 20), ("100 x 1", None), ("100 20 1", 20)]
)
def test_the_memory_of_the_process_is_the_second_column_of_pages(
    tmp_path: Path, columns: str, pages: int | None
) -> None:
    files(tmp_path, {"proc/self/statm": columns})
    told = MachineFiles(tmp_path, tmp_path).read().memory_bytes
    assert told == (None if pages is None else pages * os.sysconf("SC_PAGESIZE"))


def test_the_room_on_a_disk_is_what_is_left_for_its_owner_and_all_of_it(tmp_path: Path) -> None:
    disk, told = os.statvfs(tmp_path), MachineFiles(tmp_path).read()
    assert told.disk_total_bytes == disk.f_blocks * disk.f_frsize
    assert told.disk_free_bytes is not None
    assert told.disk_free_bytes % disk.f_frsize == 0
    assert 0 < told.disk_free_bytes <= told.disk_total_bytes


class Timex(ctypes.Structure):
    """The begin of ``struct timex`` (adjtimex(2))."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
    )


UNSYNC, NANO, ERROR = 0x40, 0x2000, 5


@pytest.mark.parametrize(
    ("state", "status", "offset", "told_ms"),
    [
        (0, 0, 1_500, -1.5),
        (0, 0, -20_000, 20.0),
        (0, 1, 1_500, -1.5),
        (0, NANO, 1_500_000, -1.5),
        (4, NANO | 1, -3_000_000, 3.0),
        (0, UNSYNC, 1_500, None),
        (0, UNSYNC | NANO, 1_500, None),
        (ERROR, 0, 1_500, None),
        (-1, 0, 1_500, None),
    ],
)
def test_the_clock_is_ahead_by_what_the_kernel_has_not_taken_off_yet_if_anybody_keeps_it(
    monkeypatch: pytest.MonkeyPatch, state: int, status: int, offset: int, told_ms: float | None
) -> None:
    def adjtimex(room: Any) -> int:
        found = ctypes.cast(room, ctypes.POINTER(Timex)).contents
        assert found.modes == 0  # it is read, and nothing is set
        found.offset, found.status = offset, status
        return state

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(adjtimex=adjtimex))
    assert kernel_clock_offset_ms() == told_ms


def test_without_a_kernel_that_tells_it_nothing_is_known_of_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    assert kernel_clock_offset_ms() is None


def test_what_a_machine_does_not_tell_or_tells_oddly_is_unknown(tmp_path: Path) -> None:
    files(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable: many kB\n",
            "proc/self/statm": "",
            "proc/loadavg": "high",
            "sys/class/thermal/thermal_zone0/temp": "warm",
            "sys/class/hwmon/hwmon0/name": "rpi_volt",
        },
    )
    told = MachineFiles(tmp_path / "gone", tmp_path, lambda: None).read()
    assert told == type(told)()


def test_this_machine_is_read() -> None:
    told = MachineFiles(Path.cwd()).read()
    assert told.memory_bytes and told.memory_available_bytes and told.load1 is not None
    offset_ms = kernel_clock_offset_ms()
    assert offset_ms is None or abs(offset_ms) < 1e6


@pytest.mark.parametrize("value", [-1.0, 0.1, 90_000.0])
def test_an_interval_out_of_range_names_its_key(tmp_path: Path, value: float) -> None:
    with pytest.raises(ConfigError, match="status_interval_s"):
        GatewaySection("gw-a", tmp_path, status_interval_s=value)


@pytest.mark.parametrize(
    ("latitude", "longitude", "named"),
    [
        (90.5, 0.0, "latitude"),
        (0.0, -180.5, "longitude"),
        (math.nan, 0.0, "latitude"),
        (1.0, None, "longitude"),
        (None, 1.0, "latitude"),
    ],
)
def test_a_place_on_the_map_that_is_none_names_its_key(
    tmp_path: Path, latitude: float | None, longitude: float | None, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        GatewaySection("gw-a", tmp_path, latitude=latitude, longitude=longitude)
    assert GatewaySection("gw-a", tmp_path, latitude=-90, longitude=180).latitude == -90
