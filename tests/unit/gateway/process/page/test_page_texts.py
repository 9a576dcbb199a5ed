"""The texts of the page stand in one file: each is used, and each that is used is there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[5] / "gateway" / "process/page" / "static"
TEXTS = (PAGE / "texts.js").read_text()
SECTIONS = dict(re.findall(r"^  (\w+): \{\n(.*?)^  \},", TEXTS, re.M | re.S))
COMMON = set(re.findall(r"^  (\w+):", TEXTS, re.M)) - set(SECTIONS)
BY_NAME = {"directory": {"endpoints", "resources"}}
"""Texts that are chosen by a value."""


def used() -> set[tuple[str, str]]:
    found = {(section, name) for section, names in BY_NAME.items() for name in names}
    for file in PAGE.glob("*.js"):
        source = file.read_text()
        if file.name == "texts.js":
            continue
        for section, name in re.findall(r"\bT\.(\w+)(?:\.(\w+))?", source):
            found.add((section, name) if section in SECTIONS else ("", section))
        own = re.search(r"const t = T\.(\w+);", source)
        if own is not None:
            found |= {(own[1], name) for name in re.findall(r"(?<![\w.])t\.(\w+)", source)}
    return {(section, name) for section, name in found if name}


def test_each_text_is_used_and_each_that_is_used_is_there() -> None:
    there = {
        (section, name)
        for section, body in SECTIONS.items()
        for name in re.findall(r"^    (\w+):", body, re.M)
    }
    assert used() == there | {("", name) for name in COMMON}


def test_no_page_has_words_of_its_own() -> None:
    """A child that is a text in the source would not be translated."""
    wordy = re.compile(r"""h\(\s*"\w+",\s*\{[^}]*\},\s*["`]([A-Za-z]{2}[^"`]*)""")
    found = {
        (file.name, text)
        for file in PAGE.glob("*.js")
        if file.name != "texts.js"
        for text in wordy.findall(file.read_text())
    }
    assert found == set()
