"""Lets the network tests share modules, and names what they need where it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from missing_peer import skip_or_fail_in_ci

from benchmarks.mesh import namespaces

# No package holds these under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    """Skip where there can be no network namespaces, and say why; in CI, fail."""
    why = namespaces.why_not()
    if why is None:
        return
    skip_or_fail_in_ci(why)
