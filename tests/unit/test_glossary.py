"""docs/glossary.md gives each term one meaning, and newcomers find it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/glossary.md").read_text()
OWN = PAGE.partition("## Our own")[2]
ROW = re.compile(r"^\| (?!term )([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", re.M)
FOLDERS = ("gateway", "tree_handler", "cloud_ingest", "docs")


def test_no_term_stands_twice() -> None:
    terms = [term.lower() for term, _, _ in ROW.findall(PAGE)]
    assert len(terms) > len(ROW.findall(OWN)) > 0
    assert sorted(set(terms)) == sorted(terms)


def test_each_term_of_our_own_occurs_in_code_or_documents() -> None:
    files = [
        path
        for folder in FOLDERS
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in {".py", ".md"} and path.name != "glossary.md"
    ]
    text = "\n".join(path.read_text().lower() for path in files)
    terms = [term for term, _, _ in ROW.findall(OWN)]
    assert [term for term in terms if not re.search(rf"\b{term}\b", text)] == []


def test_each_place_that_the_page_names_is_there() -> None:
    places = [where.strip("`") for _, _, where in ROW.findall(OWN)]
    assert [place for place in places if not (PROJECT / place).exists()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "CONTRIBUTING.md"])
def test_a_newcomer_is_led_to_the_page(page: str) -> None:
    assert re.search(r"\((?:docs/)?glossary\.md\)", (PROJECT / page).read_text())
