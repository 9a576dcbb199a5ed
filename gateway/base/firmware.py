"""Bits in which the firmware of a Raspberry Pi tells of its supply (``get_throttled``)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

UNDER_VOLTAGE_NOW: Final = 1 << 0
THROTTLED_NOW: Final = 1 << 2
UNDER_VOLTAGE_SINCE: Final = 1 << 16
"""Since the machine was booted."""
FILE: Final = "sys/devices/platform/soc/soc:firmware/get_throttled"


def bits(root: Path) -> int | None:
    """Return the firmware's bits; None where no firmware tells them.

    Args:
        root: where the kernel's files are.

    """
    return bits_in(root / FILE)


def bits_in(path: Path | None) -> int | None:
    """Return the hexadecimal number in a file of the kernel; None if there is none to be read."""
    if path is None:
        return None
    try:
        return int(path.read_text("ascii", errors="replace"), 16)
    except (OSError, ValueError):
        return None
