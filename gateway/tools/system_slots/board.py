"""A Pi as its firmware and its card show it: what was started, what is started next."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from gateway.tools.system_slots import fat_file, slots
from gateway.tools.system_slots.slots import Slot, SystemSlotError
from gateway.tools.system_slots.trial import StartedSlots

FIRMWARE = Path("/proc/device-tree/chosen/bootloader")
"""The firmware's word on the start (Raspberry Pi documentation, "Device trees")."""
BLOCKS = Path("/sys/dev/block")
"""The folder in which the kernel tells of disks and partitions, by their numbers (sysfs(5))."""
_SYSTEMCTL = "/usr/bin/systemctl"
_SYSTEMCTL_S = 60.0
TRY = "0 tryboot"
"""The argument of reboot(2) that has the firmware try the other slot; 0: the default partition."""


class Board:
    """The Pi that this process runs on.

    Args:
        firmware: the folder that tells of the start.
        partitions: what comes before a partition's number, such as ``/dev/mmcblk0p``; empty for the
            disk that this system's root is on.
        blocks: the folder that tells which disk that is.

    """

    def __init__(
        self, firmware: Path = FIRMWARE, partitions: str = "", blocks: Path = BLOCKS
    ) -> None:
        self._firmware = firmware
        self._partitions = partitions
        self._blocks = blocks

    def running(self) -> StartedSlots:
        """Return what was started, and what is started by default.

        Raises:
            SystemSlotError: this is no such Pi, or no card of ours.

        """
        path = self._firmware / "partition"
        try:
            (partition,) = struct.unpack(">I", path.read_bytes())
        except (OSError, struct.error) as error:
            why = getattr(error, "strerror", None) or error
            raise SystemSlotError(
                f"{path}: {why}: no firmware that has started one of two systems"
            ) from error
        running = Slot.booted_from(partition)
        return StartedSlots(running, self._default(running))

    def make_default(self, slot: Slot) -> None:
        """Have a slot started from now on: one write within one sector.

        Raises:
            SystemSlotError: no card of ours.
            OSError: it can't be written.

        """
        path = self.partition(slots.AUTOBOOT_PARTITION, slot)
        with path.open("r+b", buffering=0) as disk:
            at = _autoboot_at(disk.fileno())
            os.pwrite(disk.fileno(), slots.autoboot(slot), at)
            os.fsync(disk.fileno())

    def restart(self, *, is_try: bool) -> None:
        """Have the Pi restart, into the other slot for once or as ever.

        Raises:
            SystemSlotError: systemd does not.

        """
        command = (_SYSTEMCTL, "reboot", *((f"--reboot-argument={TRY}",) if is_try else ()))
        try:
            subprocess.run(  # noqa: S603  # arguments are our own
                command, capture_output=True, text=True, timeout=_SYSTEMCTL_S, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or error
            raise SystemSlotError(f"{' '.join(command)}: {told}") from error

    def partition(self, number: int, running: Slot) -> Path:
        """Return a partition of the card, as a file.

        Args:
            number: which.
            running: the slot that runs, whose root tells which disk it is.

        Raises:
            SystemSlotError: the disk can't be told.

        """
        return Path(f"{self._partitions or _own_disk(self._blocks, running)}{number}")

    def _default(self, running: Slot) -> Slot:
        path = self.partition(slots.AUTOBOOT_PARTITION, running)
        try:
            with path.open("rb", buffering=0) as disk:
                at = _autoboot_at(disk.fileno())
                return slots.parse_autoboot(os.pread(disk.fileno(), slots.AUTOBOOT_BYTES, at))
        except OSError as error:
            raise SystemSlotError(f"{path}: {error.strerror or error}") from error


def _autoboot_at(descriptor: int) -> int:
    def read_at(offset: int, size: int) -> bytes:
        return os.pread(descriptor, size, offset)

    return fat_file.offset_of(read_at, slots.AUTOBOOT_NAME, slots.AUTOBOOT_BYTES)


def _own_disk(blocks: Path, running: Slot) -> str:
    device = Path("/").stat().st_dev
    told = blocks / f"{os.major(device)}:{os.minor(device)}" / "uevent"
    try:
        lines = dict(line.partition("=")[::2] for line in told.read_text().splitlines())
    except OSError as error:
        raise SystemSlotError(f"{told}: {error.strerror}: / is on no partition") from error
    name, number = lines.get("DEVNAME", ""), str(running.root_partition)
    if not name.endswith(number):
        raise SystemSlotError(
            f"/ is on {name or 'no device'}, and slot {running.value} has its root on partition "
            f"{number}: no card of ours"
        )
    return f"/dev/{name.removesuffix(number)}"
