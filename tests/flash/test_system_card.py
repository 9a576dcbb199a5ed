"""Images with two slots: the same bytes each time, flashed, installed beside what runs, tried."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flash_images
import pytest
import system_cards
from system_cards import LAYOUT, CardInFiles, Signer

from gateway.tools import cli
from gateway.tools.flashing.card import Card
from gateway.tools.flashing.errors import RefusalError
from gateway.tools.flashing.partition_table import parse
from gateway.tools.system_image import content
from gateway.tools.system_slots.guard import HEALTHY_LOOKS, SystemGuard
from gateway.tools.system_slots.installing import SlotInstaller
from gateway.tools.system_slots.slots import Slot, SystemSlotError

pytestmark = [
    pytest.mark.drawn(8),
    pytest.mark.peer("mcopy", "mtools"),
    pytest.mark.peer("mkfs.vfat", "dosfstools"),
    pytest.mark.peer("sfdisk", "fdisk"),
    pytest.mark.peer("gpg", "gpg"),
    pytest.mark.peer("gpgv", "gpgv"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a new root"),
]
STATUS = {"boot_epoch": 1, "neighbours": [], "members": []}


def no_steps(_what: str) -> Any:
    return lambda _done, _all: None


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("gpg") / "home")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> dict[str, Path]:
    """Two versions, the second one packed and signed."""
    folder = tmp_path_factory.mktemp("images")
    first = system_cards.make_image(folder / "1.img", system_cards.small_root(folder / "r1", "1"))
    second = system_cards.make_image(folder / "2.img", system_cards.small_root(folder / "r2", "2"))
    packed = folder / "2.img.xz"
    packed.write_bytes(lzma.compress(second.read_bytes(), preset=0))
    for image in (second, packed):
        signer.sign(image)
    return {"1": first, "2": second, "2.xz": packed}


class Pi:
    """A card in a Pi, with a gateway that is healthy or not."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.card = CardInFiles(folder / "card", image)
        command_line = self.card.files(2, "cmdline.txt").decode()
        self.disk_id = command_line.partition("PARTUUID=")[2][:8]
        self.root = system_cards.running_root(folder / "root", self.disk_id)
        self.is_healthy = True
        self.now_s = 0.0

    def has_gateway(self) -> bool:
        return True

    def status(self) -> dict[str, Any]:
        return STATUS

    def complaints(self, before: Mapping[str, Any], *, has_to_run: bool) -> list[str]:
        assert before == STATUS and has_to_run
        return [] if self.is_healthy else ["it does not answer"]

    def guard(self) -> SystemGuard:
        return SystemGuard(self.card.data(), self.card.board(), self)

    def install(self, image: Path, keyring: Path) -> str:
        board = self.card.board()
        writer = SlotInstaller(board, board.running().slot, self.root)
        return self.guard().install(
            lambda: writer.install(image, keyring, no_steps), 60.0, 2, starts=True
        )

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def live(self, version: str) -> None:
        self.guard().watch(version, self._sleep, lambda: self.now_s)


def test_two_builds_of_one_content_are_the_same_bytes(tmp_path: Path) -> None:
    root = system_cards.small_root(tmp_path / "one", "1")
    first = system_cards.make_image(
        tmp_path / "1.img", system_cards.small_root(tmp_path / "a", "1")
    )
    time.sleep(1.1)  # what changed when, the builder's file system notes in seconds
    again = system_cards.copied_slowly(root, tmp_path / "b")
    second = system_cards.make_image(tmp_path / "2.img", again)
    assert sha256(first) == sha256(second)


def test_another_content_has_other_names(tmp_path: Path, images: dict[str, Path]) -> None:
    ids = {image.read_bytes()[440:444] for image in (images["1"], images["2"])}
    assert len(ids) == 2


def test_the_file_systems_are_sound(tmp_path: Path, images: dict[str, Path]) -> None:
    card = CardInFiles(tmp_path / "card", images["1"])
    for number in (1, 2, 3):
        checked = subprocess.run(["fsck.vfat", "-n", card.folder / f"p{number}"], check=False)
        assert checked.returncode == 0
    for number in (5, 7):
        checked = subprocess.run(["e2fsck", "-f", "-n", card.folder / f"p{number}"], check=False)
        assert checked.returncode == 0
    told = subprocess.run(["sfdisk", "--json", images["1"]], capture_output=True, check=True)
    table = json.loads(told.stdout)["partitiontable"]
    assert [one["start"] * 512 for one in table["partitions"]] == [
        LAYOUT.partitions[number].start_bytes for number in range(1, 8)
    ]
    assert parse(images["1"].read_bytes()[: 1 << 20]).boot.number == 1


