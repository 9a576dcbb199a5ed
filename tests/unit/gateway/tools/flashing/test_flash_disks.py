"""A disk that should not be written over is refused, by the words of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tools.flashing import block_devices
from gateway.tools.flashing.errors import RefusalError

ROOT = "24 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
NEEDED_BYTES = 1 << 30


class Machine:
    """A procfs and a sysfs with one disk, as the kernel lays them out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("proc/self/mountinfo", ROOT)
        self.write("proc/swaps", "Filename\t\t\t\tType\t\tSize\n")
        self.disk = "sys/devices/pci0/usb1/block/sdb"
        for name, text in {
            "dev": "8:16",
            "size": str(1 << 22),
            "removable": "1",
            "ro": "0",
        }.items():
            self.write(f"{self.disk}/{name}", text)
        self.write(f"{self.disk}/device/model", "Card Reader ")
        self.write(f"{self.disk}/sdb1/partition", "1")
        self.write(f"{self.disk}/sdb1/dev", "8:17")
        (folder / "sys/dev/block").mkdir(parents=True)
        (folder / "sys/dev/block/8:16").symlink_to(folder / self.disk)
        (folder / "sys/dev/block/8:17").symlink_to(folder / self.disk / "sdb1")

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def check(self, number: str = "8:16", *, takes_fixed: bool = False) -> None:
        facts = block_devices.facts_of(
            Path("/dev/sdb"), number, self.folder / "proc", self.folder / "sys"
        )
        block_devices.check(facts, NEEDED_BYTES, takes_fixed=takes_fixed)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_card_in_a_reader_that_nobody_uses_is_taken(machine: Machine) -> None:
    machine.check()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("proc/self/mountinfo", ROOT.replace("259:2", "8:17"), "this system runs from it"),
        (
            "proc/self/mountinfo",
            "9 1 8:17 / /media/a\\040b rw - vfat /dev/sdb1 rw",
            "at /media/a b",
        ),
        ("proc/self/mountinfo", "9 1 8:16 / /mnt rw - vfat /dev/sdb rw", "mounted at /mnt"),
        ("proc/self/mountinfo", "9 1 0:44 / / rw - btrfs /dev/sdb1 rw", "this system runs from it"),
        ("proc/self/mountinfo", "9 1 8:17 / /boot rw a:1 b:2 - vfat x rw", "this system runs from"),
        ("proc/swaps", "Filename\n/dev/sdb1\tpartition\t1\n", "swaps to /dev/sdb1"),
        ("sys/devices/pci0/usb1/block/sdb/sdb1/holders/dm-0/x", "", "in use by dm-0"),
        ("sys/devices/pci0/usb1/block/sdb/holders/md1/x", "", "in use by md1"),
        ("sys/devices/pci0/usb1/block/sdb/ro", "1", "read-only"),
        ("sys/devices/pci0/usb1/block/sdb/size", "0", "no card in it"),
        ("sys/devices/pci0/usb1/block/sdb/size", "2048", "too small: 1048576 bytes, and the image"),
        ("sys/devices/pci0/usb1/block/sdb/removable", "0", "fixed disk: --yes-really"),
    ],
)
def test_a_disk_that_should_not_be_written_over_is_refused_with_the_reason(
    machine: Machine, name: str, text: str, why: str
) -> None:
    machine.write(name, text)
    with pytest.raises(RefusalError, match=f"/dev/sdb: .*{why}"):
        machine.check()


def test_a_fixed_disk_is_taken_if_it_is_really_meant_but_not_one_that_is_mounted(
    machine: Machine,
) -> None:
    machine.write(f"{machine.disk}/removable", "0")
    machine.check(takes_fixed=True)
    machine.write("proc/self/mountinfo", "9 1 8:17 / /mnt rw - vfat /dev/sdb1 rw")
    with pytest.raises(RefusalError, match="mounted at /mnt"):
        machine.check(takes_fixed=True)


def test_a_card_in_a_reader_on_the_board_is_no_fixed_disk_and_soldered_memory_is(
    machine: Machine,
) -> None:
    machine.write(f"{machine.disk}/removable", "0")
    machine.write(f"{machine.disk}/device/type", "SD")
    machine.check()
    machine.write(f"{machine.disk}/device/type", "MMC")
    with pytest.raises(RefusalError, match="fixed disk"):
        machine.check()


def test_a_partition_is_refused_and_its_disk_named(machine: Machine) -> None:
    machine.write(f"{machine.disk}/sdb1/size", str(1 << 22))
    with pytest.raises(RefusalError, match="it is a partition: name the disk, /dev/sdb"):
        machine.check("8:17")


def test_a_disk_that_the_kernel_does_not_know_is_refused(machine: Machine) -> None:
    with pytest.raises(RefusalError, match="knows no disk 8:32"):
        machine.check("8:32")


def test_lines_of_mounts_that_say_too_little_are_passed_over(machine: Machine) -> None:
    machine.write("proc/self/mountinfo", "9 1 8:17\n9 1 8:17 / /mnt rw - vfat\n" + ROOT)
    machine.check()
    # btrfs names its disk as the source alone; a space in a mount point is written as \\040.
    machine.write("proc/self/mountinfo", r"9 1 0:33 / /my\040disk rw - btrfs /dev/sdb1 rw")
    with pytest.raises(RefusalError, match="mounted at /my disk"):
        machine.check()
