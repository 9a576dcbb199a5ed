"""Peers and rights that a test needs: one that is missing is a skip, and in CI a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail_in_ci(why: str) -> NoReturn:
    """End the test, and say what is missing and which package has it."""
    if os.environ.get("CI"):
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
