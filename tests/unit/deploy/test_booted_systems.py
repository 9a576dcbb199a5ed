"""`make test-deploy` finds all tests on booted systems. It takes an hour and does not run here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ASKED_FOR = ("tests/deploy", "tests/system", "-m", "deploy")


def test_all_tests_on_booted_systems_can_be_run_in_one_go() -> None:
    """Folders that are asked for by name may have modules that are taken for each other."""
    assert " ".join(ASKED_FOR) in (ROOT / "Makefile").read_text()
    command = [sys.executable, "-m", "pytest", *ASKED_FOR, "--collect-only", "-q"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:]
    assert "test_thirty.py" in found.stdout
    # Of a module that `make soak` has: it leaves out what boots a system.
    assert "test_provisioning.py::test_a_wrong_inventory_fails_by_name" in found.stdout
