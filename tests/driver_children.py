"""The processes in which this one calls drivers."""

from __future__ import annotations

import psutil


def driver_children() -> list[psutil.Process]:
    """Return those that are there, without what tests have started beside."""
    return [
        one
        for one in psutil.Process().children()
        if one.is_running() and "gateway.sensors.driver_child" in _command(one)
    ]


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:  # it has just ended
        return []
