"""`hedgerow flash` asks before it writes over anything, and says of each card what came of it."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path

import pytest
from one_parser import hedgerow

from gateway.base import exit_codes
from gateway.tools.first_start import new_card
from gateway.tools.first_start.new_card import NewCard
from gateway.tools.first_start.setup_card import SetupCard
from gateway.tools.flashing import (
    authenticity,
    block_devices,
    boot_partition,
    fleet_file,
    kit,
    one_card,
)
from gateway.tools.flashing.authenticity import Authenticity
from gateway.tools.flashing.block_devices import DiskFacts
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.errors import CardWriteError, ReadBackError
from gateway.tools.flashing.kit import CardKit
from gateway.tools.flashing.one_card import CardOrder, FlashedCard

CARD = FlashedCard(
    image_bytes=52 << 20, injected_bytes=4_096, write_s=2.0, verify_s=1.0, inject_s=0.4
)
DISK = DiskFacts(Path("disk"), "sdb", "Reader", 32 * 10**9, "", True, False, (), (), ())
WRITTEN = "52 MiB written and read back, 4096 bytes of its own, 3 s"
PROMPT = "put it into disk and press Enter (s leaves it out, q ends): "


class CardDesk:
    """A desk without a card: what would be written is noted."""

    def __init__(self) -> None:
        self.devices = [CardDevice(id="gw-a"), CardDevice(id="gw-b", wheels=Path("own.tar"))]
        self.image = Authenticity("ab" * 32, "raspios.img.sha256", "")
        self.kits: list[CardKit] = []
        self.orders: list[CardOrder] = []
        self.holds: str | None = None
        """The contents of the disk that is written over; None: a file, of which nobody asks."""
        self.fails: BaseException | None = None

    def made(self, device: CardDevice, now_s: int, first_start: bytes | None) -> CardKit:
        assert device.wheels is not None
        files = {} if first_start is None else {"first-start": first_start}
        self.kits.append(CardKit(device, files, device.wheels, "cd" * 32, "barn", now_s))
        return self.kits[-1]

    def flash(
        self, order: CardOrder, _kit: CardKit, confirm: object, _steps: object
    ) -> FlashedCard:
        self.orders.append(order)
        if self.fails is not None:
            raise self.fails
        if self.holds is not None:
            assert callable(confirm)
            confirm(DISK, self.holds)
        return CARD


class Keyboard(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CardDesk:
    made = CardDesk()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boot_partition, "check_programs", lambda: None)
    monkeypatch.setattr(fleet_file, "read", lambda _path: made.devices)
    monkeypatch.setattr(authenticity, "check", lambda *_: made.image)
    monkeypatch.setattr(kit, "made", made.made)
    monkeypatch.setattr(one_card, "flash", made.flash)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return made


def flash(*words: object) -> int:
    own = ("--inventory", "cards.yml", "--image", "raspios.img", "--wheels", "w.tar")
    return hedgerow("flash", *own, *words)


def test_one_device_of_one_needs_no_name_and_takes_its_own_wheels_if_it_has_any(
    desk: CardDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    for device, wheels in zip(list(desk.devices), ("w.tar", "own.tar"), strict=True):
        desk.devices = [device]
        assert flash("--to", "disk") == exit_codes.DONE
        assert capsys.readouterr().out == f"{device.id}: disk is ready: {WRITTEN}\n"
        assert str(desk.kits[-1].wheels) == wheels
    assert desk.orders == [CardOrder(Path("raspios.img"), Path("disk"), "auto", False)] * 2


def test_cards_for_a_folder_are_files_named_as_their_devices_each_once(
    desk: CardDesk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--to", tmp_path, "--first-boot", "firstrun", "--yes-really", "--json")
    assert flash("gw-b", "gw-a", "gw-b", *words) == exit_codes.DONE
    targets = [tmp_path / "gw-b.img", tmp_path / "gw-a.img"]
    assert desk.orders == [
        CardOrder(Path("raspios.img"), target, "firstrun", True) for target in targets
    ]
    assert json.loads(capsys.readouterr().out) == [
        {
            "id": target.stem,
            "target": str(target),
            "image": "raspios.img",
            "image_sha256": "ab" * 32,
            "checksum_from": "raspios.img.sha256",
            "signed_by": "",
            "image_bytes": 52 << 20,
            "injected_bytes": 4_096,
            "write_s": 2.0,
            "verify_s": 1.0,
            "inject_s": 0.4,
        }
        for target in targets
    ]


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["--all", "gw-a"], exit_codes.WRONG_USE, "flash: either --all or names"),
        ([], exit_codes.WRONG_USE, "flash: which device: gw-a, gw-b, or --all?"),
        (["gw-c"], exit_codes.WRONG_USE, "flash: 'gw-c': cards.yml has gw-a, gw-b"),
        (
            ["--all"],
            exit_codes.WRONG_USE,
            "flash: several cards, and nobody to change them: name one ID a call",
        ),
    ],
)
def test_which_card_is_meant_has_to_be_plain(
    words: list[str], code: int, why: str, desk: CardDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flash("--to", "disk", *words) == code
    assert capsys.readouterr().err == f"hedgerow: {why}\n"
    assert desk.orders == []


def test_an_inventory_of_nobody_is_told(desk: CardDesk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.devices = []
    assert flash("--to", "disk") == exit_codes.WRONG_USE
    why = "hedgerow: flash: which device: there is none, or --all?\n"
    assert capsys.readouterr().err == why


def test_an_image_that_nothing_vouches_for_is_taken_only_if_that_is_said(
    desk: CardDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.image = Authenticity("ab" * 32, "", "")
    assert flash("gw-a", "--to", "disk") == exit_codes.CARD_REFUSED
    assert capsys.readouterr().err.startswith("hedgerow: flash: raspios.img: neither a checksum ")
    assert desk.orders == []
    assert flash("gw-a", "--to", "disk", "--unverified") == exit_codes.DONE
    told = "flash: nothing vouches for raspios.img: taken as it is\n"
    assert capsys.readouterr().err == told
    desk.image = Authenticity("ab" * 32, "", "Good signature")
    assert flash("gw-a", "--to", "disk") == exit_codes.DONE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("typed", "made", "code", "said"),
    [
        ("\n\n", ["gw-a", "gw-b"], exit_codes.DONE, ""),
        ("s\n\n", ["gw-b"], exit_codes.DONE, ""),
        (" S \ns\n", [], exit_codes.DONE, ""),
        (
            "\nq\n",
            ["gw-a"],
            exit_codes.FAILED,
            "hedgerow: flash: ended; the cards before this one are good\n",
        ),
        ("\n", ["gw-a"], exit_codes.WRONG_USE, "hedgerow: flash: the input has ended\n"),
    ],
)
def test_cards_are_asked_for_one_by_one(
    typed: str,
    made: list[str],
    code: int,
    said: str,
    desk: CardDesk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(typed))
    assert flash("--all", "--to", "disk") == code
    told = capsys.readouterr()
    asked = [f"\nCard {at} of 2, for gw-{'ab'[at - 1]} barn: {PROMPT}" for at in (1, 2)]
    assert told.err == "".join(asked) + said
    assert told.out == "".join(f"{name}: disk is ready: {WRITTEN}\n" for name in made)
    assert len(desk.orders) == len(made)


@pytest.mark.parametrize(
    ("typed", "holds", "words", "code", "said"),
    [
        ("yes\n", "ext4", [], exit_codes.DONE, "it holds ext4? Type yes: "),
        ("YES\n", "", [], exit_codes.DONE, "its beginning is blank? Type yes: "),
        (
            "y\n",
            "ext4",
            [],
            exit_codes.CARD_REFUSED,
            "it holds ext4? Type yes: hedgerow: flash: disk: not written over\n",
        ),
        (
            None,
            "ext4",
            [],
            exit_codes.CARD_REFUSED,
            "hedgerow: flash: disk: it holds ext4, and there is nobody to ask whether to write "
            "over it: --yes (with Ansible: answer yes, or card_overwrite)\n",
        ),
        (None, "ext4", ["--yes"], exit_codes.DONE, ""),
    ],
)
def test_a_disk_is_written_over_after_a_yes_alone(
    typed: str | None,
    holds: str,
    words: list[str],
    code: int,
    said: str,
    *,
    desk: CardDesk,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk.holds = holds
    if typed is not None:
        monkeypatch.setattr(sys, "stdin", Keyboard(typed))
    assert flash("gw-a", "--to", "disk", *words) == code
    asked = "" if typed is None else "Write over all of disk, Reader, 32.0 GB; "
    assert capsys.readouterr().err == asked + said


def test_bytes_that_are_no_text_are_no_answer(
    desk: CardDesk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Garbled(Keyboard):
        """A terminal whose encoding is another."""

        def readline(self, *_: object) -> str:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    desk.holds = "ext4"
    monkeypatch.setattr(sys, "stdin", Garbled())
    assert flash("gw-a", "--to", "disk") == exit_codes.CARD_REFUSED
    assert capsys.readouterr().err.endswith("hedgerow: flash: disk: not written over\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            CardWriteError("disk: it ended early"),
            exit_codes.CARD_FAILED,
            "hedgerow: flash: disk: it ended early; the card is of no use as it is\n",
        ),
        (
            ReadBackError("disk: other bytes"),
            exit_codes.CARD_DIFFERS,
            "hedgerow: flash: disk: other bytes; the card is of no use as it is\n",
        ),
        (KeyboardInterrupt(), exit_codes.INTERRUPTED, ""),
    ],
)
def test_a_card_that_is_of_no_use_is_called_so(
    error: BaseException, code: int, said: str, desk: CardDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.fails = error
    assert flash("gw-a", "--to", "disk") == code
    assert capsys.readouterr().err == said


def test_a_disk_on_which_writing_was_interrupted_may_be_of_no_use(
    desk: CardDesk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.fails = KeyboardInterrupt()
    monkeypatch.setattr(block_devices, "is_block_device", lambda path: path == Path("disk"))
    assert flash("gw-a", "--to", "disk") == exit_codes.INTERRUPTED
    told = "\nhedgerow: flash: interrupted; disk may be of no use now\n"
    assert capsys.readouterr().err == told


def test_the_owner_of_a_card_is_told_its_setup_code_once(
    desk: CardDesk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = SetupCard("0123456789AB")
    monkeypatch.setattr(new_card, "made", lambda: NewCard(card, "12:34"))
    assert flash("gw-a", "--to", "disk", "--first-start") == exit_codes.DONE
    assert capsys.readouterr().out == (
        f"gw-a: disk is ready: {WRITTEN}\n"
        "  setup code 0123-4567-89AB\n  page certificate sha256 12:34\n"
    )
    assert desk.kits[-1].files == {"first-start": card.as_text().encode()}
    assert flash("gw-a", "--to", "disk", "--first-start", "--json") == exit_codes.DONE
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["setup_code"], told["page_certificate_sha256"]) == ("0123-4567-89AB", "12:34")


def test_labels_are_written_for_all_cards_or_it_is_told_why_not(
    desk: CardDesk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, none = tmp_path / "labels.html", tmp_path / "none/labels.html"
    assert flash("--all", "--to", tmp_path, "--labels", page) == exit_codes.DONE
    text, today = page.read_text(), time.strftime("%Y-%m-%d")
    assert [text.count(word) for word in ("<b>gw-a</b>", "<b>gw-b</b>", "barn<br>")] == [1, 1, 2]
    assert text.count(today) in (0, 2), "made a moment before midnight"
    assert page.stat().st_mode & 0o777 == 0o640, "anybody may read it whom the umask lets"
    capsys.readouterr()
    assert flash("gw-a", "--to", tmp_path, "--labels", none) == exit_codes.FAILED
    why = f"hedgerow: flash: --labels: {none}: No such file or directory\n"
    assert capsys.readouterr().err == why
