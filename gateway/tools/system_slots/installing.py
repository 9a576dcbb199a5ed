"""Writes a system's image to the slot that does not run, and makes it this card's.

Until all of it is read back and made this card's, nothing says that the slot holds a system.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gateway.tools.flashing import authenticity, base_image, copying
from gateway.tools.flashing.boot_partition import BootPartition
from gateway.tools.flashing.card import Card
from gateway.tools.flashing.errors import RefusalError
from gateway.tools.system_slots import kept, slots
from gateway.tools.system_slots.board import Board
from gateway.tools.system_slots.image_parts import DigestedFile, ImageParts, ImageStretch
from gateway.tools.system_slots.slots import Slot, SystemSlotError

ABOUT = "usr/lib/hedgerow/system.json"
"""The file by which an image tells its version, suite and architecture, below its root."""
KEYRING = Path("/usr/lib/hedgerow/system-keyring.pgp")
"""The keys of those whose images are taken: it came with the system that runs."""
_COMMAND_LINE = "cmdline.txt"
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
_MOUNT_S = 120.0


def version_of(root: Path) -> str:
    """Return the version of the system below a root.

    Raises:
        SystemSlotError: it is none of ours, or for another machine.

    """
    path = root / ABOUT
    try:
        told = json.loads(path.read_bytes())
        version, architecture = told["version"], told["architecture"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or error
        raise SystemSlotError(f"{ABOUT}: {why}: no system of ours") from error
    if _MACHINES.get(architecture) != platform.machine():
        raise SystemSlotError(f"it is for {architecture}, and this is a {platform.machine()}")
    return str(version)


class SlotInstaller:
    """Writes to one slot.

    Args:
        board: whose card it is.
        running: the slot that runs.
        root: of the system that runs.

    """

    def __init__(self, board: Board, running: Slot, root: Path = Path("/")) -> None:
        self._slot = running.other
        self._boot = board.partition(self._slot.boot_partition, running)
        self._root = board.partition(self._slot.root_partition, running)
        self._old = root

    def install(self, image: Path, keyring: Path, steps: copying.ProgressOfStep) -> str:
        """Check an image, write it and read it back.

        Args:
            image: its file, with its signature beside it.
            keyring: whose signature counts.
            steps: show what goes on.

        Returns:
            The version that is whole in the slot now.

        Raises:
            FlashError: the image is refused, or the card fails.
            SystemSlotError: the image is not for this machine, or the card not ours.
            OSError: a file can't be read or written.

        """
        checked = authenticity.check(image, None, keyring)
        disk_id = slots.disk_id_in((self._old / "etc/fstab").read_text())
        with image.open("rb") as file:
            digested = DigestedFile(file)
            with base_image.unpacked(image.name, cast(BinaryIO, digested)) as unpacked:
                parts = ImageParts(unpacked)
                self._write(parts.boot(), self._boot, steps, "boot partition")
                self._write(parts.root(), self._root, steps, "root")
            if digested.sha256() != checked.sha256:
                raise RefusalError(f"{image}: has changed since its signature was checked")
        self._make_own_boot(disk_id)
        with _mounted(self._root) as root:
            version = version_of(root)
            table = root / "etc/fstab"
            table.write_text(slots.for_slot(table.read_text(), disk_id, self._slot))
            kept.take_over(self._old, root)
        return version

    def _write(
        self, stretch: ImageStretch, partition: Path, steps: copying.ProgressOfStep, what: str
    ) -> None:
        try:
            # Nobody else may have mounted it (open(2), O_EXCL of a block device).
            exclusive = os.O_EXCL if partition.is_block_device() else 0
            descriptor = os.open(partition, os.O_RDWR | os.O_CLOEXEC | exclusive)
        except OSError as error:
            raise SystemSlotError(f"{partition}: {error.strerror or error}") from error
        card = Card(descriptor, str(partition), is_device=partition.is_block_device())
        try:
            room = os.lseek(descriptor, 0, os.SEEK_END)
            if room < stretch.size_bytes:
                raise RefusalError(
                    f"its {what} has {stretch.size_bytes} bytes, and {partition} {room}"
                )
            size = stretch.size_bytes
            written = copying.write(stretch.read, card, size, steps(f"writing its {what}"))
            copying.verify(card, written, steps(f"reading its {what} back"))
        finally:
            card.close()

    def _make_own_boot(self, disk_id: str) -> None:
        boot = BootPartition(self._boot, 0)
        text = slots.for_slot(boot.read_text(_COMMAND_LINE), disk_id, self._slot)
        boot.write(_COMMAND_LINE, text.encode())
        descriptor = os.open(self._boot, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if boot.read_text(_COMMAND_LINE) != text:
            raise SystemSlotError(f"{self._boot}: {_COMMAND_LINE} is not what was written")


@contextmanager
def _mounted(partition: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hedgerow-system-") as folder:
        _run("/bin/mount", str(partition), folder)
        try:
            yield Path(folder)
            _run("/bin/sync", "--file-system", folder)
        finally:
            _run("/bin/umount", folder)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=_MOUNT_S, check=True)  # noqa: S603  # our own
    except (OSError, subprocess.SubprocessError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip()
        raise SystemSlotError(f"{' '.join(command)}: {told}") from error
