"""A new system takes over the accounts of people, and its scripts change a card's table safely."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gateway.tools.system_image import boot_files
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageLayout, ImageSizes
from gateway.tools.system_slots import fat_file, kept
from gateway.tools.system_slots.slots import SystemSlotError

SCRIPTS = Path(__file__).resolve().parents[5] / "deploy/image/root/usr/lib/hedgerow"
OLD_PASSWD = """root:x:0:0::/root:/bin/sh
old:x:990:990::/:/bin/false
anna:x:1000:1000::/home/anna:/bin/sh
"""
NEW_PASSWD = "root:x:0:0::/root:/bin/bash\nhedgerow:x:880:880::/:/bin/false\n"


def test_people_are_taken_over_and_the_systems_own_accounts_are_not() -> None:
    people = kept.people_in(OLD_PASSWD)
    assert people == {"anna"}
    made = kept.with_accounts(NEW_PASSWD, OLD_PASSWD, people)
    assert made == NEW_PASSWD + "anna:x:1000:1000::/home/anna:/bin/sh\n"
    assert kept.with_accounts(made, OLD_PASSWD, people) == made


def test_people_stay_in_their_groups_and_groups_that_are_gone_stay_gone() -> None:
    old = "sudo:x:27:anna,daemon\ngone:x:980:anna\nanna:x:1000:\n"
    made = kept.with_memberships("sudo:x:27:\ni2c:x:970:hedgerow\n", old, {"anna"})
    assert made == "sudo:x:27:anna\ni2c:x:970:hedgerow\n"


def test_an_account_that_locks_its_password_does_so_in_the_new_system() -> None:
    made = kept.with_accounts("root:*:1::::::\n", "root:x::::::\nanna:!:20000:::::\n", {"anna"})
    assert made == "root:*:1::::::\nanna:!:20000:::::\n"


@pytest.mark.peer("sfdisk", "fdisk")
def test_the_data_partition_grows_to_the_end_of_the_card_and_nothing_else_moves(
    tmp_path: Path,
) -> None:
    layout = ImageLayout(ImageSizes(boot=36, root=8, data=8))
    card = tmp_path / "card"
    with card.open("wb") as file:
        file.truncate(layout.size_bytes)
    script = layout.sfdisk_script("cafe0123")
    subprocess.run(["sfdisk", "--quiet", card], input=script, text=True, check=True)
    os.truncate(card, 1 << 30)
    for _ in range(2):  # power may be lost after the table was written
        subprocess.run(["sh", SCRIPTS / "grow-data", "table", card], check=True)
    told = subprocess.run(["sfdisk", "--dump", card], capture_output=True, text=True, check=True)
    lines = [line for line in told.stdout.splitlines() if "start=" in line]
    found = [
        [int(part.split("=")[1]) for part in line.split(":")[1].split(",")[:2]] for line in lines
    ]
    for number, (start, size) in enumerate(found, 1):
        placed = layout.partitions[number]
        assert start * 512 == placed.start_bytes
        if number not in (4, 7):
            assert size * 512 == placed.size_bytes
    assert sum(found[6]) * 512 == sum(found[3]) * 512 == 1 << 30
    assert "label-id: 0xcafe0123" in told.stdout


@pytest.mark.parametrize(("tries", "is_unconfirmed"), [(1, True), (0, False), (None, False)])
def test_only_a_start_that_is_a_try_is_ended_by_the_deadline(
    tmp_path: Path, tries: int | None, is_unconfirmed: bool
) -> None:
    if tries is not None:
        (tmp_path / "tryboot").write_bytes(tries.to_bytes(4, "big"))
    environment = {**os.environ, "HEDGEROW_FIRMWARE": str(tmp_path)}
    done = subprocess.run(["sh", SCRIPTS / "is-unconfirmed"], env=environment, check=False)
    assert (done.returncode == 0) is is_unconfirmed


def test_a_partition_without_our_file_is_no_card_of_ours() -> None:
    empty = bytes(1 << 20)
    with pytest.raises(SystemSlotError, match="no FAT16"):
        fat_file.offset_of(lambda at, size: empty[at : at + size], "autoboot.txt", 256)


def test_a_boot_partition_has_the_firmware_the_kernel_and_the_trees_of_debians_packages(
    tmp_path: Path,
) -> None:
    files = (
        "usr/lib/raspi-firmware/start4.elf",
        "usr/lib/raspi-firmware/bootcode.bin",
        "usr/lib/raspi-firmware/overlays/pi4-spidev.dtbo",
        "usr/lib/linux-image-6.12-arm64/broadcom/bcm2712-rpi-5-b.dtb",
        "usr/lib/linux-image-6.12-arm64/broadcom/bcm2837-rpi-zero-2-w.dtb",
        "boot/vmlinuz-6.12-arm64",
        "boot/initrd.img-6.12-arm64",
    )
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    texts = SCRIPTS.parents[3] / "boot"
    found = boot_files.gathered(tmp_path, texts, has_kernel=True)
    assert found.keys() == {
        *("start4.elf", "bootcode.bin", "overlays/pi4-spidev.dtbo", "vmlinuz", "initrd.img"),
        *("bcm2712-rpi-5-b.dtb", "bcm2837-rpi-zero-2-w.dtb"),
        *("cmdline.txt", "config.txt", "user-data", "meta-data", "network-config"),
    }
    assert b"kernel=vmlinuz\n" in found["config.txt"]
    assert b"kernel=" not in boot_files.gathered(tmp_path, texts, has_kernel=False)["config.txt"]


def test_an_image_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImageBuildError, match="no firmware"):
        boot_files.gathered(tmp_path, SCRIPTS.parents[3] / "boot", has_kernel=True)


def test_a_folder_is_taken_over_as_a_whole_in_place_of_the_systems_own(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for root, name in ((old, "mine.yaml"), (new, "images.yaml")):
        (root / "etc/netplan").mkdir(parents=True)
        (root / "etc/netplan" / name).write_text(name)
        (root / "etc/passwd").write_text(NEW_PASSWD if root is new else OLD_PASSWD)
        (root / "etc/group").write_text("root:x:0:\n")
    (old / "etc/netplan/mine.yaml").chmod(0o600)
    (old / "etc/hostname").write_text("gw-south\n")
    kept.take_over(old, new)
    assert [path.name for path in (new / "etc/netplan").iterdir()] == ["mine.yaml"]
    assert (new / "etc/netplan/mine.yaml").stat().st_mode & 0o777 == 0o600
    assert (new / "etc/hostname").read_text() == "gw-south\n"
    assert (new / "etc/passwd").read_text().endswith("anna:x:1000:1000::/home/anna:/bin/sh\n")


@pytest.mark.parametrize(
    ("number", "is_person"), [(999, False), (1000, True), (59_999, True), (60_000, False)]
)
def test_people_have_the_numbers_of_debians_policy(number: int, is_person: bool) -> None:
    # Section 9.2.2: 1000 to 59999 are user accounts.
    assert bool(kept.people_in(f"anna:x:{number}:1::/:/bin/sh\n")) is is_person


def test_what_can_not_be_taken_over_is_told_in_words(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for root in (old, new):
        (root / "etc").mkdir(parents=True)
        for name in ("passwd", "group"):
            (root / "etc" / name).write_text("")
    (old / "etc/netplan").mkdir()
    (new / "etc/netplan").write_text("no folder")
    with pytest.raises(SystemSlotError) as raised:
        kept.take_over(old, new)
    assert str(raised.value).startswith(f"{old}/etc/netplan: /bin/cp: cannot overwrite")
