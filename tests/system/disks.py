"""File systems of a test's own, which can be filled, made read-only, and lose power. Need root.

Each is mounted below the test's folder and unmounted when it ends; the machine's own are not
touched. Nobody but the test and the processes that it starts meanwhile sees the mounts: a copy of
one in another mount namespace (`ip netns exec` makes one for each process) would keep the file
system alive after its power was cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, `_IOR('X', 125, __u32)`."""
_NO_LOG_FLUSH = struct.pack("I", 2)
"""EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written."""


_NEW_MOUNTS = 0x00020000
"""CLONE_NEWNS."""
_OWN_DIRECTORY = 0x00000200
"""CLONE_FS."""
_libc = ctypes.CDLL(None, use_errno=True)


class _OwnMounts:
    """A mount namespace of the calling thread, as long as anything is mounted in it."""

    def __init__(self) -> None:
        self._home: int | None = None
        self._mounted = 0

    def enter(self) -> None:
        """Something is about to be mounted.

        Raises:
            OSError: that is for root alone.

        """
        if self._home is None:
            home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            if _libc.unshare(_NEW_MOUNTS):
                os.close(home)
                raise OSError(ctypes.get_errno(), "unshare")
            self._home = home
            # What others unmount goes here too, and nothing goes out.
            subprocess.run(["mount", "--make-rslave", "/"], check=True, capture_output=True)
        self._mounted += 1

    def leave(self) -> None:
        """It is unmounted."""
        self._mounted -= 1
        if not self._mounted and self._home is not None:
            home, self._home = self._home, None
            # Threads that were begun meanwhile share this one's working directory until here, and
            # who enters a namespace stands at its root.
            folder = Path.cwd()
            has_failed = _libc.unshare(_OWN_DIRECTORY) or _libc.setns(home, _NEW_MOUNTS)
            os.close(home)
            if has_failed:
                raise OSError(ctypes.get_errno(), "setns")
            os.chdir(folder)


_own_mounts = _OwnMounts()


class _Mounted:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mounts = 0
        folder.mkdir()

    @property
    def is_mounted(self) -> bool:
        return self._mounts > 0

    def _mount(self, *arguments: str) -> None:
        try:
            _own_mounts.enter()
        except OSError as error:
            pytest.skip(f"can't mount a file system here (needs root): {error}")
        try:
            subprocess.run(
                ["mount", *arguments, str(self.folder)], check=True, capture_output=True, text=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            _own_mounts.leave()
            why = getattr(error, "stderr", None) or str(error)
            pytest.skip(f"can't mount a file system here (needs root): {why.strip()}")
        self._mounts += 1

    def unmount(self) -> None:
        while self.is_mounted:
            subprocess.run(["umount", str(self.folder)], check=True)
            self._mounts -= 1
            _own_mounts.leave()

    def make_read_only(self) -> None:
        """While nothing is open for writing in it."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def fill(self) -> None:
        """Until not a byte more fits."""
        with (self.folder / "filler").open("ab", 0) as file:
            for size in (1 << 20, 512):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def free(self) -> None:
        (self.folder / "filler").unlink()


class Tmpfs(_Mounted):
    """A small disk in memory."""

    def __init__(self, folder: Path, size_kib: int) -> None:
        super().__init__(folder)
        self._mount("-t", "tmpfs", "-o", f"size={size_kib}k", "hedgerow-test")


class Ext4(_Mounted):
    """A disk that can lose power: an ext4 file system in a file.

    `cut_power` stops the file system where it stands: what it had not yet written to its device
    never will be, and its journal is not flushed. What a later mount finds is what ext4 makes of
    the blocks that were on the device, just as after a power cut: synced files are whole, of others
    any part or none may be there, and names that were not synced may be missing. The writers'
    page cache is the kernel's own, so SQLite's files are treated as the log's are.

    Not emulated: a device that acknowledges a flush and loses the data nevertheless (a worn SD card
    may), a torn sector, and damage to neighbouring blocks.
    """

    def __init__(self, folder: Path, image: Path, *, size_mib: int = 64) -> None:
        super().__init__(folder)
        self._image = image
        with image.open("wb") as file:
            file.truncate(size_mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)

    def mount(self, *options: str) -> None:
        """Mount it, with the journal replayed. It writes by itself only after a minute."""
        if not self.is_mounted:
            self._mount_image(self._image, *options)

    def replace(self) -> None:
        """Have a new disk take its place, under who uses it: a copy that e2fsck has mended."""
        copy = self._image.with_suffix(".copy")
        shutil.copyfile(self._image, copy)
        subprocess.run(["e2fsck", "-fy", str(copy)], check=False, capture_output=True)
        self._mount_image(copy)

    def _mount_image(self, image: Path, *options: str) -> None:
        chosen = ",".join(("loop", "commit=60", "errors=remount-ro", *options))
        self._mount("-o", chosen, str(image))

    def cut_power(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def fail_to_read_only(self) -> None:
        """Make it read-only as the kernel does after an error, under open files as well."""
        mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
        device = next(fields[0] for fields in mounts if fields[1] == str(self.folder))
        trigger = Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error"
        if not trigger.exists():
            pytest.skip("this kernel's ext4 has no trigger_fs_error")
        trigger.write_text("a test of the disk's failure")


@contextlib.contextmanager
def unmounted_at_the_end(disk: _Mounted) -> Iterator[None]:
    """For a fixture's ``with``."""
    try:
        yield
    finally:
        disk.unmount()
