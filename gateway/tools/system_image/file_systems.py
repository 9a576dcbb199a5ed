"""File systems within an image, the same bytes each time: FAT by mtools, ext4 by mke2fs.

No mounting: `mke2fs -d` takes a folder as it is, in the order of names. What it takes from the
builder's own file system (when an inode changed there) is set to the image's time afterwards.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import SECTOR_BYTES, PlacedPartition

PROGRAMS = {
    "sfdisk": "fdisk",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
}
"""The programs that are needed, and the Debian package of each."""
_FEATURES = (
    "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,"
    "large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
)
"""Named one by one: what a builder's mke2fs.conf has differs."""
_FIRST_FREE_INODE = 11
_KIB = 1024


def check_programs(programs: Mapping[str, str] = PROGRAMS) -> None:
    """Check that the programs are there.

    Raises:
        ImageBuildError: one is not; it names its package.

    """
    missing = sorted({package for name, package in programs.items() if shutil.which(name) is None})
    if missing:
        raise ImageBuildError(f"not installed: sudo apt-get install {' '.join(missing)}")


class ImageFile:
    """An image that is being made.

    Args:
        path: its file, which is made anew.
        size_bytes: of it.
        epoch_s: the time of all that is in it, in seconds since 1970.

    """

    def __init__(self, path: Path, size_bytes: int, epoch_s: int) -> None:
        self._path = path
        self._epoch_s = epoch_s
        with path.open("wb") as file:
            file.truncate(size_bytes)

    def partition(self, sfdisk_script: str) -> None:
        """Write the partition table.

        Raises:
            ImageBuildError: sfdisk does not.

        """
        self._run("sfdisk", "--quiet", "--wipe=never", self._path, text=sfdisk_script)

    def fat(
        self, at: PlacedPartition, bits: int, volume_id: str, files: Mapping[str, bytes]
    ) -> None:
        """Make a FAT file system with these files.

        Args:
            at: where.
            bits: 16 or 32.
            volume_id: 8 hexadecimal digits.
            files: by their paths.

        Raises:
            ImageBuildError: it can't be made, or they don't fit.

        """
        label = "AUTOBOOT" if bits == 16 else "bootfs"
        self._run(
            "mkfs.vfat",
            "--invariant",
            "-F",
            str(bits),
            "-s",
            "1",
            "-i",
            volume_id,
            "-n",
            label,
            f"--offset={at.start_bytes // SECTOR_BYTES}",
            self._path,
            str(at.size_bytes // _KIB),
        )
        drive = ("-i", f"{self._path}@@{at.start_bytes}")
        folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
        for folder in sorted(folders):
            self._run("mmd", *drive, f"::/{folder}")
        for name, data in sorted(files.items()):
            self._run("mcopy", *drive, "-", f"::/{name}", text=data)

    def ext4(
        self, at: PlacedPartition, label: str, ids: tuple[str, str], tree: Path | None
    ) -> None:
        """Make an ext4 file system.

        Args:
            at: where.
            label: its name.
            ids: its UUID, and the seed of its hashes.
            tree: what is in it; None: nothing.

        Raises:
            ImageBuildError: it can't be made, or does not fit.

        """
        self._run(
            "mke2fs",
            "-q",
            "-F",
            "-t",
            "ext4",
            "-O",
            _FEATURES,
            "-b",
            "4096",
            "-I",
            "256",
            "-m",
            "1",
            "-L",
            label,
            "-U",
            ids[0],
            "-E",
            f"offset={at.start_bytes},hash_seed={ids[1]},nodiscard,root_owner=0:0",
            *(("-d", tree) if tree is not None else ()),
            self._path,
            f"{at.size_bytes // _KIB}k",
        )
        if tree is not None:
            self._set_times(at)

    def _set_times(self, at: PlacedPartition) -> None:
        place = f"{self._path}?offset={at.start_bytes}"
        told = self._run("debugfs", "-R", "stats -h", place)
        used = _number(told, "Inode count") - _number(
            told, "Free inodes"
        )  # inodes are taken one after another in a new file system
        lines = [
            f"set_inode_field <{inode}> {field} @{self._epoch_s}\n"
            for inode in (2, *range(_FIRST_FREE_INODE, used + 1))
            for field in ("ctime", "atime")
        ]
        self._run("debugfs", "-w", "-f", "-", place, text="".join(lines))

    def _run(self, *command: str | Path, text: str | bytes = b"") -> str:
        data = text.encode() if isinstance(text, str) else text
        return run(command, data, self._epoch_s)


def run(command: Sequence[str | Path], data: bytes, epoch_s: int) -> str:
    """Return what a program prints that is told the time.

    Args:
        command: it and its arguments.
        data: its standard input.
        epoch_s: the time.

    Raises:
        ImageBuildError: it is not there, or fails.

    """
    fixed = {"SOURCE_DATE_EPOCH": str(epoch_s), "E2FSPROGS_FAKE_TIME": str(epoch_s)}
    fixed |= {"TZ": "UTC", "LC_ALL": "C", "MTOOLS_SKIP_CHECK": "1"}
    try:
        done = subprocess.run(  # noqa: S603  # arguments are our own
            command, input=data, capture_output=True, check=False, env={**os.environ, **fixed}
        )
    except OSError as error:
        raise ImageBuildError(f"{command[0]}: {error.strerror or error}") from error
    if done.returncode != 0:
        told = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise ImageBuildError(f"{command[0]}: {told[-2000:]}")
    return done.stdout.decode(errors="replace")


def _number(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    if found is None:
        raise ImageBuildError(f"debugfs does not say its {name}")
    return int(found[1])
