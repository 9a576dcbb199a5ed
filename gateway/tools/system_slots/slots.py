"""The two slots of a card, and the texts by which firmware, kernel and system find them.

Pure. Raspberry Pi documentation, "autoboot.txt" and "Fail-safe OS updates (TRYBOOT)": the firmware
reads ``autoboot.txt`` from the first FAT partition and starts from the partition that it names;
the section ``[tryboot]`` counts for one start, if whoever restarted the Pi asked for that with
``reboot "0 tryboot"``. The flag is gone with that start, and with the power.
"""

from __future__ import annotations

import re
from enum import Enum

AUTOBOOT_PARTITION = 1
"""FAT, and on it ``autoboot.txt`` alone: nobody mounts it."""
EXTENDED_PARTITION = 4
"""The partition that holds those from 5 on: an MBR has room for four."""
DATA_PARTITION = 7
"""The partition that a system upgrade leaves as it is."""
AUTOBOOT_NAME = "autoboot.txt"
AUTOBOOT_BYTES = 256
"""Its length, always: it is written anew in place, within one sector. The firmware takes 512."""

_PARTUUID = re.compile(r"PARTUUID=[0-9a-fA-F]{8}-0([2-7])\b")


class SystemSlotError(Exception):
    """The change is not possible, or the card is not one of ours; the message says why."""


class Slot(Enum):
    """One of two places for a whole system."""

    A = "A"
    B = "B"

    @property
    def other(self) -> Slot:
        """The one that this one is not."""
        return Slot.B if self is Slot.A else Slot.A

    @property
    def boot_partition(self) -> int:
        """The partition that the firmware starts it from."""
        return 2 if self is Slot.A else 3

    @property
    def root_partition(self) -> int:
        """The partition of its root file system."""
        return 5 if self is Slot.A else 6

    @classmethod
    def booted_from(cls, partition: int) -> Slot:
        """Return the slot whose boot partition this is.

        Raises:
            SystemSlotError: it is neither's.

        """
        for slot in cls:
            if slot.boot_partition == partition:
                return slot
        raise SystemSlotError(f"partition {partition} is no slot's boot partition (2 or 3)")


def autoboot(default: Slot) -> bytes:
    """Return the whole of ``autoboot.txt``, `AUTOBOOT_BYTES` long.

    Args:
        default: the slot that is started; the other one is, when a start is a try.

    """
    text = (
        "[all]\n"
        "tryboot_a_b=1\n"
        f"boot_partition={default.boot_partition}\n"
        "[tryboot]\n"
        f"boot_partition={default.other.boot_partition}\n"
        "# Written in place by `hedgerow system`.\n"
    )
    return text.encode().ljust(AUTOBOOT_BYTES - 1) + b"\n"


def parse_autoboot(data: bytes) -> Slot:
    """Return the slot that ``autoboot.txt`` has started.

    Raises:
        SystemSlotError: it is none that `autoboot` makes.

    """
    for slot in Slot:
        if data == autoboot(slot):
            return slot
    raise SystemSlotError(f"{AUTOBOOT_NAME} is not ours: {data[:80]!r}")


def for_slot(text: str, disk_id: str, slot: Slot) -> str:
    """Return a text of an image, such as ``cmdline.txt`` or ``fstab``, for one card and slot.

    Args:
        text: as the image has it, for slot A of the image's own disk id.
        disk_id: of the card: 8 hexadecimal digits, as ``PARTUUID=`` has them.
        slot: which slot it is for.

    """

    def own(found: re.Match[str]) -> str:
        number = int(found[1])
        if number in (Slot.A.boot_partition, Slot.B.boot_partition):
            number = slot.boot_partition
        elif number in (Slot.A.root_partition, Slot.B.root_partition):
            number = slot.root_partition
        return f"PARTUUID={disk_id}-0{number}"

    return _PARTUUID.sub(own, text)


def disk_id_in(text: str) -> str:
    """Return the disk id that a text of this card names.

    Raises:
        SystemSlotError: it names none.

    """
    found = _PARTUUID.search(text)
    if found is None:
        raise SystemSlotError("no PARTUUID=: this system is not on a card of ours")
    return found[0].removeprefix("PARTUUID=").partition("-")[0]
