"""Each limit, wait and size of the product stands on its page as the code has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from loaded_file import loaded

ROOT = Path(__file__).resolve().parents[3]
limits = loaded(ROOT / "deploy/limits_page.py")


def rows(source: str) -> list[tuple[str, str, str]]:
    found = limits.numbers_of("gateway/base/some.py", source)
    return [(number.name, number.value, number.meaning) for number in found]


def test_the_page_says_what_the_code_says() -> None:
    made = limits.page(ROOT).splitlines()
    said = limits.PAGE.read_text().splitlines()
    differing = [f"- {row}" for row in said if row not in made]
    differing += [f"+ {row}" for row in made if row not in said]
    assert not differing, "run: python deploy/limits_page.py\n" + "\n".join(differing)
    assert made == said


def test_each_folder_of_the_product_has_its_table() -> None:
    modules = [
        path.relative_to(ROOT).as_posix()
        for package in {room.split("/")[0] for room in limits.ROOMS}
        for path in (ROOT / package).rglob("*.py")
        if path.parent != ROOT / package or package != "gateway"
    ]
    without = [one for one in modules if limits.room_of(one) is None]
    assert [one for one in without if not one.startswith(limits.ONLY_SIMULATED)] == []


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("REST_S = 2.0", "2 s"),
        ("REST_S = 0.25", "0.25 s"),
        ("REST_S = 24 * 3600", "86,400 s"),
        ("OLDEST_S: Final = -5", "-5 s"),
        ("ROOM_BYTES = 256 << 10", "256 KiB"),
        ("ROOM_BYTES = 3 * 1024 * 1024", "3 MiB"),
        ("ROOM_BYTES = 1_000_000", "1,000,000 bytes"),
        ("BODY_BYTES_MAX = 8 * 1024 + 1", "8,193 bytes"),
        ("FULL_PERCENT = 90", "90%"),
        ("MAX_LINKS = 2**10 - 1", "1,023"),
        ("MAX_LINKS = OTHERS // 2", "`OTHERS // 2`"),
    ],
)
def test_a_number_is_shown_in_the_unit_that_its_name_says(line: str, value: str) -> None:
    assert [shown for _, shown, _ in rows(line)] == [value]


@pytest.mark.parametrize(
    "line",
    [
        "KIND = 7",  # neither a unit nor a word of limits, and nothing says what it is for
        "MAX_OPEN = False",
        "TEXT_BYTES = b'ab' * 4",
        "COUNTED_BYTES = 0",
        "MAX_LINKS = links()",
        "class Kind(enum.IntEnum):\n    MAX = 3",
    ],
)
def test_what_is_no_limit_stands_in_no_table(line: str) -> None:
    assert rows(line) == []


def test_a_number_that_says_what_it_is_for_is_shown_with_its_first_sentence() -> None:
    source = (
        'class Limits:\n    links: int = 7\n    """Links of a | kind.\n\n    More are refused."""'
    )
    assert rows(source) == [("Limits.links", "7", r"Links of a \| kind")]
