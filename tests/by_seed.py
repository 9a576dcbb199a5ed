"""Cases that one commit tries: `--seed` draws them, and `--soak` has all.

For cases that are parameters of a test there is the mark ``drawn``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def some(config: pytest.Config, values: Sequence[T], count: int) -> Sequence[T]:
    """Return so many of these values, in their order; all of them with ``--soak``."""
    if config.getoption("--soak"):
        return values
    seed: int = config.getoption("--seed")
    places = random.Random(seed).sample(range(len(values)), min(count, len(values)))
    return [values[place] for place in sorted(places)]
