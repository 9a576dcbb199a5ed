"""Lets the system tests share modules: their own, and the conformance tests' codec."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from gateway.tools.provisioning import password_lines

# No package holds these under --import-mode=importlib.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "conformance")]


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords of fleets that are made here with little work: it was most of making one."""
    monkeypatch.setattr(password_lines, "PasswordHasher", partial(PasswordHasher, 1, 64, 1))
