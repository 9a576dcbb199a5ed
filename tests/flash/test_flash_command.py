"""`hedgerow flash` onto files and loop devices, from images with a FAT and an ext4 partition."""

from __future__ import annotations

import fcntl
import hashlib
import json
import lzma
import os
import platform
import pty
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import flash_images
import fleet_keys
import pytest
from flash_images import MIB
from missing_peer import skip_or_fail_in_ci

from gateway.tools import cli
from gateway.tools.flashing import card, copying

pytestmark = [
    pytest.mark.peer("mcopy", "mtools"),
    pytest.mark.peer("mkfs.vfat", "dosfstools"),
]
KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1 anna\'s "key"'
PHRASE = 'pass "phrase" $HOME'
CARDS = f"""
all:
  user: anna
  ssh_keys: [{json.dumps(KEY)}]
  country: DE
  timezone: Europe/Berlin
  wifi: {{ssid: "Anna's 'net'", passphrase: {json.dumps(PHRASE)}}}
devices:
- id: gw-north
  network: {{address: 10.0.0.2/24, gateway: 10.0.0.1, name_servers: [10.0.0.1]}}
  place: barn
- id: gw-south
"""
NEW = {
    "cmdline.txt", "meta-data", "network-config", "user-data", "hedgerow/first-boot.sh",
    "hedgerow/hedgerow.service", "hedgerow/settings", "hedgerow/wheels.tar",
    "hedgerow/interpreter.sh", "hedgerow/whole_release.sh",
    *(f"hedgerow/etc/{name}" for name in ("access.toml", "hedgerow.toml", "passwords", "psk")),
    *(f"hedgerow/etc/tls/{name}" for name in ("ca.pem", "revoked.pem")),
    "hedgerow/etc/tree.key",
}  # fmt: skip
OWN_KEY = {"hedgerow/etc/tls/gateway.pem", "hedgerow/etc/tls/gateway.key.pem"}


