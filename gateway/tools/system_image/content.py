"""Content of an image, put together: a root, a boot partition, and what data begins with."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.tools.system_image.file_systems import ImageFile
from gateway.tools.system_image.layout import ImageLayout, ImageNames
from gateway.tools.system_slots import slots
from gateway.tools.system_slots.slots import Slot
from light_dataclasses import dataclass

NO_DISK_ID = "00000000"
"""In the texts of a root whose digest is not known yet."""
DATA_FOLDERS = {"system": 0o700, "home": 0o755, "etc/hedgerow": 0o750, "var/lib/hedgerow": 0o700}
"""The folders that the data partition begins with, and their modes."""


@dataclass(frozen=True, slots=True)
class ImageContent:
    """The files and numbers that an image is made of.

    Attributes:
        root: the folder of the root file system, with the texts of `NO_DISK_ID`.
        boot: files of the boot partition by their paths, with such texts.
        service_ids: the numbers of the service's user and group.
        epoch_s: the time of all that is in it.

    """

    root: Path
    boot: Mapping[str, bytes]
    service_ids: tuple[int, int]
    epoch_s: int


def write(content: ImageContent, layout: ImageLayout, digest: str, path: Path) -> ImageNames:
    """Write an image; the root's ``fstab`` gets the card's names.

    Args:
        content: what of.
        layout: where it is.
        digest: of the content, by `tree_digest`.
        path: the image's file.

    Raises:
        ImageBuildError: a program fails, or it does not fit.
        OSError: a file can't be read or written.

    """
    names = ImageNames(digest)
    table = content.root / "etc/fstab"
    table.write_text(slots.for_slot(table.read_text(), names.disk_id, Slot.A))
    set_times(content.root, content.epoch_s)
    image = ImageFile(path, layout.size_bytes, content.epoch_s)
    image.partition(layout.sfdisk_script(names.disk_id))
    at = layout.partitions
    image.fat(
        at[slots.AUTOBOOT_PARTITION],
        16,
        names.volume_id("autoboot"),
        {slots.AUTOBOOT_NAME: slots.autoboot(Slot.A), **_first_stage(content.boot)},
    )
    boot = {
        name: slots.for_slot(data.decode(), names.disk_id, Slot.A).encode()
        if name == "cmdline.txt"
        else data
        for name, data in content.boot.items()
    }
    image.fat(at[Slot.A.boot_partition], 32, names.volume_id("boot"), boot)
    image.fat(at[Slot.B.boot_partition], 32, names.volume_id("boot"), {})
    root_ids = (names.uuid("root"), names.uuid("root hashes"))
    image.ext4(at[Slot.A.root_partition], "rootfs", root_ids, content.root)
    with tempfile.TemporaryDirectory(prefix="hedgerow-data-") as folder:
        data = Path(folder) / "data"
        _make_data(data, content.service_ids)
        set_times(data, content.epoch_s)
        data_ids = (names.uuid("data"), names.uuid("data hashes"))
        image.ext4(at[slots.DATA_PARTITION], "data", data_ids, data)
    return names


def _first_stage(boot: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what Pis before the 4 read from the first partition; later ones have it in a chip."""
    return {name: data for name, data in boot.items() if name == "bootcode.bin"}


def tree_digest(root: Path, boot: Mapping[str, bytes]) -> str:
    """SHA-256 of what is in a root and a boot partition: names, modes, owners and contents."""
    digest = hashlib.sha256()
    for path in sorted_tree(root):
        about = path.lstat()
        what = f"{path.relative_to(root)}\0{about.st_mode:o}\0{about.st_uid}\0{about.st_gid}\0"
        digest.update(what.encode(errors="surrogateescape"))
        if stat.S_ISLNK(about.st_mode):
            digest.update(os.fsencode(path.readlink()))
        elif stat.S_ISREG(about.st_mode):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    for name, data in sorted(boot.items()):
        digest.update(f"{name}\0".encode() + hashlib.sha256(data).digest())
    return digest.hexdigest()


def sorted_tree(root: Path) -> Iterator[Path]:
    """Yield all that is below a folder, links not followed, in the order of names."""
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted([*names, *files]):
            yield Path(folder) / name


def set_times(root: Path, epoch_s: int) -> None:
    """Let nothing be younger than the image's time, and nothing have been read since."""
    for path in [root, *sorted_tree(root)]:
        modified_s = min(int(path.lstat().st_mtime), epoch_s)
        os.utime(path, (epoch_s, modified_s), follow_symlinks=False)


def _make_data(data: Path, service_ids: tuple[int, int]) -> None:
    for name, mode in DATA_FOLDERS.items():
        (data / name).mkdir(parents=True)
        (data / name).chmod(mode)
    for path in [data, *sorted_tree(data)]:
        os.chown(path, 0, 0)
    for folder in (data, data / "etc", data / "var", data / "var/lib"):
        folder.chmod(0o755)
    user, group = service_ids
    os.chown(data / "var/lib/hedgerow", user, group)
    os.chown(data / "etc/hedgerow", 0, group)


def remove_tree(path: Path) -> None:
    """Remove a folder, if it is there."""
    if path.exists():
        shutil.rmtree(path)
