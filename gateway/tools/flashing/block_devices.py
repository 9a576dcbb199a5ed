"""Disks that may be written over: what the kernel says of one, and what speaks against it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.tools.flashing import partition_table
from gateway.tools.flashing.errors import RefusalError
from light_dataclasses import dataclass

SECTOR_BYTES = 512
"""The unit of sizes in /sys, whatever the disk's own sectors are."""


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The facts that the kernel tells of a disk.

    Attributes:
        path: as it was named.
        name: the kernel's, such as ``sdb``.
        model: its maker's, or empty.
        size_bytes: 0 for a reader without a card.
        whole_disk: the name of the disk that this is a partition of; empty for a disk.
        is_removable: a card or a stick, as far as the kernel knows.
        is_read_only: it takes no writing.
        mounts: where it, or a partition of it, is mounted.
        swaps: what of it is used for swapping.
        holders: what is made of it: LVM, RAID, encryption.

    """

    path: Path
    name: str
    model: str
    size_bytes: int
    whole_disk: str
    is_removable: bool
    is_read_only: bool
    mounts: Sequence[str]
    swaps: Sequence[str]
    holders: Sequence[str]

    def described(self) -> str:
        """Return name, model and size, for people."""
        parts = (str(self.path), self.model, f"{self.size_bytes / 1e9:.1f} GB")
        return ", ".join(part for part in parts if part)


def refusals(disk: DiskFacts, needed_bytes: int, *, takes_fixed: bool) -> Iterator[str]:
    """Yield all that speaks against writing over a disk.

    Args:
        disk: what is known of it.
        needed_bytes: how large the image is.
        takes_fixed: whether a disk that is not removable is meant.

    """
    if disk.whole_disk:
        yield f"it is a partition: name the disk, /dev/{disk.whole_disk}"
    for mount in disk.mounts:
        if mount in ("/", "/boot", "/boot/firmware", "/usr"):
            yield f"this system runs from it: it is mounted at {mount}"
        else:
            yield f"it is mounted at {mount}: unmount it first"
    for swap in disk.swaps:
        yield f"this system swaps to {swap}"
    for holder in disk.holders:
        yield f"it is in use by {holder}"
    if disk.is_read_only:
        yield "it is read-only: cards have a slide for that"
    if disk.size_bytes == 0:
        yield "there is no card in it"
    elif disk.size_bytes < needed_bytes:
        yield f"it is too small: {disk.size_bytes} bytes, and the image needs {needed_bytes}"
    if not disk.is_removable and not takes_fixed:
        yield "it is a fixed disk: --yes-really takes it all the same"


def check(disk: DiskFacts, needed_bytes: int, *, takes_fixed: bool) -> None:
    """Refuse a disk that anything speaks against; see `refusals`.

    Raises:
        RefusalError: it is refused; all reasons are in it.

    """
    if reasons := list(refusals(disk, needed_bytes, takes_fixed=takes_fixed)):
        raise RefusalError(f"{disk.path}: {'; '.join(reasons)}")


def contents(path: Path) -> str:
    """Say what is on a disk; empty if its beginning is blank.

    Raises:
        RefusalError: it can't be read.

    """
    try:
        with path.open("rb") as disk:
            return partition_table.described(disk.read(partition_table.TABLE_BYTES))
    except OSError as error:
        raise RefusalError(f"--to: {path}: {error.strerror or error}") from error


def is_block_device(path: Path) -> bool:
    """Return whether a path is a disk, not an image's file."""
    try:
        return stat.S_ISBLK(path.stat().st_mode)
    except OSError:
        return False


def facts(path: Path) -> DiskFacts:
    """Ask the kernel for a disk.

    Raises:
        RefusalError: there is no such disk.

    """
    try:
        device = path.stat().st_rdev
    except OSError as error:
        raise RefusalError(f"--to: {path}: {error.strerror or error}") from error
    return facts_of(path, f"{os.major(device)}:{os.minor(device)}", Path("/proc"), Path("/sys"))


def facts_of(path: Path, number: str, proc: Path, sys: Path) -> DiskFacts:
    """Read them from what is mounted there.

    Args:
        path: as it was named.
        number: of the device, as ``8:16``.
        proc: where procfs is.
        sys: where sysfs is.

    Raises:
        RefusalError: the kernel knows no such disk.

    """
    folder = (sys / "dev" / "block" / number).resolve()
    if not folder.is_dir():
        raise RefusalError(f"--to: {path}: the kernel knows no disk {number}")
    own = [folder, *sorted(each.parent for each in folder.glob("*/partition"))]
    numbers = {_text(each / "dev") for each in own}
    names = {each.name for each in own}
    holders = sorted({held.name for each in own for held in (each / "holders").glob("*")})
    return DiskFacts(
        path,
        folder.name,
        " ".join(_text(folder / "device" / part) for part in ("vendor", "model", "name")).strip(),
        int(_text(folder / "size") or 0) * SECTOR_BYTES,
        folder.parent.name if (folder / "partition").exists() else "",
        _is_removable(folder),
        _text(folder / "ro") == "1",
        tuple(_mounts(_text(proc / "self" / "mountinfo"), numbers, names)),
        tuple(_swaps(_text(proc / "swaps"), names)),
        tuple(holders),
    )


def _is_removable(folder: Path) -> bool:
    # A card in a reader on the board is mmcblkN and not "removable", as is soldered memory (MMC).
    return _text(folder / "removable") == "1" or _text(folder / "device" / "type") == "SD"


def _mounts(mountinfo: str, numbers: set[str], names: set[str]) -> Iterator[str]:
    """Mount points (proc_pid_mountinfo(5)); btrfs names its disk as the source alone."""
    for line in mountinfo.splitlines():
        fields, _, more = line.partition(" - ")
        parts, source = fields.split(" "), more.split(" ")
        if len(parts) < 5 or len(source) < 2:
            continue
        if parts[2] in numbers or (
            source[1].startswith("/dev/") and _unescaped(source[1]).rpartition("/")[2] in names
        ):
            yield _unescaped(parts[4])


def _swaps(swaps: str, names: set[str]) -> Iterator[str]:
    for line in swaps.splitlines()[1:]:
        file = _unescaped(line.split(" ")[0].split("\t")[0])
        if file.startswith("/dev/") and file.rpartition("/")[2] in names:
            yield file


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
