"""Goal: the page of a first start is filled in by keyboard, and fits a telephone.

With HEDGEROW_PICTURES=DIR a picture of each step is left there.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chromium import NEEDED, Page
from first_start_bed import CODE, FirstStart, first_start
from test_gateway_page import SIZES, picture, violations

pytestmark = [NEEDED, pytest.mark.slow]


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[FirstStart]:
    async with first_start(tmp_path / "etc") as made:
        yield made


@pytest.fixture
async def browser(browser: Page) -> Page:
    """The tab, which takes the page's own certificate."""
    await browser.call("Security.setIgnoreCertificateErrors", ignore=True)
    return browser


async def looked_at(browser: Page, step: str) -> dict[str, list[str]]:
    found = {}
    for width, height in SIZES:
        for theme in ("light", "dark"):
            await browser.look(width, height, theme)
            await browser.until("document.getAnimations().length === 0")  # colours fade
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth"), step
            await picture(browser, f"first-start-{step}-{width}-{theme}")
            if wrong := await violations(browser):
                found[f"{step} {width} {theme}"] = wrong
    await browser.look(1280, 800)
    return found


async def filled(browser: Page, field: str, text: str) -> None:
    await browser.run(f"document.getElementById({json.dumps(field)}).focus()")
    await browser.run("document.activeElement.select()")
    await browser.write(text)


async def test_a_gateway_is_set_up_by_keyboard_at_each_size_in_both_themes(
    browser: Page, own: FirstStart
) -> None:
    await browser.go(f"{own.base}/")
    await browser.until("document.activeElement?.id === 'code'")
    found = await looked_at(browser, "code")
    await browser.write("0000-0000-0000")
    await browser.press("Enter")
    await browser.until("document.querySelector('.error').textContent.includes('is not the one')")
    await filled(browser, "code", CODE.lower())
    await browser.press("Enter")
    await browser.until("document.activeElement?.id === 'name'")
    found |= await looked_at(browser, "form")
    await filled(browser, "name", "../etc")
    for field, text in (("place", "campus/north"), ("password", "open sesame")):
        await filled(browser, field, text)
    await filled(browser, "again", "open sesamo")
    await browser.press("Enter")
    await browser.until("document.querySelector('.error').textContent.includes('not the same')")
    await filled(browser, "again", "open sesame")
    await browser.press("Enter")
    await browser.until("document.querySelector('.error').textContent.startsWith('name: ')")
    assert await browser.run("document.activeElement.id") == "name"
    await filled(browser, "name", "gw-hall")
    await browser.press("Enter")
    await browser.until("document.querySelector('.qr')?.naturalWidth > 100")
    found |= await looked_at(browser, "ready")
    assert found == {}
    await browser.run("document.querySelector('button.primary').focus()")
    await browser.press("Enter")
    await browser.until("document.querySelector('h1').textContent === 'The first start is over.'")
    assert await own.process.wait() == 0
    complaints = [one for one in browser.complaints if "status of 4" not in one]
    assert complaints == []
    assert "gw-hall" in (own.folder / "hedgerow.toml").read_text()
