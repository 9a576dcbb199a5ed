"""A card has its device's files on the partition that a Pi starts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from flash_images import MIB, fat_sector, mbr

from gateway.tools.flashing import injection, one_card
from gateway.tools.flashing.errors import CardWriteError, RefusalError
from gateway.tools.flashing.kit import CardKit
from gateway.tools.flashing.one_card import CardOrder

FAT, LINUX = 0x0C, 0x83


class FirstPartition:
    """A boot partition of which a test says what is on the first one.

    Attributes:
        names_of: what is in its first folder.
        text: of its ``autoboot.txt``.

    """

    names_of: frozenset[str] = frozenset()
    text = ""

    def __init__(self, card: Path, start_bytes: int) -> None:
        self.place = (card, start_bytes)

    def names(self) -> frozenset[str]:
        return self.names_of

    def read_text(self, name: str) -> str:
        assert name == "autoboot.txt"
        return self.text


@pytest.fixture
def flashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Flash a card of three partitions, and return where its device's files went."""
    image = bytearray(5 * MIB)
    image[:512] = mbr((FAT, MIB, MIB), (FAT, 2 * MIB, MIB), (LINUX, 3 * MIB, MIB))
    for at in (MIB, 2 * MIB):
        image[at : at + 512] = fat_sector()
    (tmp_path / "a.img").write_bytes(image)
    went = list[Any]()

    def inject(boot: FirstPartition, *_: object) -> int:
        went.append(boot.place)
        return 7

    def flash(text: str | None) -> list[Any]:
        names = frozenset({"config.txt", *(("autoboot.txt",) if text is not None else ())})
        monkeypatch.setattr(FirstPartition, "names_of", names)
        monkeypatch.setattr(FirstPartition, "text", text or "")
        target = tmp_path / "card.img"
        order = CardOrder(tmp_path / "a.img", target, "auto", takes_fixed=False)

        def confirm(*_: object) -> None:
            pytest.fail("a file is written over nothing")

        made = one_card.flash(order, cast(CardKit, None), confirm, lambda _: lambda *_: None)
        assert (made.image_bytes, made.injected_bytes) == (5 * MIB, 7)
        assert min(made.write_s, made.verify_s, made.inject_s) >= 0
        assert target.read_bytes() == bytes(image)
        return went

    monkeypatch.setattr(one_card, "BootPartition", FirstPartition)
    monkeypatch.setattr(injection, "inject", inject)
    return flash


@pytest.mark.parametrize(
    ("text", "start"),
    [(None, MIB), ("boot_partition=1\n", MIB), ("boot_partition=2\n", 2 * MIB)],
)
def test_files_go_to_the_first_partition_or_to_the_one_that_autoboot_names(
    text: str | None, start: int, flashed: Callable[..., list[Any]], tmp_path: Path
) -> None:
    assert flashed(text) == [(tmp_path / "card.img", start)]


@pytest.mark.parametrize(
    ("text", "number"), [("boot_partition=3\n", 3), ("boot_partition=4\n", 4), ("", None)]
)
def test_an_image_that_starts_from_no_fat_partition_makes_no_card(
    text: str, number: int | None, flashed: Callable[..., list[Any]], tmp_path: Path
) -> None:
    with pytest.raises(CardWriteError) as raised:
        flashed(text)
    why = f"the image's autoboot.txt names partition {number}, which is not FAT"
    assert str(raised.value) == why
    assert not (tmp_path / "card.img").exists()


def test_a_disk_that_there_is_not_is_named(tmp_path: Path) -> None:
    order = CardOrder(tmp_path / "a.img", Path("/dev/no-such-disk"), "auto", takes_fixed=False)
    with pytest.raises(RefusalError, match=r"^--to: /dev/no-such-disk: there is no such disk$"):
        one_card.flash(order, cast(CardKit, None), lambda *_: None, lambda _: lambda *_: None)
