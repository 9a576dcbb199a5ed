"""All that docs/data.md and the notebook say works, on tables of a fleet that there is not."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic_tables import Fleet, write_readings

from cloud_ingest.query import Lake
from cloud_ingest.query.sql import ask, connect

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"((?:<!--[^\n]*-->\n)*)```(sql|python)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("data")
    Fleet(70).write(made / "tables")
    write_readings(made / "tables", "gw-root", ["hall/a"], 5, 600)
    return made


def blocks(language: str) -> list[str]:
    found = BLOCK.findall((DOCS / "data.md").read_text())
    return [text for said, kind, text in found if kind == language and "not run" not in said]


@pytest.mark.parametrize("statement", blocks("sql"))
def test_each_statement_of_the_page_finds_rows(folder: Path, statement: str) -> None:
    assert ask(connect(Lake(folder / "tables")), statement).to_arrow_table().num_rows


def run(folder: Path, program: str) -> None:
    settings = os.environ | {"HEDGEROW_TABLES": "tables"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_each_program_of_the_page_runs(folder: Path) -> None:
    found = blocks("python")
    assert len(found) == 2
    run(
        folder,
        "\n".join(found) + "\nassert arrow.num_rows == polars.height > 600\n"
        "assert hourly.height > 100\n",
    )


def test_the_notebook_runs_from_its_top_and_finds_what_is_there(folder: Path) -> None:
    told = json.loads((DOCS / "notebooks" / "fleet.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in told["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in told["cells"] if cell["cell_type"] == "code")
    checks = (
        "assert health.gateways.sum() == 70",
        "assert worst.health[0] == 'silent'",
        "assert (gateway, sensor) == ('gw-root', 'hall/a')",
        "assert len(hourly) == 4 * 24 + 12 and len(missing) == 1",
    )
    run(folder, "\n".join([*cells, *checks]))
