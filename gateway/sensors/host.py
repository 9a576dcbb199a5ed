"""Readings of the machine itself, from the kernel's files (proc(5), sysfs)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base import machine_memory
from gateway.sensors.sensor import Sensor

SHARE: Final = 0.001
"""Shares are told in tenths of a per cent."""
PROCESSOR_CHIPS: Final = ("cpu_thermal", "coretemp", "k10temp")
"""The names of chips that tell a processor's temperature: a Raspberry Pi's, and those of PCs."""
_RECEIVED: Final = 0
_SENT: Final = 8
"""Columns of bytes in ``/proc/net/dev``."""


class HostSensor(Sensor):
    """One reading of the machine.

    Args:
        name: its name, below ``host/``.
        unit: its SenML unit. Shares are ratios from 0 to 1, whose unit is ``/``.
        resource_type: the link's ``rt``.
        probe: takes the reading.
        interval_s: how often it is read, seconds.
        resolution: see `Sensor`.
        is_quick: whether the probe waits for nothing; the kernel's own counters do not.

    """

    def __init__(
        self,
        name: str,
        unit: str,
        resource_type: str,
        probe: Callable[[], float],
        interval_s: float,
        resolution: float = 0.0,
        *,
        is_quick: bool = True,
    ) -> None:
        super().__init__(
            f"host/{name}", interval_s=interval_s, unit=unit, resource_type=resource_type
        )
        self._probe = probe
        self.resolution = resolution
        self.is_quick = is_quick

    def read(self) -> float:
        """Return the probe's reading."""
        return self._probe()


def host_sensors(interval_s: float = 10.0, disk: str = "/") -> list[HostSensor]:
    """Return what this machine can tell about itself.

    Args:
        interval_s: how often each is read, seconds.
        disk: a path on the file system whose use is read.

    Returns:
        Load, memory, disk and network counters, and the processor's temperature if the machine
        has a sensor for it.

    Raises:
        OSError: ``disk`` does not exist.

    """
    disk_used(disk)
    found = [
        HostSensor("load1", "count", "load", lambda: os.getloadavg()[0], interval_s),
        HostSensor("memory", "/", "memory-use", memory_used, interval_s, SHARE),
        HostSensor(
            "disk",
            "/",
            "disk-use",
            partial(disk_used, disk),
            interval_s,
            SHARE,
            is_quick=False,  # a file system may be another machine's
        ),
        HostSensor("net-received", "B", "network-bytes", received_bytes, interval_s),
        HostSensor("net-sent", "B", "network-bytes", sent_bytes, interval_s),
    ]
    if _processor_file(Path("/")) is not None:
        found.append(
            HostSensor(
                "cpu-temperature", "Cel", "temperature", cpu_temperature, interval_s, is_quick=False
            )
        )
    return found


def memory_used(root: Path = Path("/")) -> float:
    """Return which share of the machine's memory could not be had without swapping, 0 to 1.

    Raises:
        OSError: the kernel does not tell.

    """
    total_bytes, left_bytes = machine_memory.of_machine(root), machine_memory.left_on_machine(root)
    if not total_bytes or left_bytes is None:
        raise OSError("the kernel does not tell how much memory there is")
    return 1 - left_bytes / total_bytes


def disk_used(path: str) -> float:
    """Return which share of what anybody but root may write to a file system is used, 0 to 1.

    It is told in tenths of a per cent, as `df` has whole ones.

    Raises:
        OSError: the path does not exist.

    """
    told = os.statvfs(path)
    used = told.f_blocks - told.f_bfree
    return round(used / (used + told.f_bavail), 3) if used else 0.0


def received_bytes(root: Path = Path("/")) -> float:
    """Return the bytes that all network interfaces have received since the machine started.

    Raises:
        OSError: there is no interface.

    """
    return _network_bytes(root, _RECEIVED)


def sent_bytes(root: Path = Path("/")) -> float:
    """Return the bytes that all network interfaces have sent since the machine started.

    Raises:
        OSError: there is no interface.

    """
    return _network_bytes(root, _SENT)


def cpu_temperature(root: Path = Path("/")) -> float:
    """Return the processor's temperature, degrees Celsius.

    Raises:
        OSError: the machine's sensor is gone.

    """
    told = _processor_file(root)
    if told is None:
        raise OSError("no processor temperature on this machine")
    return _millidegrees(told) / 1000


def _network_bytes(root: Path, column: int) -> float:
    lines = (root / "proc/net/dev").read_text("ascii", errors="replace").splitlines()[2:]
    counted = [
        columns.split() for _, colon, columns in (one.rpartition(":") for one in lines) if colon
    ]
    if not counted:
        raise OSError("no network interface on this machine")
    return float(sum(int(columns[column]) for columns in counted))


def _processor_file(root: Path) -> Path | None:
    """Return the first input of the processor's chip that tells a temperature."""
    chips = sorted(root.glob("sys/class/hwmon/hwmon*"))
    for name in PROCESSOR_CHIPS:
        for chip in chips:
            if _name(chip) == name:
                for told in sorted(chip.glob("temp*_input")):
                    try:
                        _millidegrees(told)
                    except (OSError, ValueError):
                        continue
                    return told
    return None


def _name(chip: Path) -> str:
    try:
        return (chip / "name").read_text("ascii", errors="replace").strip()
    except OSError:
        return ""


def _millidegrees(told: Path) -> float:
    return float(told.read_text("ascii"))
