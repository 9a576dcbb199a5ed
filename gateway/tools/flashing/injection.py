"""A kit's way onto the boot partition of a card that has just been written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from gateway.tools.flashing.boot_partition import BootPartition
from gateway.tools.flashing.device import FirstBoot
from gateway.tools.flashing.errors import CardWriteError
from gateway.tools.flashing.kit import WHEELS, CardKit

CLUSTER_BYTES = 32 << 10
"""The largest of FAT (specification, section 3.1): what a small file may take."""
COMMAND_LINE = "cmdline.txt"


def inject(
    boot: BootPartition, kit: CardKit, first_boot: FirstBoot, sync: Callable[[], None]
) -> int:
    """Write a kit, and read it back.

    Args:
        boot: takes it.
        kit: what is written.
        first_boot: by which mechanism; ``auto`` takes cloud-init where the image has it.
        sync: waits until all is on the card, and forgets what is cached of it.

    Returns:
        How many bytes were written.

    Raises:
        CardWriteError: the image has not the mechanism, or it does not fit or can't be written.
        ReadBackError: what was read back is not what was written.

    """
    mechanism = _mechanism(boot.names(), first_boot)
    files = {**kit.files, **kit.first_boot(mechanism)}
    files[COMMAND_LINE] = kit.command_line(mechanism, boot.read_text(COMMAND_LINE)).encode()
    size = _check_room(boot, kit, files)
    boot.make_folders(files)
    # The command line last: without it the rest is not looked at.
    for name, data in files.items():
        if name != COMMAND_LINE:
            boot.write(name, data)
    boot.copy(WHEELS, kit.wheels)
    boot.write(COMMAND_LINE, files[COMMAND_LINE])
    sync()
    for name, data in files.items():
        boot.verify(name, hashlib.sha256(data).hexdigest())
    boot.verify(WHEELS, kit.wheels_sha256)
    return size


def _mechanism(names: set[str], wanted: FirstBoot) -> str:
    if COMMAND_LINE not in names:
        raise CardWriteError(f"the image's boot partition has no {COMMAND_LINE}: it is no Pi's")
    has_cloud_init = bool(names & {"user-data", "meta-data"})
    if wanted == "cloud-init" and not has_cloud_init:
        raise CardWriteError(
            "the image has no cloud-init (no user-data on its boot partition): "
            "--first-boot firstrun"
        )
    if wanted == "auto":  # rpi-preseed leaves no trace there
        return "cloud-init" if has_cloud_init else "firstrun"
    return wanted


def _check_room(boot: BootPartition, kit: CardKit, files: Mapping[str, bytes]) -> int:
    sizes = [len(data) for data in files.values()]
    sizes.append(kit.wheels.stat().st_size)
    free = boot.free_bytes()
    needed = sum(-(-size // CLUSTER_BYTES) * CLUSTER_BYTES for size in sizes)
    if needed > free:
        raise CardWriteError(
            f"the boot partition has {free} bytes free, and this device's files take {needed}: "
            "take an image with a larger one"
        )
    return sum(sizes)
