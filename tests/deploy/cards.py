"""Cards of Pis, as images on a file system that copies a file of any size in one step.

A card is an image with an ext4, which a loop device shows. What its file system holds only in
memory is not in the image. The shelf is an XFS, whose copies (FICLONE) take no room for what is the
same.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commands import run

PROGRAMS = (("mkfs.xfs", "xfsprogs"), ("mkfs.ext4", "e2fsprogs"), ("fusermount3", "fuse3"))
"""Each program that is needed, and the Debian package that has it."""
SHELF_BYTES = 24 << 30
"""Room for all images; what nobody writes takes none."""
CARD_BYTES = 3 << 30
COMMIT_S = 5
"""Seconds after which ext4 notes what has changed: its own default, and Raspberry Pi OS's.

The content of files follows only after 30 s, the kernel's default: files have their names before.
"""


def why_not() -> str | None:
    """Return why there can be no cards here, or None if there can."""
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            return f"{program} is not installed: sudo apt-get install {package}"
    systems = Path("/proc/filesystems").read_text().split()
    lacking = [system for system in ("xfs", "ext4", "fuse") if system not in systems]
    if lacking:
        return f"the kernel has no {lacking[0]}: sudo modprobe {lacking[0]}"
    return None


@dataclass(frozen=True)
class Card:
    """One card.

    Attributes:
        image: its file on the shelf.

    """

    image: Path

    def copied(self, name: str) -> Card:
        """Copy the image as it is now; return the copy as another card."""
        other = Card(self.image.with_name(f"{name}.img"))
        run("cp", "--reflink=always", self.image, other.image)
        return other

    def remove(self) -> None:
        """Have its room again."""
        self.image.unlink()

    @contextlib.contextmanager
    def mounted(self) -> Iterator[Path]:
        """Its root while it is in a Pi; what is left in memory in the end is written."""
        # Without barriers: the image has each write at once, and needs no flush of the host's.
        with mounted(self.image, self.image.with_suffix(""), "nobarrier") as root:
            yield root


@contextlib.contextmanager
def mounted(disk: Path, root: Path, *options: str) -> Iterator[Path]:
    """Mount the ext4 of a file as a Pi mounts its card, and take the mount away in the end."""
    root.mkdir(exist_ok=True)
    said = ",".join(("loop", "noatime", f"commit={COMMIT_S}", *options))
    run("mount", "-o", said, disk, root)
    try:
        yield root
    finally:
        run("umount", root)
    root.rmdir()


class Shelf:
    """A folder that holds cards.

    Args:
        folder: of the shelf, mounted.

    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def card_of(self, root: Path, name: str) -> Card:
        """A new card with a root file system."""
        card = Card(self.folder / f"{name}.img")
        with card.image.open("wb") as file:
            file.truncate(CARD_BYTES)
        run("mkfs.ext4", "-q", "-F", "-L", "rootfs", "-d", root, card.image)
        return card


@contextlib.contextmanager
def shelf_in(folder: Path) -> Iterator[Shelf]:
    """A shelf, taken away in the end."""
    disk, where = folder / "shelf.xfs", folder / "shelf"
    with disk.open("wb") as file:
        file.truncate(SHELF_BYTES)
    run("mkfs.xfs", "-q", "-m", "reflink=1", disk)
    where.mkdir()
    run("mount", "-o", "loop,noatime", disk, where)
    try:
        yield Shelf(where)
    finally:
        subprocess.run(["umount", where], check=False)
        disk.unlink()
