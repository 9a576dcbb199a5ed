"""Images like those of Raspberry Pi OS, made by the programs that make all such file systems."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

MIB = 1 << 20
BOOT_START_BYTES = 4 * MIB
COMMAND_LINE = "console=tty1 root=PARTUUID=1234-02 rootfstype=ext4 fsck.repair=yes rootwait\n"
CLOUD_INIT = {"user-data": "#cloud-config\n", "meta-data": "", "network-config": ""}


def mbr(*partitions: tuple[int, int, int]) -> bytes:
    """A first sector with partitions, each its kind, start and size in bytes."""
    entries = [
        bytes(4) + bytes([kind]) + bytes(3) + struct.pack("<II", start // 512, size // 512)
        for kind, start, size in partitions
    ]
    return b"".join([bytes(446), *entries]).ljust(510, b"\0") + b"\x55\xaa"


def fat_sector() -> bytes:
    """The first sector of a FAT32, as far as a reader looks that wants to know what it is."""
    return (b"\xeb\x58\x90mkfs.fat".ljust(82, b"\0") + b"FAT32   ").ljust(510, b"\0") + b"\x55\xaa"


def small(boot_start_bytes: int = MIB, size_bytes: int = 3 * MIB) -> bytes:
    """An image that has no more than what is looked at."""
    table = mbr((0x0C, boot_start_bytes, MIB), (0x83, boot_start_bytes + MIB, MIB))
    image = bytearray(size_bytes)
    image[:512] = table
    image[boot_start_bytes : boot_start_bytes + 512] = fat_sector()
    return bytes(image)


def make(
    image: Path,
    root: Path,
    *,
    boot_files: dict[str, str] | None = None,
    boot_bytes: int = 40 * MIB,
    root_bytes: int = 8 * MIB,
) -> None:
    """A FAT partition with a Pi's files and an ext4 partition with those of a folder."""
    size = BOOT_START_BYTES + boot_bytes + root_bytes
    root_start = BOOT_START_BYTES + boot_bytes
    with image.open("wb") as file:
        file.write(mbr((0x0C, BOOT_START_BYTES, boot_bytes), (0x83, root_start, root_bytes)))
        file.truncate(size)
    _run(
        *(
            "mkfs.vfat",
            "-F",
            "32",
            "-s",
            "1",
            "-n",
            "bootfs",
            f"--offset={BOOT_START_BYTES // 512}",
        ),
        *(image, str(boot_bytes // 1024)),
    )
    _run(
        *("mkfs.ext4", "-q", "-L", "rootfs", "-d", root, "-E", f"offset={root_start}"),
        *(image, f"{root_bytes // 1024}k"),
    )
    texts = {"cmdline.txt": COMMAND_LINE, "config.txt": "arm_64bit=1\n", **(boot_files or {})}
    for name, text in {**texts, "kernel8.img": "kernel" * 50_000}.items():
        _run("mcopy", "-i", drive(image), "-", f"::/{name}", data=text.encode())


def drive(image: Path) -> str:
    """The boot partition, as mtools are told of it."""
    return f"{image}@@{BOOT_START_BYTES}"


def boot_files(image: Path, folder: Path) -> dict[str, bytes]:
    """All files of the boot partition by their paths, copied by mcopy."""
    folder.mkdir()
    _run("mcopy", "-s", "-i", drive(image), "::/*", str(folder))
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _run(*command: str | Path, data: bytes = b"") -> None:
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, (command, done.stderr.decode())
