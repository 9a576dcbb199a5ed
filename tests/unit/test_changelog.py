"""CHANGELOG.md has the form of keepachangelog.com, and its newest version is the package's."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from gateway.base import build

PROJECT = Path(__file__).parents[2]
TEXT = (PROJECT / "CHANGELOG.md").read_text()
LINES = TEXT.splitlines()
RELEASE = re.compile(r"## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
LONGEST = 160


def releases() -> list[tuple[tuple[int, ...], date]]:
    found = [RELEASE.fullmatch(line) for line in LINES if line.startswith("## ")][1:]
    return [
        (tuple(map(int, match.groups()[:3])), date.fromisoformat(match[4]))
        for match in found
        if match is not None
    ]


def test_what_is_unreleased_stands_first_and_each_release_has_a_version_and_a_date() -> None:
    headings = [line for line in LINES if line.startswith("## ")]
    assert headings[0] == "## [Unreleased]"
    assert [line for line in headings[1:] if not RELEASE.fullmatch(line)] == []


def test_versions_and_dates_descend() -> None:
    versions, dates = zip(*releases(), strict=True)
    assert list(versions) == sorted(set(versions), reverse=True)
    assert list(dates) == sorted(dates, reverse=True)


def test_the_newest_version_is_that_of_the_package() -> None:
    assert ".".join(map(str, releases()[0][0])) == build.VERSION


def test_the_kinds_are_those_of_keep_a_changelog_and_stand_once_in_a_release() -> None:
    for section in re.split(r"^## ", TEXT, flags=re.M)[1:]:
        kinds = re.findall(r"^### (.+)$", section, re.M)
        assert set(kinds) <= KINDS
        assert len(kinds) == len(set(kinds))


def test_each_change_is_one_line_that_is_not_long() -> None:
    changes = [line for line in LINES if line.startswith("-")]
    assert changes
    assert [line for line in changes if len(line) >= LONGEST or not line.endswith((".", ":"))] == []
    below = LINES[LINES.index("## [Unreleased]") :]
    forms = ("- ", "## [", "### ", "[")
    assert [line for line in below if line and not line.startswith(forms)] == []


def test_each_page_that_a_change_names_is_there() -> None:
    named = re.findall(r"(?:\]\(|^\[\w+\]: )((?:docs|deploy)/[^)#\s]+)", TEXT, re.M)
    assert named
    assert [path for path in named if not (PROJECT / path).exists()] == []


def test_each_decision_that_a_change_names_has_its_page() -> None:
    used = set(re.findall(r"\[(\d+)\](?!:)", TEXT))
    assert used == set(re.findall(r"^\[(\d+)\]: ", TEXT, re.M))
