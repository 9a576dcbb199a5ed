"""The glossary has each term once, and every term is one that the pages use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "glossary.md"


def terms() -> list[str]:
    """Return the terms, several of one row apart."""
    found = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(), re.MULTILINE)
    return [term for row in found for term in row.split(", ")]


def test_no_term_has_two_meanings() -> None:
    assert [term for term, count in Counter(terms()).items() if count > 1] == []


def test_each_term_is_used_on_another_page() -> None:
    pages = [path.read_text().lower() for path in DOCS.rglob("*.md") if path != PAGE]
    text = re.sub(r"\s+", " ", "\n".join(pages))
    unused = [
        term
        for term in terms()
        if not re.search(rf"\b{re.escape(term.partition(' (')[0].lower())}", text)
    ]
    assert unused == []
