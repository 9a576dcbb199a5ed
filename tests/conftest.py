"""What every test shares: programs of other projects are used, or named where they are missing."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a missing program, naming the install command; in CI, fail."""
    for marker in item.iter_markers("peer"):
        program, package = marker.args
        if shutil.which(program) is None:
            message = f"{program} is not installed: sudo apt-get install {package}"
            if os.environ.get("CI"):
                pytest.fail(message, pytrace=False)
            pytest.skip(message)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--soak`` makes the long checks long."""
    parser.addoption("--soak", action="store_true", help="run long checks in full length")
    parser.addoption("--seed", type=int, default=1, help="of the tests that kill a broker")