class Desk:
    """A desk where cards are made: an image, a fleet's folders, and the file that tells of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = folder / "root"
        (root / "etc").mkdir(parents=True)
        (root / "etc/hostname").write_text("raspberrypi\n")
        self.image = folder / "raspios.img"
        flash_images.make(self.image, root, boot_files=flash_images.CLOUD_INIT)
        self.packed = folder / "raspios.img.xz"
        self.packed.write_bytes(lzma.compress(self.image.read_bytes(), preset=0))
        digest = hashlib.sha256(self.packed.read_bytes()).hexdigest()
        (folder / "raspios.img.xz.sha256").write_text(f"{digest}  raspios.img.xz\n")
        fleet = ("gw-north=10.0.0.2", "gw-south=10.0.0.3")
        assert (
            cli.main(["init", str(folder / "fleet"), "--fleet", *fleet, "--place", "campus"]) == 0
        )
        self.cards = folder / "fleet" / "cards.yml"
        self.cards.write_text(CARDS)
        self.wheels = folder / "0.1.0-0123-cp313-aarch64.tar"
        self.wheels.write_bytes(os.urandom(3 * MIB))

    def command(self, *arguments: str | Path) -> list[str]:
        own = ("--inventory", self.cards, "--wheels", self.wheels, "--image", self.packed)
        return [*map(str, ("flash", *own, *arguments))]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("desk"))


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def check_card(desk: Desk, made: Path, tmp_path: Path, new: set[str]) -> dict[str, bytes]:
    """Nothing but the new files differs from the image; gives the boot partition's files."""
    found, image = made.read_bytes(), desk.image.read_bytes()
    boot = slice(flash_images.BOOT_START_BYTES, flash_images.BOOT_START_BYTES + 40 * MIB)
    assert found[: boot.start] == image[: boot.start]
    assert found[boot.stop : len(image)] == image[boot.stop :]
    before = flash_images.boot_files(desk.image, tmp_path / "before")
    after = flash_images.boot_files(made, tmp_path / "after")
    assert after.keys() == before.keys() | new
    assert {name for name in before if before[name] != after[name]} <= new
    checked = subprocess.run(
        ["fsck.vfat", "-n", extracted(made, boot, tmp_path / "boot.fat")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    return after


def extracted(made: Path, part: slice, to: Path) -> Path:
    with made.open("rb") as file:
        file.seek(part.start)
        to.write_bytes(file.read(part.stop - part.start))
    return to


def test_a_card_has_the_image_byte_for_byte_and_what_its_device_needs(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "card.img"
    page = tmp_path / "labels.html"
    assert cli.main(desk.command("gw-north", "--to", target, "--json", "--labels", page)) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["id"] == "gw-north"
    assert told["checksum_from"].endswith("raspios.img.xz.sha256")
    assert target.stat().st_mode & 0o777 == 0o600
    files = check_card(desk, target, tmp_path, NEW | OWN_KEY)
    assert files["hedgerow/wheels.tar"] == desk.wheels.read_bytes()
    line = files["cmdline.txt"].decode().split()
    assert line[: len(flash_images.COMMAND_LINE.split())] == flash_images.COMMAND_LINE.split()
    assert re.fullmatch(r"ds=nocloud;i=hedgerow-gw-north-\d+;s=file:///boot/firmware/", line[-1])
    assert f'"{PHRASE}"' not in files["network-config"].decode()
    own = desk.folder / "fleet/gw-north/hedgerow.toml"
    assert files["hedgerow/etc/hedgerow.toml"] == own.read_bytes()
    starter = b"/opt/hedgerow/interpreter/interpreter.sh run /opt/hedgerow run --config"
    assert b"ExecStart=" + starter in files["hedgerow/hedgerow.service"]
    assert told["image_bytes"] == desk.image.stat().st_size
    assert told["injected_bytes"] == sum(len(files[name]) for name in NEW | OWN_KEY)
    assert "barn" in page.read_text()


@pytest.mark.peer("cloud-init", "cloud-init")
def test_the_files_of_cloud_init_are_valid_by_its_own_schema(desk: Desk, tmp_path: Path) -> None:
    target = tmp_path / "card.img"
    assert cli.main(desk.command("gw-north", "--to", target)) == 0
    flash_images.boot_files(target, tmp_path / "boot")
    kinds = {"user-data": "cloud-config"}
    helped = subprocess.run(["cloud-init", "schema", "--help"], capture_output=True, check=False)
    if b"network-config" in helped.stdout:  # Debian 12's has none
        kinds["network-config"] = "network-config"
    for name, kind in kinds.items():
        more = ["--schema-type", kind] if len(kinds) > 1 else []
        done = subprocess.run(
            ["cloud-init", "schema", "--config-file", tmp_path / "boot" / name, *more],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Valid" in done.stdout


def test_a_token_goes_on_the_card_in_place_of_a_key(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = tmp_path / "authority"
    fleet_keys.keys("init-ca", "--ca", authority)
    fleet_keys.keys("token", "--ca", authority, "gw-north", "--service", "10.0.0.9:8890")
    token = re.findall(r"hedgerow-enrol:\S+", capsys.readouterr().out)[0]
    (tmp_path / "token").write_text(f"{token}\n")
    cards = tmp_path / "cards.toml"
    north = desk.folder / "fleet/gw-north"
    text = '[[devices]]\nid = "{}"\nfiles = "{}"\ntoken_file = "token"\n'
    cards.write_text(text.format("gw-north", north))
    target = tmp_path / "card.img"
    assert cli.main(desk.command("--inventory", cards, "--to", target)) == 0
    told = capsys.readouterr()
    assert token not in told.out + told.err
    files = check_card(desk, target, tmp_path, NEW | {"hedgerow/token"})
    assert files["hedgerow/token"].decode() == f"{token}\n"
    assert b"ReadWritePaths=/etc/hedgerow/tls" in files["hedgerow/hedgerow.service"]
    cards.write_text(text.format("gw-south", north.with_name("gw-south")))
    assert cli.main(desk.command("--inventory", cards, "--to", tmp_path / "other.img")) == 3
    assert "gw-south: token: it is for 'gw-north'" in complaint(capsys)


def test_an_image_without_cloud_init_gets_a_script_of_the_older_kind(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "root").mkdir()
    old = tmp_path / "old.img"
    flash_images.make(old, tmp_path / "root")
    target = tmp_path / "card.img"
    given = desk.command("gw-north", "--to", target, "--image", old, "--unverified")
    assert cli.main(given) == 0
    assert "nothing vouches for" in complaint(capsys)
    files = flash_images.boot_files(target, tmp_path / "boot")
    assert "user-data" not in files
    assert b"systemd.run=/boot/firmware/firstrun.sh" in files["cmdline.txt"]
    subprocess.run(["sh", "-n", tmp_path / "boot/firstrun.sh"], check=True)
    target.unlink()
    assert cli.main([*given, "--first-boot", "cloud-init"]) == 4
    assert "the image has no cloud-init" in complaint(capsys)
    assert not target.exists()


def test_an_image_is_chosen_by_its_name_from_a_folder(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    named = images / "2025-11-24-raspios-trixie-arm64-lite.img.xz"
    named.symlink_to(desk.packed)
    digest = hashlib.sha256(desk.packed.read_bytes()).hexdigest()
    sums = images / "SHA256SUMS"
    sums.write_text(f"{'1' * 64}  {named.name}\n")
    target = tmp_path / "card.img"
    given = desk.command("gw-north", "--to", target, "--images", images, "--json", "--image")
    assert cli.main([*given, "bookworm"]) == 3
    assert f"'bookworm': {images} has {named.name}" in complaint(capsys)
    assert cli.main([*given, "trixie"]) == 3
    assert "SHA256SUMS says 1111" in complaint(capsys)
    assert not target.exists()
    sums.write_text(f"{digest}  {named.name}\n")
    assert cli.main([*given, "trixie"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["image"], told["checksum_from"]) == (str(named), str(sums))


def test_all_cards_of_a_fleet_go_into_a_folder(desk: Desk, tmp_path: Path) -> None:
    assert cli.main(desk.command("--all", "--to", tmp_path)) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"gw-north.img", "gw-south.img"}


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what Python has on Linux and not on macOS, as far as cards are made with it."""
    for name in ("O_DIRECT", "posix_fadvise", "POSIX_FADV_DONTNEED"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")


@pytest.mark.usefixtures("macos")
def test_macos_makes_image_files_and_says_that_it_writes_no_disks(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "card.img"
    assert cli.main(desk.command("gw-north", "--to", target)) == 0
    check_card(desk, target, tmp_path, NEW | OWN_KEY)
    for disk in ("/dev/disk4", "/dev/rdisk4", "/dev/null"):
        assert cli.main(desk.command("gw-north", "--to", disk, "--yes", "--yes-really")) == 3
        assert f"--to: {disk}: Darwin's disks are not written" in complaint(capsys)


@pytest.mark.usefixtures("macos")
def test_macos_is_told_how_to_install_what_is_missing(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(desk.command("gw-north", "--to", tmp_path / "card.img")) == 3
    assert "mcopy is not installed: brew install mtools" in complaint(capsys)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["--to", "{new}"], 2, "which device: gw-north, gw-south, or --all?"),
        (["gw-x", "--to", "{new}"], 2, "'gw-x'"),
        (["--all", "--to", "{new}"], 2, "several cards"),
        (["gw-north", "--to", "/dev/no-disk"], 3, "there is no such disk"),
        (["gw-north", "--to", "{folder}/raspios.img"], 3, "is there already, and stays as it is"),
        (["gw-north", "--to", "{new}", "--image", "{folder}/none"], 3, "none: No such file"),
        (["gw-north", "--to", "{new}", "--image", "{folder}/raspios.img"], 3, "--unverified"),
        (["gw-north", "--to", "{new}", "--sha256", "0" * 64], 3, "--sha256 says 0000"),
        (["gw-north", "--to", "{new}", "--keyring", "{folder}/none"], 3, "no signature beside"),
        (["gw-north", "--to", "{new}", "--image", "{cards}", "--unverified"], 3, "no image of a"),
        (["gw-north", "--to", "{new}", "--inventory", "{folder}/none"], 3, "none: No such file"),
        (["gw-north", "--to", "{new}", "--wheels", "{cards}"], 3, "is not named VERSION-cp313"),
    ],
)
def test_what_can_not_be_done_is_refused_by_name_and_nothing_is_written(
    desk: Desk,
    arguments: list[str],
    code: int,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    new = tmp_path / "card.img"
    places = {"new": new, "folder": desk.folder, "cards": desk.cards}
    before = desk.image.stat().st_mtime_ns
    assert cli.main(desk.command(*(one.format(**places) for one in arguments))) == code
    assert why in complaint(capsys)
    assert not new.exists()
    assert desk.image.stat().st_mtime_ns == before


def test_an_authoritys_key_goes_onto_no_card(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gw-north"
    shutil.copytree(desk.folder / "fleet/gw-north", folder)
    shutil.copy(desk.folder / "fleet/authority/ca.key.pem", folder / "tls")
    cards = tmp_path / "cards.toml"
    cards.write_text('devices = [{id = "gw-north"}]\n')
    assert cli.main(desk.command("--inventory", cards, "--to", tmp_path / "card.img")) == 3
    assert "an authority's key goes onto no card" in complaint(capsys)


def test_a_wheelhouse_that_does_not_fit_the_boot_partition_is_told_of(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels = tmp_path / "0.1.0-cp313-aarch64.tar"
    with wheels.open("wb") as file:
        file.truncate(80 * MIB)
    target = tmp_path / "card.img"
    assert cli.main(desk.command("gw-north", "--to", target, "--wheels", wheels)) == 4
    assert re.search(r"\d+ bytes free, and this device's files take \d+", complaint(capsys))
    assert not target.exists()


# -- disks -----------------------------------------------------------------------------------------


@pytest.fixture
def loops() -> Iterator[list[str]]:
    """Loop devices that a test has made, which are taken away."""
    made: list[str] = []
    yield made
    for loop in made:
        subprocess.run(["losetup", "--detach", loop], check=True)


def loop_device(loops: list[str], file: Path, *options: str) -> Path:
    if os.geteuid() != 0:
        skip_or_fail_in_ci("only root can make a loop device")
    done = subprocess.run(
        ["losetup", "--find", "--show", *options, file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loops.append(done.stdout.strip())
    return Path(loops[-1])


def blank(file: Path, size_bytes: int) -> Path:
    with file.open("wb") as opened:
        opened.truncate(size_bytes)
    return file


def test_a_disk_is_written_over_only_if_it_is_really_meant(
    desk: Desk, loops: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backing = blank(tmp_path / "backing", 120 * MIB)
    disk = loop_device(loops, backing)
    given = desk.command("gw-north", "--to", disk)
    assert cli.main(given) == 3
    assert "it is a fixed disk: --yes-really" in complaint(capsys)
    assert cli.main([*given, "--yes-really"]) == 3
    assert "its beginning is blank, and there is nobody to ask" in complaint(capsys)
    assert backing.read_bytes() == bytes(120 * MIB)
    # A card of another Pi, in use until now: it is told what it holds, and stays as it is.
    held = desk.image.read_bytes()
    with backing.open("r+b") as file:
        file.write(held)
    subprocess.run(["blockdev", "--flushbufs", disk], check=True)
    assert cli.main([*given, "--yes-really"]) == 3
    assert "it holds 2 partitions (FAT 0.0 GB, Linux 0.0 GB), and there is nobody" in complaint(
        capsys
    )
    assert backing.read_bytes()[: len(held)] == held
    assert cli.main([*given, "--yes-really", "--yes", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["target"] == str(disk)
    subprocess.run(["sync", backing], check=True)
    check_card(desk, backing, tmp_path, NEW | OWN_KEY)


def test_a_disk_that_is_too_small_mounted_swapped_to_or_read_only_is_refused(
    desk: Desk, loops: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(disk: Path) -> str:
        assert cli.main(desk.command("gw-north", "--to", disk, "--yes", "--yes-really")) == 3
        return complaint(capsys)

    small = loop_device(loops, blank(tmp_path / "small", 10 * MIB))
    assert "too small: 10485760 bytes, and the image needs" in said(small)
    sealed = loop_device(loops, blank(tmp_path / "sealed", 120 * MIB), "--read-only")
    assert "read-only" in said(sealed)
    mounted = loop_device(loops, blank(tmp_path / "mounted", 120 * MIB))
    subprocess.run(["mkfs.ext4", "-q", mounted], check=True)
    (tmp_path / "mnt").mkdir()
    subprocess.run(["mount", mounted, tmp_path / "mnt"], check=True)
    try:
        assert f"mounted at {tmp_path}/mnt" in said(mounted)
    finally:
        subprocess.run(["umount", tmp_path / "mnt"], check=True)


def test_a_disk_that_fails_while_it_is_written_ends_clearly_and_has_no_partition_table(
    desk: Desk, loops: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # It promises 120 MiB and has 20, as a false card: behind that the kernel reports errors.
    memory = tmp_path / "memory"
    memory.mkdir()
    if os.geteuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", memory], check=True)
    backing = blank(memory / "backing", 120 * MIB)
    try:
        disk = loop_device(loops, backing)
        code = cli.main(desk.command("gw-north", "--to", disk, "--yes", "--yes-really"))
        said = complaint(capsys)
        assert code == 4, said
        assert re.search(r"/dev/loop\d+: (writing failed|full)", said)
        with backing.open("rb") as file:
            assert file.read(512) == bytes(512)
    finally:
        while loops:
            subprocess.run(["losetup", "--detach", loops.pop()], check=True)
        subprocess.run(["umount", memory], check=True)


def test_a_card_whose_device_has_not_all_it_needs_starts_no_pi(
    desk: Desk, loops: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels = tmp_path / "0.1.0-cp313-aarch64.tar"
    blank(wheels, 80 * MIB)  # which the boot partition has no room for
    backing = blank(tmp_path / "backing", 120 * MIB)
    disk = loop_device(loops, backing)
    given = desk.command("gw-north", "--to", disk, "--wheels", wheels)
    assert cli.main([*given, "--yes", "--yes-really"]) == 4
    assert "the card is of no use as it is" in complaint(capsys)
    subprocess.run(["sync", backing], check=True)
    # Else it would be a system that anybody may set up who is the first at its keyboard.
    found = backing.read_bytes()[: desk.image.stat().st_size]
    assert found[:512] == bytes(512)
    assert found[MIB * 45 :] == desk.image.read_bytes()[MIB * 45 :]


def test_a_target_that_is_full_is_told_of(tmp_path: Path) -> None:
    descriptor = os.open("/dev/full", os.O_RDWR)
    full = card.Card(descriptor, "/dev/full", is_device=False)
    with pytest.raises(card.CardWriteError, match="/dev/full: full at 8 MiB: the image is larger"):
        full.write_at(8 * MIB, bytes(4096))
    full.close()


def test_a_card_that_reads_back_differently_is_found(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "card.img"
    verify = copying.verify

    def struck(
        disk: copying.ReadableDisk,
        written: copying.WrittenImage,
        progress: object,
        *,
        has_head: bool,
    ) -> None:
        with target.open("r+b") as file:
            file.seek(45 * MIB + 5)
            file.write(b"\x10")
        verify(disk, written, lambda *_: None, has_head=has_head)

    monkeypatch.setattr(copying, "verify", struck)
    assert cli.main(desk.command("gw-north", "--to", target)) == 5
    assert f"differs between {44 * MIB} and {48 * MIB} bytes" in complaint(capsys)
    assert not target.exists()


def test_on_a_terminal_cards_are_asked_for_one_by_one_and_shown_as_they_go(
    desk: Desk, loops: list[str], tmp_path: Path
) -> None:
    disk = loop_device(loops, blank(tmp_path / "backing", 120 * MIB))
    command = desk.command("--all", "--to", disk, "--yes-really")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, 0x5414, b"\x18\x00\xc8\x00\0\0\0\0")  # TIOCSWINSZ: 200 columns
    with subprocess.Popen(
        [*fleet_keys.HEDGEROW, *command], stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        shown = ""

        def until(text: str) -> None:
            nonlocal shown
            while text not in shown:
                shown += os.read(ours, 4096).decode()

        until("Card 1 of 2, for gw-north barn: put it into")
        os.write(ours, b"s\n")
        until("Card 2 of 2, for gw-south campus")
        os.write(ours, b"\n")
        until("; its beginning is blank? Type yes: ")
        os.write(ours, b"yes\n")
        until("gw-south: ")
        until(" is ready: 52 MiB written and read back")
    os.close(ours)
    assert re.search(r"writing +\[#{30}\] 100%", shown)
    assert re.search(r"reading back +\[#{30}\] 100%", shown)
