"""Files as the kernel of a machine has them, in a folder."""

from __future__ import annotations

import os
from pathlib import Path


def machine_with_a_card(root: Path) -> Path:
    """Make the kernel's files of a card that holds this folder.

    Args:
        root: of the machine.

    Returns:
        The folder of the card's block device.

    """
    device = root.stat().st_dev
    card = root / "sys/devices/mmc0/block/mmcblk0"
    (card / "device").mkdir(parents=True)
    (card / "mmcblk0p2").mkdir()
    for name in ("stat", "mmcblk0p2/stat"):
        (card / name).write_text("9 9 9 9 9 9 2000 9 9 9 9\n")
    (card / "mmcblk0p2/partition").write_text("2\n")
    numbers = root / "sys/dev/block"
    numbers.mkdir(parents=True)
    (numbers / f"{os.major(device)}:{os.minor(device)}").symlink_to(card / "mmcblk0p2")
    return card
