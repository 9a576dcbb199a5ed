"""Readings of the machine itself, taken with psutil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import psutil

from gateway.sensors.sensor import Sensor

SHARE: Final = 0.001
"""Shares are told in tenths of a per cent."""


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
    psutil.disk_usage(disk)
    found = [
        HostSensor("load1", "count", "load", lambda: psutil.getloadavg()[0], interval_s),
        HostSensor("memory", "/", "memory-use", _memory_used, interval_s, SHARE),
        HostSensor(
            "disk",
            "/",
            "disk-use",
            lambda: psutil.disk_usage(disk).percent / 100,
            interval_s,
            SHARE,
            is_quick=False,  # a file system may be another machine's
        ),
        HostSensor(
            "net-received", "B", "network-bytes", lambda: _network_bytes("bytes_recv"), interval_s
        ),
        HostSensor(
            "net-sent", "B", "network-bytes", lambda: _network_bytes("bytes_sent"), interval_s
        ),
    ]
    if _cpu_chip() is not None:
        found.append(
            HostSensor(
                "cpu-temperature", "Cel", "temperature", cpu_temperature, interval_s, is_quick=False
            )
        )
    return found


def cpu_temperature() -> float:
    """Return the processor's temperature, degrees Celsius.

    Raises:
        OSError: the machine's sensor is gone.

    """
    chip = _cpu_chip()
    if chip is None:
        raise OSError("no processor temperature on this machine")
    return float(psutil.sensors_temperatures()[chip][0].current)


def _cpu_chip() -> str | None:
    # cpu_thermal is a Raspberry Pi's, coretemp and k10temp are those of PCs.
    if not hasattr(psutil, "sensors_temperatures"):
        return None
    chips = psutil.sensors_temperatures()
    return next((c for c in ("cpu_thermal", "coretemp", "k10temp") if chips.get(c)), None)


def _memory_used() -> float:
    memory = psutil.virtual_memory()
    return 1 - memory.available / memory.total


def _network_bytes(direction: str) -> float:
    counters = psutil.net_io_counters()
    if counters is None:
        raise OSError("no network interface on this machine")
    return float(getattr(counters, direction))
