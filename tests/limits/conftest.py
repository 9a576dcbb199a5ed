"""Starts the gateways that the tests meet from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# This suite's own modules, and the raw client of the conformance tests.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

from gateways import Gateway, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a gateway with the given [limits]."""
    running: list[Gateway] = []

    def start_one(limits: str = "", tree: str = "") -> Gateway:
        running.append(Gateway(tmp_path, f"[limits]\n{limits}", tree))
        return running[-1]

    yield start_one
    for gateway in running:
        gateway.stop()
