"""CONTRIBUTING.md and SECURITY.md name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "SECURITY.md")
PATH = re.compile(
    r"(?<![\w/.-])(?:gateway|tree_handler|coap_engine|dtls|resource_directory|cloud_ingest|record_formats|tests|docs|deploy)/[\w./-]*"
)


@pytest.mark.parametrize("page", PAGES)
def test_each_path_that_a_page_names_is_there(page: str) -> None:
    named = {path.rstrip(".") for path in PATH.findall((PROJECT / page).read_text())}
    assert named
    assert [path for path in sorted(named) if not (PROJECT / path).exists()] == []


def test_each_target_of_make_that_a_page_names_is_there() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    named = re.findall(r"make ([a-z-]+)", (PROJECT / "CONTRIBUTING.md").read_text())
    assert "quick" in named
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.M)] == []


def test_the_one_test_that_is_shown_is_found_by_its_words() -> None:
    page = (PROJECT / "CONTRIBUTING.md").read_text()
    file, word = re.findall(r"pytest (\S+) -k (\w+)", page)[0]
    assert re.search(rf"^def test_\w*{word}", (PROJECT / file).read_text(), re.M)
