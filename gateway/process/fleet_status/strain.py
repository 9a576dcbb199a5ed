"""Wear of a machine as its kernel tells it: a slowed processor, a card at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.base import firmware
from gateway.process.fleet_status.machine import block_device, file_text
from light_dataclasses import dataclass

_TENTH: Final = 10
_EXCEEDED: Final = 0x0B
"""``DEVICE_LIFE_TIME_EST`` of JEDEC eMMC 5.0 counts tenths from 1 on; this one is beyond all."""


@dataclass(frozen=True, slots=True)
class StrainReading:
    """One look at what wears a machine down.

    Attributes:
        is_throttled: the firmware slows the processor down now.
        disk_life_used: how much of the card's life time is used at most, as a share; above 1 where
            it is over.

    """

    is_throttled: bool | None = None
    disk_life_used: float | None = None


class StrainFiles:
    """The files of one machine that tell it; where they are is looked for once.

    Args:
        state_dir: on the card that is looked at.
        root: where the kernel's files are; another folder in tests.

    """

    def __init__(self, state_dir: Path, root: Path = Path("/")) -> None:
        self._root = root
        disk = block_device(root, state_dir)
        self._life = None if disk is None else disk / "device/life_time"

    def read(self) -> StrainReading:
        """Look now. It reads files and may wait for them: not for the event loop."""
        bits = firmware.bits(self._root)
        return StrainReading(
            is_throttled=None if bits is None else bool(bits & firmware.THROTTLED_NOW),
            disk_life_used=_life_used(file_text(self._life)),
        )


def _life_used(text: str | None) -> float | None:
    """Return the larger of the two estimates; None where the card gives none (0x00)."""
    try:
        tenths = [int(one, 16) for one in (text or "").split()]
    except ValueError:
        return None
    used = [one for one in tenths if 0 < one <= _EXCEEDED]
    return max(used) / _TENTH if used else None
