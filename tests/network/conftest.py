"""Lets the network tests share modules, and names what they need where it is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.mesh import namespaces

# No package holds these under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    """Skip where there can be no network namespaces, and say why; in CI, fail."""
    why = namespaces.why_not()
    if why is None:
        return
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
