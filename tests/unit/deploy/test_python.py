"""The choice of the Python that the project's environments are made with (`deploy/python`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from missing_peer import skip_or_fail_in_ci

PROJECT = Path(__file__).parents[3]
DEBIANS = Path("/usr/bin/python3")


def found(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Ask for a Python where PATH has the programs of a folder before the system's."""
    return subprocess.run(
        ["/bin/sh", "-euc", '. deploy/python; python=$(find_python); echo "$python"'],
        cwd=PROJECT,
        env={"PATH": f"{folder}:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def put(folder: Path, name: str, script: str) -> Path:
    """Put a program of one line into a folder."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def fits(python: Path) -> bool:
    """Return whether a Python is one of those that Hedgerow runs on, and can make environments."""
    check = "import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"
    return python.exists() and subprocess.run([python, "-c", check], check=False).returncode == 0


def test_debians_own_comes_before_one_that_stands_earlier_in_the_path(tmp_path: Path) -> None:
    if not fits(DEBIANS):
        skip_or_fail_in_ci(f"{DEBIANS} of 3.11 to 3.13 with venv (apt-get install python3-venv)")
    put(tmp_path, "python3", f'exec {sys.executable} "$@"')

    assert found(tmp_path).stdout == f"{DEBIANS}\n"


def test_who_names_one_has_that_one(tmp_path: Path) -> None:
    mine = put(tmp_path, "mine", f'exec {sys.executable} "$@"')

    assert found(tmp_path, PYTHON=str(mine)).stdout == f"{mine}\n"


@pytest.mark.parametrize("named", ["too-old", "not-there"])
def test_one_that_does_not_fit_is_named_and_no_other_is_taken(tmp_path: Path, named: str) -> None:
    put(tmp_path, "too-old", "exit 1")

    asked = found(tmp_path, PYTHON=named)

    assert (asked.returncode, asked.stdout) == (2, "")
    assert f"PYTHON={named} is no Python 3.11, 3.12 or 3.13" in asked.stderr