def test_each_slot_is_told_its_own_partitions(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    pi = Pi(tmp_path, images["1"])
    pi.install(images["2.xz"], signer.keyring)
    for slot in Slot:
        command_line = pi.card.files(slot.boot_partition, "cmdline.txt").decode()
        assert f"root=PARTUUID={pi.disk_id}-0{slot.root_partition} " in command_line
        table = pi.card.files(slot.root_partition, "etc/fstab").decode()
        assert f"PARTUUID={pi.disk_id}-0{slot.boot_partition} /boot/firmware" in table
        assert f"PARTUUID={pi.disk_id}-07 /data" in table


def test_a_new_system_takes_over_who_the_machine_is(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    pi = Pi(tmp_path, images["1"])
    pi.install(images["2"], signer.keyring)
    assert pi.card.files(6, "etc/hostname") == b"gw-north\n"
    assert pi.card.files(6, "etc/machine-id").startswith(b"0123456789abcdef")
    assert pi.card.files(6, "etc/ssh/ssh_host_ed25519_key") == b"of this device\n"
    assert b"anna:x:1000:" in pi.card.files(6, "etc/passwd")
    assert b"sudo:x:27:anna" in pi.card.files(6, "etc/group")
    assert pi.card.files(5, "etc/hostname") == b"image\n"


def test_a_system_whose_gateway_is_healthy_stays(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    pi = Pi(tmp_path, images["1"])
    assert pi.install(images["2"], signer.keyring) == "2"
    assert pi.card.restarts == [True]
    assert pi.card.start() is Slot.B
    pi.live("2")
    assert pi.now_s <= 2 * HEALTHY_LOOKS
    assert pi.card.start() is Slot.B
    told = pi.guard().status()
    assert told["trial"] is None
    assert told["last"] == {"slot": "B", "version": "2", "why": "", "outcome": "confirmed"}
    # And the next one goes to the slot that is free now.
    assert pi.install(images["2.xz"], signer.keyring) == "2"
    assert pi.card.start() is Slot.A


def test_a_system_whose_gateway_is_not_healthy_returns_by_itself(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    pi = Pi(tmp_path, images["1"])
    pi.install(images["2"], signer.keyring)
    assert pi.card.start() is Slot.B
    pi.is_healthy = False
    pi.live("2")
    assert pi.now_s >= 60
    assert pi.card.restarts == [True, False]
    assert pi.card.start() is Slot.A
    pi.live("1")
    told = pi.guard().status()
    assert (told["running"], told["default"], told["trial"]) == ("A", "A", None)
    assert told["last"]["outcome"] == "returned"
    assert "it does not answer" in told["last"]["why"]
    assert told["versions"] == {"A": "1", "B": "2"}


def test_an_image_without_a_good_signature_changes_nothing(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    pi = Pi(tmp_path, images["1"])
    before = sha256(pi.card.folder / "p6")
    image = tmp_path / "other.img"
    data = bytearray(images["2"].read_bytes())
    data[LAYOUT.partitions[5].start_bytes + 100_000] ^= 1
    image.write_bytes(data)
    for signature in (None, images["2"].with_name("2.img.sig")):
        if signature is not None:
            image.with_name("other.img.sig").write_bytes(signature.read_bytes())
        with pytest.raises(RefusalError, match="signature"):
            pi.install(image, signer.keyring)
    assert sha256(pi.card.folder / "p6") == before
    assert pi.card.restarts == []
    assert pi.guard().status()["trial"] is None


def test_an_image_for_another_machine_is_not_tried(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    about = json.dumps({"version": "9", "suite": "trixie", "architecture": "riscv64"})
    root = system_cards.small_root(tmp_path / "r9", "9", {system_cards.ABOUT: about})
    image = system_cards.make_image(tmp_path / "9.img", root)
    signer.sign(image)
    pi = Pi(tmp_path, images["1"])
    with pytest.raises(SystemSlotError, match="it is for riscv64"):
        pi.install(image, signer.keyring)
    told = pi.guard().status()
    assert (pi.card.restarts, told["trial"], told["versions"]["B"]) == ([], None, None)
    with pytest.raises(SystemSlotError, match="holds no whole system"):
        pi.guard().try_other(60.0, 1)


def test_an_image_of_another_kind_is_refused_by_name(
    tmp_path: Path, images: dict[str, Path], signer: Signer
) -> None:
    image = tmp_path / "raspios.img"
    image.write_bytes(flash_images.small())
    signer.sign(image)
    with pytest.raises(RefusalError, match="no image of a system with two slots"):
        Pi(tmp_path, images["1"]).install(image, signer.keyring)


def test_autoboot_txt_is_changed_within_one_sector_and_nothing_else_of_its_partition(
    tmp_path: Path, images: dict[str, Path]
) -> None:
    card = CardInFiles(tmp_path / "card", images["1"])
    first = card.folder / "p1"
    before = first.read_bytes()
    card.board().make_default(Slot.B)
    after = first.read_bytes()
    changed = {at // 512 for at in range(len(before)) if before[at] != after[at]}
    assert len(changed) == 1
    assert card.start() is Slot.B
    assert card.files(1, "autoboot.txt") == content.slots.autoboot(Slot.B)


def test_flash_puts_a_devices_files_where_autoboot_txt_has_the_pi_started_from(
    tmp_path: Path, images: dict[str, Path]
) -> None:
    fleet = tmp_path / "fleet"
    assert cli.main(["init", str(fleet), "--fleet", "gw-north=10.0.0.2"]) == 0
    (fleet / "cards.toml").write_text('[[devices]]\nid = "gw-north"\nwheels = "w.tar"\n')
    (fleet / "0.1.0-0123-cp313-aarch64.tar").write_bytes(b"wheels")
    text = (fleet / "cards.toml").read_text().replace("w.tar", "0.1.0-0123-cp313-aarch64.tar")
    users = 'user = "anna"\nssh_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1 anna"]\n'
    (fleet / "cards.toml").write_text(f"[all]\n{users}{text}")
    made = tmp_path / "card.img"
    command = ["flash", "--inventory", str(fleet / "cards.toml"), "--image", str(images["1"])]
    assert cli.main([*command, "--to", str(made), "--unverified"]) == 0
    card = CardInFiles(tmp_path / "card", made)
    assert b"id=gw-north" in card.files(2, "hedgerow/settings")
    assert b"ds=nocloud" in card.files(2, "cmdline.txt")
    first = LAYOUT.partitions[1]
    stretch = slice(0, first.start_bytes + first.size_bytes)
    assert made.read_bytes()[stretch] == images["1"].read_bytes()[stretch]


@pytest.mark.parametrize(
    "chunks",
    [2, *(pytest.param(n, marks=pytest.mark.soak("another moment")) for n in (0, 1, 3))],
)
def test_power_that_is_cut_while_a_system_is_written_leaves_the_one_before(
    tmp_path: Path,
    images: dict[str, Path],
    signer: Signer,
    chunks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pi = Pi(tmp_path, images["1"])
    write_at, left = Card.write_at, [chunks * 4]

    def cut(card: Card, offset_bytes: int, data: bytes) -> None:
        if left[0] == 0:
            write_at(card, offset_bytes, data[: len(data) // 2])
            raise KeyboardInterrupt
        left[0] -= 1
        write_at(card, offset_bytes, data)

    monkeypatch.setattr(Card, "write_at", cut)
    with pytest.raises(KeyboardInterrupt):
        pi.install(images["2"], signer.keyring)
    assert pi.card.start() is Slot.A
    pi.live("1")
    told = pi.guard().status()
    assert (pi.card.restarts, told["trial"]) == ([], None)
    assert told["versions"] == {"A": "1", "B": None}
    monkeypatch.undo()
    pi.install(images["2"], signer.keyring)
    assert pi.card.start() is Slot.B


def hedgerow_system(card: CardInFiles, *arguments: str) -> int:
    verb, *more = arguments
    stands_in = ["--firmware", str(card.folder / "firmware"), "--partitions", f"{card.folder}/p"]
    data = ["--data", str(card.data().path)]
    return cli.main(["system", verb, *stands_in, *data, *more])


def test_the_command_tells_what_runs_and_how_the_last_trial_ended(
    tmp_path: Path,
    images: dict[str, Path],
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pi = Pi(tmp_path, images["1"])
    pi.live("1")
    pi.install(images["2"], signer.keyring)
    assert hedgerow_system(pi.card, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["running"], told["default"]) == ("A", "A")
    assert told["trial"]["version"] == "2"
    assert pi.card.start() is Slot.B
    assert hedgerow_system(pi.card, "confirm") == 0
    assert hedgerow_system(pi.card, "status") == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 stays",
        "A  1",
        "B  2  runs, is started",
        "last trial: 2 confirmed",
    ]
    assert hedgerow_system(pi.card, "back") == 0
    assert "nothing is on trial" in capsys.readouterr().out
    assert hedgerow_system(pi.card, "confirm") == 1
    assert "no system is on trial" in capsys.readouterr().err


def test_the_command_says_where_there_are_no_two_systems(
    tmp_path: Path, images: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    card = CardInFiles(tmp_path / "card", images["1"])
    (card.folder / "firmware/partition").unlink()
    assert hedgerow_system(card, "status") == 1
    assert "no firmware that has started one of two systems" in capsys.readouterr().err
