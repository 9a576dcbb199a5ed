"""Lets the system tests share modules: their own, and the conformance tests' codec."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from chromium import Page, chromium, page
from page_gateway import PageGateway, page_gateway

from gateway.broker.access import password_lines

# No package holds these under --import-mode=importlib.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "conformance")]


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords of fleets that are made here with little work: it was most of making one."""
    monkeypatch.setattr(password_lines, "PasswordHasher", partial(PasswordHasher, 1, 64, 1))


@pytest.fixture(scope="session")
def browser_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Chromium for all tests of this process."""
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as address:
        yield address


@pytest.fixture
async def browser(browser_address: str) -> AsyncIterator[Page]:
    """Open a tab of a screen's size."""
    async with page(browser_address) as opened:
        await opened.look(1280, 800)
        yield opened


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    """Start a gateway with a page."""
    async with page_gateway(tmp_path / "gateway") as made:
        yield made
