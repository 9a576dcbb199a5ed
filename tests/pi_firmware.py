"""The choice of what a Pi's firmware starts: a reading of its documentation of autoboot.txt.

It shares nothing with the code that writes the file: filters [all], [none] and [tryboot], at most
512 bytes, the last value counts.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def started_partition(autoboot_txt: bytes, *, is_try: bool) -> int:
    """The number of the partition that is started."""
    assert len(autoboot_txt) <= 512
    applies, partition, is_a_b = True, 0, False
    for line in autoboot_txt.decode().splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            applies = {"[all]": True, "[none]": False, "[tryboot]": is_try}[stripped]
        elif applies and not stripped.startswith("#") and "=" in stripped:
            name, _, value = stripped.partition("=")
            partition = int(value) if name == "boot_partition" else partition
            is_a_b = is_a_b or (name == "tryboot_a_b" and value == "1")
    assert is_a_b  # else a try would look for tryboot.txt on the partition
    return partition


def start(first_partition: Path, firmware: Path, *, is_try: bool) -> int:
    """Start from a card, and tell what was started as the device tree does.

    Args:
        first_partition: the card's, as a file or a disk.
        firmware: the folder in the place of /proc/device-tree/chosen/bootloader.
        is_try: whether whoever restarted asked for a try.

    """
    read = subprocess.run(
        ["mtype", "-i", first_partition, "::/autoboot.txt"], capture_output=True, check=True
    )
    partition = started_partition(read.stdout, is_try=is_try)
    firmware.mkdir(exist_ok=True)
    (firmware / "partition").write_bytes(partition.to_bytes(4, "big"))
    (firmware / "tryboot").write_bytes(int(is_try).to_bytes(4, "big"))
    return partition
