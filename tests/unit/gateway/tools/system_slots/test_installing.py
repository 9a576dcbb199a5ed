"""Only a whole image of a system for this machine becomes the system of the other slot."""

from __future__ import annotations

import io
import json
import platform
import struct
import subprocess
from pathlib import Path

import pytest
from flash_images import fat_sector, mbr

from gateway.tools.flashing import authenticity
from gateway.tools.flashing.authenticity import Authenticity
from gateway.tools.flashing.base_image import BaseImage
from gateway.tools.flashing.errors import CardWriteError, FlashError, RefusalError
from gateway.tools.system_slots import installing
from gateway.tools.system_slots.board import Board
from gateway.tools.system_slots.image_parts import DigestedFile, ImageParts
from gateway.tools.system_slots.installing import SlotInstaller
from gateway.tools.system_slots.slots import Slot, SystemSlotError

SECTOR = 512
FAT, EXTENDED, LINUX = 0x0C, 0x0F, 0x83
BOOT, ROOT = fat_sector(), b"root".ljust(SECTOR, b".") * 2


def extended_record(start: int = 1, count: int = 2, kind: int = LINUX) -> bytes:
    """The record before a logical partition; its numbers are sectors from there on."""
    entry = bytes(4) + bytes([kind]) + bytes(3) + struct.pack("<II", start, count)
    return (bytes(446) + entry).ljust(510, b"\0") + b"\x55\xaa"


def system_image(record: bytes = extended_record(), kind: int = EXTENDED) -> bytes:
    """A card of single sectors: autoboot, a boot partition for each slot, and a root."""
    kinds = ((FAT, 1, 1), (FAT, 2, 1), (FAT, 3, 1), (kind, 4, 4))
    table = mbr(*((kind, start * SECTOR, count * SECTOR) for kind, start, count in kinds))
    return table + fat_sector() + BOOT + bytes(SECTOR) + record + ROOT


def parts_of(image: bytes) -> ImageParts:
    return ImageParts(BaseImage("a.img", io.BytesIO(image).read))


def test_the_parts_of_slot_a_come_out_of_an_image_in_their_order() -> None:
    parts = parts_of(system_image())
    boot = parts.boot()
    assert (boot.size_bytes, boot.read(5), boot.read(SECTOR)) == (SECTOR, BOOT[:5], BOOT[5:])
    assert boot.read(1) == b""
    root = parts.root()
    assert (root.size_bytes, root.read(1 << 20), root.read(1)) == (2 * SECTOR, ROOT, b"")


def test_a_root_that_begins_later_is_found_by_its_record() -> None:
    image = system_image(extended_record(start=2, count=1))
    parts = parts_of(image)
    root = parts.root()
    assert (root.size_bytes, root.read(1 << 20)) == (SECTOR, ROOT[SECTOR:])


@pytest.mark.parametrize(
    "image",
    [
        mbr((FAT, SECTOR, SECTOR)) + fat_sector(),
        system_image(kind=0),
    ],
)
def test_an_image_without_two_slots_is_refused(image: bytes) -> None:
    with pytest.raises(RefusalError, match=r"^no image of a system with two slots: `deploy/image"):
        parts_of(image)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (bytes(SECTOR), "its extended partition has no record"),
        (extended_record()[:-2] + b"\x55\xab", "its extended partition has no record"),
        (extended_record(kind=0x0C), "its first logical partition is no root"),
        (extended_record(start=0), "its first logical partition is no root"),
        (extended_record(count=0), "its first logical partition is no root"),
    ],
)
def test_an_extended_partition_without_a_root_is_refused(record: bytes, why: str) -> None:
    with pytest.raises(RefusalError) as raised:
        parts_of(system_image(record)).root()
    assert str(raised.value) == f"no image of a system: {why}"


def test_an_image_that_is_cut_off_says_where() -> None:
    cut = system_image()[: 3 * SECTOR + 100]
    with pytest.raises(CardWriteError, match=r"^the image is cut off at 1636 bytes$"):
        parts_of(cut).root()
    with pytest.raises(RefusalError, match="has no record"):
        parts_of(system_image()[: 4 * SECTOR + 511]).root()


def test_a_file_is_digested_from_its_beginning_and_nothing_in_it_is_passed_over() -> None:
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180: "abc"
    file = DigestedFile(io.BytesIO(b"abc"))
    assert file.read(2) == b"ab"
    assert file.seek(0) == 0
    assert file.read(1) == b"a"
    assert file.sha256() == digest
    for offset, whence in ((1, io.SEEK_SET), (0, io.SEEK_END), (0, io.SEEK_CUR)):
        with pytest.raises(CardWriteError, match=r"\.img, \.img\.xz or \.img\.gz"):
            file.seek(offset, whence)


