"""One card from its image to what its first boot needs, and what it took."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

from gateway.tools.flashing import base_image, block_devices, card, copying, injection
from gateway.tools.flashing.base_image import BaseImage
from gateway.tools.flashing.block_devices import DiskFacts
from gateway.tools.flashing.boot_partition import AUTOBOOT, BootPartition, autoboot_partition
from gateway.tools.flashing.device import FirstBoot
from gateway.tools.flashing.errors import CardWriteError, FlashError, RefusalError
from gateway.tools.flashing.kit import CardKit
from gateway.tools.flashing.partition_table import PartitionKind
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardOrder:
    """An order for one card.

    Attributes:
        image: the base image's file.
        target: a disk, or a file that is not there yet.
        first_boot: the mechanism.
        takes_fixed: whether a disk that is not removable is meant.

    """

    image: Path
    target: Path
    first_boot: FirstBoot
    takes_fixed: bool


@dataclass(frozen=True, slots=True)
class FlashedCard:
    """The result of flashing one card.

    Attributes:
        image_bytes: of the unpacked image, written and read back.
        injected_bytes: of this device's files.
        write_s: seconds for writing the image.
        verify_s: for reading it back.
        inject_s: for this device's files.

    """

    image_bytes: int
    injected_bytes: int
    write_s: float
    verify_s: float
    inject_s: float


def flash(
    order: CardOrder,
    kit: CardKit,
    confirm: Callable[[DiskFacts, str], None],
    steps: copying.ProgressOfStep,
) -> FlashedCard:
    """Make a card.

    Args:
        order: what of.
        kit: what its device is made of.
        confirm: is asked before a disk is written over, told of the disk and of what is on it, and
            raises if it is not to be.
        steps: show what goes on.

    Raises:
        RefusalError: nothing was written.
        CardWriteError: the card is of no use as it is.
        ReadBackError: nor is this one, and it is damaged.

    """
    if order.target.is_relative_to("/dev") and platform.system() != "Linux":
        raise RefusalError(
            f"--to: {order.target}: {platform.system()}'s disks are not written, for what speaks "
            "against one is known of Linux's alone: --to FOLDER makes image files, which Raspberry "
            "Pi Imager writes to cards (Use custom, without its own settings)"
        )
    is_device = block_devices.is_block_device(order.target)
    if not is_device and order.target.is_relative_to("/dev"):
        raise RefusalError(f"--to: {order.target}: there is no such disk")
    with base_image.opened(order.image) as image:
        if is_device:
            disk = block_devices.facts(order.target)
            block_devices.check(disk, image.table.end_bytes, takes_fixed=order.takes_fixed)
            confirm(disk, block_devices.contents(order.target))
        with card.opened(order.target, is_device=is_device) as opened:
            try:
                return _onto(opened, image, order, kit, steps)
            except (FlashError, KeyboardInterrupt):
                if not is_device:
                    order.target.unlink()
                raise


def _boot_partition(target: Path, image: BaseImage) -> BootPartition:
    """Return the one that a Pi starts from: the first, or the one that its ``autoboot.txt``
    names."""
    first = BootPartition(target, image.table.boot.start_bytes)
    if AUTOBOOT not in first.names():
        return first
    number = autoboot_partition(first.read_text(AUTOBOOT))
    for one in image.table.partitions:
        if one.number == number and one.kind is PartitionKind.FAT:
            return BootPartition(target, one.start_bytes)
    raise CardWriteError(f"the image's {AUTOBOOT} names partition {number}, which is not FAT")


def _onto(
    opened: card.Card,
    image: BaseImage,
    order: CardOrder,
    kit: CardKit,
    steps: copying.ProgressOfStep,
) -> FlashedCard:
    begun = time.monotonic()
    # The partition table waits for the device's files: without them a Pi would start as anybody's.
    head_bytes = min(image.table.boot.start_bytes, card.CHUNK_BYTES)
    written = copying.write_but_head(
        image.read, opened, image.table.end_bytes, steps("writing"), head_bytes
    )
    write_ended = time.monotonic()
    copying.verify(opened, written, steps("reading back"), has_head=False)
    verify_ended = time.monotonic()
    boot = _boot_partition(order.target, image)
    injected = injection.inject(boot, kit, order.first_boot, opened.sync)
    copying.write_head(opened, written)
    return FlashedCard(
        written.size_bytes,
        injected,
        write_ended - begun,
        verify_ended - write_ended,
        time.monotonic() - verify_ended,
    )
