"""Lets the system tests share modules: their own, and the conformance tests' codec.

What takes minutes to provision is left out unless the mark `deploy` is asked for.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# No package holds these under --import-mode=importlib.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "conformance")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked `deploy`, for a run that does not ask for it."""
    if "deploy" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("deploy") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
