"""Each call of the tests in the Makefile can be replayed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_all_that_a_run_of_ci_draws_is_drawn_by_its_one_seed() -> None:
    """The order, and what tests draw themselves: that option only works beside a path."""
    outer = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    said = subprocess.run(
        ["make", "--dry-run", "test", "SEED=7", "CI=true"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("\\\n", " ")
    calls = [one.partition("\n")[0].split() for one in said.split("-m pytest ")[1:]]
    assert len(calls) >= 4
    for options in calls:
        assert {"--random-order-seed=7", "--seed=7"} <= {*options}, options
        assert any(one.startswith("tests") for one in options), options
