"""Goal: `docs/errors.md` has what every command says when something is wrong, as it says it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from refused_commands import (
    REFUSED,
    ROWS,
    SILENCE,
    WRONG_OPTION,
    commands,
    folder,
    lines,
    page,
    refused,
    why_not,
)

from gateway.tools import cli

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
INTERNAL = re.compile(r"Errno|Traceback|\.lock\b|\.new\b|call failed|\b[0-9a-f]{40}\b")
DRAWN = 8
"""Of some hundred and seventy lines, in CI; `--soak` runs all."""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    if (why := why_not()) is not None:
        pytest.skip(why)
    with folder() as made:
        yield made


def test_each_command_of_the_parser_is_in_the_table() -> None:
    assert set(ROWS) == {name for name, _ in commands(cli.command_line())}


def test_each_command_is_on_the_page_with_each_of_its_rows() -> None:
    text, rows = PAGE.read_text(), list(lines())
    for name in ROWS:
        _, _, section = text.partition(f"## hedgerow {name}\n")
        section = section.partition("\n## ")[0]
        kinds = [kind for one, kind, _ in rows if one == name]
        assert re.findall(r"^\| ([a-z ]+) \| `", section, re.MULTILINE) == kinds


def test_no_line_of_the_page_names_what_is_inside() -> None:
    assert INTERNAL.findall(PAGE.read_text()) == []


def test_who_has_no_right_is_told_whose_it_is_and_what_to_do() -> None:
    rows = re.findall(r"^\| no right \| (.*)$", PAGE.read_text(), re.MULTILINE)
    assert rows
    assert [row for row in rows if "repeat this as that user, or with sudo" not in row] == []


def test_who_hears_nothing_is_told_what_may_be_between() -> None:
    rows = re.findall(r"^\| silence \| (.*)$", PAGE.read_text(), re.MULTILINE)
    assert rows
    assert [row for row in rows if "is that machine on" not in row] == []


def test_what_is_drawn_of_the_page_is_said(home: Path, pytestconfig: pytest.Config) -> None:
    text = PAGE.read_text()
    rows = [
        (name, kind, typed)
        for name, kind, typed in lines()
        if name not in ("query", "dashboard", "ingest", "demo") and kind not in (SILENCE, REFUSED)
    ]
    for _, kind, typed in random.Random(pytestconfig.getoption("--seed")).sample(rows, DRAWN):
        ended = refused(home, kind, typed)
        assert ended.code is not None, ended
        assert ended.code or kind != WRONG_OPTION, ended
        for line in ended.said.splitlines():
            assert line.replace("|", "\\|") in text, ended


@pytest.mark.soak("a minute; a few lines are drawn in CI")
@pytest.mark.timeout(1200)
def test_the_page_is_current() -> None:
    if (why := why_not()) is not None:
        pytest.skip(why)
    assert PAGE.read_text() == page(), (
        "run: .venv/bin/python tests/system/refused_commands.py > docs/errors.md"
    )
