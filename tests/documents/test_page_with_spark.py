"""The page of the tables, whose job is run with Spark, on an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine import Machine
from pages import PROJECT
from session import Session
from surroundings_of_pages import PARTS, SURROUNDINGS


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_the_page_of_the_tables_says_works_as_it_stands(
    installation: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, installation)
    with machine.running():
        Session(machine, SURROUNDINGS, PARTS).read_page(PROJECT / "docs" / "cloud.md")
