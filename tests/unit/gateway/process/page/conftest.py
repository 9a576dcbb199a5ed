"""Fixtures that several tests of the page share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Signals that the process would get as a service."""
    found: list[int] = []
    numbers = (signal.SIGHUP, signal.SIGUSR2)
    before = [signal.signal(number, lambda n, _: found.append(n)) for number in numbers]
    yield found
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
