"""State of the machine, from the kernel's files (proc(5), sysfs) and its clock (adjtimex(2)).

What a machine does not tell is None: a PC has no supply that is too weak, and a container no disk
of its own.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.base import firmware, machine_memory
from light_dataclasses import dataclass

SECTOR_BYTES: Final = 512
"""Of the kernel's block statistics, whatever the disk's own are."""
_WRITTEN_SECTORS: Final = 6
"""Column of ``/sys/dev/block/*/stat`` (Documentation/block/stat)."""
_STA_UNSYNC: Final = 0x0040
_STA_NANO: Final = 0x2000
_TIME_ERROR: Final = 5


@dataclass(frozen=True, slots=True)
class MachineReading:
    """One look at the machine; see `record_formats.status_record.StatusRecord` for each figure."""

    clock_offset_ms: float | None = None
    temperature_cel: float | None = None
    under_voltage: bool | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_written_bytes: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    load1: float | None = None


class MachineFiles:
    """Of one machine; where its files are is looked for once.

    Args:
        state_dir: on the disk that is looked at.
        root: where the kernel's files are; another folder in tests.
        clock_offset_ms: reads the clock.

    """

    def __init__(
        self,
        state_dir: Path,
        root: Path = Path("/"),
        clock_offset_ms: Callable[[], float | None] | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._clock_offset_ms = clock_offset_ms or kernel_clock_offset_ms
        self._root = root
        self._resident = root / "proc/self/statm"
        self._load = root / "proc/loadavg"
        self._thermal_zone = _thermal_zone(root)
        self._supply = _supply(root)
        disk = block_device(root, state_dir)
        self._disk = None if disk is None else disk / "stat"

    def read(self) -> MachineReading:
        """Look now. It reads files and may wait for them: not for the event loop."""
        free_bytes, total_bytes = self._room()
        load = file_text(self._load)
        return MachineReading(
            clock_offset_ms=self._clock_offset_ms(),
            temperature_cel=_temperature_cel(self._thermal_zone),
            under_voltage=self._is_under_voltage(),
            disk_free_bytes=free_bytes,
            disk_total_bytes=total_bytes,
            disk_written_bytes=self._written_bytes(),
            memory_bytes=self._resident_bytes(),
            memory_available_bytes=machine_memory.left_on_machine(self._root),
            load1=None if load is None else _number(load.partition(" ")[0]),
        )

    def _room(self) -> tuple[int | None, int | None]:
        try:
            disk = os.statvfs(self._state_dir)
        except OSError:
            return None, None
        return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize

    def _written_bytes(self) -> int | None:
        columns = (file_text(self._disk) or "").split()
        if len(columns) <= _WRITTEN_SECTORS or not columns[_WRITTEN_SECTORS].isdecimal():
            return None
        return int(columns[_WRITTEN_SECTORS]) * SECTOR_BYTES

    def _resident_bytes(self) -> int | None:
        columns = (file_text(self._resident) or "").split()
        if len(columns) < 2 or not columns[1].isdecimal():
            return None
        return int(columns[1]) * os.sysconf("SC_PAGESIZE")

    def _is_under_voltage(self) -> bool | None:
        bits = firmware.bits_in(self._supply)
        return None if bits is None else bool(bits & firmware.UNDER_VOLTAGE_NOW)


def kernel_clock_offset_ms() -> float | None:
    """Return how far the clock is ahead of its time source, by what a time service told the kernel.

    None while nothing keeps it right: then nobody knows. Under chrony it is what is still to be
    slewed.
    """
    told = _Timex()
    adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    if adjtimex is None:
        return None
    state = adjtimex(ctypes.byref(told))
    if state in (-1, _TIME_ERROR) or told.status & _STA_UNSYNC:
        return None
    # The kernel's offset is what it still has to add to the clock.
    offset: int = told.offset
    return -offset / (1_000_000 if told.status & _STA_NANO else 1_000)


class _Timex(ctypes.Structure):
    """``struct timex`` (adjtimex(2)): what is read of it, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def processor_temperature_cel(root: Path = Path("/")) -> float | None:
    """Return the temperature of the processor in degrees Celsius; None where no file tells it.

    Args:
        root: where the kernel's files are; another folder in tests.

    """
    return _temperature_cel(_thermal_zone(root))


def _temperature_cel(thermal_zone: Path | None) -> float | None:
    if thermal_zone is None:
        return None
    millidegrees = _number(file_text(thermal_zone / "temp"))
    return None if millidegrees is None else millidegrees / 1000


def _thermal_zone(root: Path) -> Path | None:
    """Return the processor's: a Raspberry Pi calls it ``cpu-thermal``, and PCs ``x86_pkg_temp``."""
    zones = sorted(root.glob("sys/class/thermal/thermal_zone*"))
    for zone in zones:
        if "cpu" in (kind := file_text(zone / "type") or "") or "pkg" in kind:
            return zone
    return zones[0] if zones else None


def _supply(root: Path) -> Path | None:
    """Return the alarm of a Raspberry Pi's supply."""
    for chip in sorted(root.glob("sys/class/hwmon/hwmon*")):
        if file_text(chip / "name") == "rpi_volt":
            return chip / "in0_lcrit_alarm"
    told = root / firmware.FILE
    return told if told.is_file() else None


def block_device(root: Path, state_dir: Path) -> Path | None:
    """Return the kernel's folder of the disk with this folder: of all of it, since all wears out.

    Args:
        root: where the kernel's files are.
        state_dir: on that disk.

    """
    try:
        device = state_dir.stat().st_dev
    except OSError:
        return None
    part = root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if not (part / "stat").is_file():
        return None
    return part.resolve().parent if (part / "partition").is_file() else part


def file_text(path: Path | None) -> str | None:
    """Return what stands in a file of the kernel; None if it can't be read, or there is none."""
    if path is None:
        return None
    try:
        return path.read_text("ascii", errors="replace").strip()
    except OSError:
        return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
