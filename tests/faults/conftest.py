"""Lets these tests share modules, their own and the broker's simulated clients, and fixtures."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import by_seed
import pytest

# No package holds these under --import-mode=importlib.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "simulation")]

DRAWN = 6
"""So many calls of a step fail in CI, for each fault."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where that is to be had: how slow a disk is says nothing here."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="failing-disk-", dir=where) as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence the logs: what a gateway says of a failing disk would be most of a test's time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def draw(pytestconfig: pytest.Config) -> Callable[[int], Sequence[int]]:
    """A function that draws which of so many calls are to fail."""

    def drawn(calls: int) -> Sequence[int]:
        assert calls, "nothing is reached"
        return by_seed.some(pytestconfig, range(1, calls + 1), DRAWN)

    return drawn