class SlotBed:
    """The partitions of a card as files, and an image whose signature is taken as it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.root = folder / "card3", folder / "card6"
        self.boot.write_bytes(bytes(SECTOR))
        self.root.write_bytes(bytes(2 * SECTOR))
        self.image = folder / "a.img"
        self.image.write_bytes(system_image())
        (folder / "etc").mkdir()
        (folder / "etc/fstab").write_text("PARTUUID=0123abcd-05 / ext4\n")
        self.sha256 = DigestedFile(self.image.open("rb")).sha256()
        self.steps: list[str] = []
        monkeypatch.setattr(authenticity, "check", self._check)
        self.installer = SlotInstaller(Board(partitions=f"{folder}/card"), Slot.A, folder)

    def _check(self, _image: Path, sha256: str | None, keyring: Path) -> Authenticity:
        assert (sha256, keyring) == (None, Path("keyring"))
        return Authenticity(self.sha256, "", "builder")

    def _step(self, name: str) -> StepTold:
        self.steps.append(name)
        return StepTold()

    def install(self) -> str:
        return self.installer.install(self.image, Path("keyring"), self._step)

    def refusal(self) -> str:
        with pytest.raises((FlashError, SystemSlotError)) as raised:
            self.install()
        return str(raised.value)


class StepTold:
    """Is told how far a step is."""

    def __call__(self, *_: object) -> None:
        pass


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlotBed:
    return SlotBed(tmp_path, monkeypatch)


def test_a_partition_that_is_too_small_or_not_there_is_named_with_its_room(bed: SlotBed) -> None:
    bed.root.write_bytes(bytes(2 * SECTOR - 1))
    assert bed.refusal() == f"its root has 1024 bytes, and {bed.root} 1023"
    assert bed.boot.read_bytes() == BOOT
    bed.root.unlink()
    assert bed.refusal() == f"{bed.root}: No such file or directory"


def test_an_image_that_changes_after_its_signature_was_checked_makes_no_system(
    bed: SlotBed,
) -> None:
    bed.sha256 = "0" * 64
    assert bed.refusal() == f"{bed.image}: has changed since its signature was checked"
    assert bed.root.read_bytes() == ROOT
    assert bed.steps == [
        *("writing its boot partition", "reading its boot partition back"),
        *("writing its root", "reading its root back"),
    ]


class ForgetfulPartition:
    """A boot partition that keeps what it had."""

    def __init__(self, _path: Path, _at: int) -> None:
        pass

    def read_text(self, _name: str) -> str:
        return "root=PARTUUID=00000000-05\n"

    def write(self, name: str, data: bytes) -> None:
        assert (name, data) == ("cmdline.txt", b"root=PARTUUID=0123abcd-06\n")


def test_a_boot_partition_that_loses_what_is_written_starts_nothing(
    bed: SlotBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "BootPartition", ForgetfulPartition)
    assert bed.refusal() == f"{bed.boot}: cmdline.txt is not what was written"


class OwnPartition(ForgetfulPartition):
    """A boot partition that has what is written."""

    def read_text(self, _name: str) -> str:
        return "root=PARTUUID=0123abcd-06\n"


def test_a_root_that_can_not_be_mounted_is_told_in_words(
    bed: SlotBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: tuple[str, ...], **_: object) -> None:
        assert command[:2] == ("/bin/mount", str(bed.root))
        raise subprocess.CalledProcessError(32, command, stderr="mount: bad superblock\n")

    monkeypatch.setattr(installing, "BootPartition", OwnPartition)
    monkeypatch.setattr(subprocess, "run", refuse)
    told = bed.refusal()
    assert told.startswith(f"/bin/mount {bed.root} /")
    assert told.endswith(": mount: bad superblock")


MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}
OTHER = {"x86_64": "arm64", "aarch64": "amd64"}


def test_a_root_tells_its_version_where_it_is_for_this_machine(tmp_path: Path) -> None:
    about = tmp_path / installing.ABOUT
    about.parent.mkdir(parents=True)
    machine = platform.machine()
    about.write_text(json.dumps({"version": "1-trixie", "architecture": MACHINE[machine]}))
    assert installing.version_of(tmp_path) == "1-trixie"
    about.write_text(json.dumps({"version": "1-trixie", "architecture": OTHER[machine]}))
    with pytest.raises(SystemSlotError) as raised:
        installing.version_of(tmp_path)
    assert str(raised.value) == f"it is for {OTHER[machine]}, and this is a {machine}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("no JSON", "Expecting value: line 1 column 1 (char 0)"),
        ('{"version": "1"}', "'architecture'"),
        ("[]", "list indices must be integers or slices, not str"),
    ],
)
def test_a_root_that_says_nothing_of_itself_is_no_system_of_ours(
    text: str | None, why: str, tmp_path: Path
) -> None:
    if text is not None:
        about = tmp_path / installing.ABOUT
        about.parent.mkdir(parents=True)
        about.write_text(text)
    with pytest.raises(SystemSlotError) as raised:
        installing.version_of(tmp_path)
    assert str(raised.value) == f"usr/lib/hedgerow/system.json: {why}: no system of ours"
