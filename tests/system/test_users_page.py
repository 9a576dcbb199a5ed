"""Users and passwords in a browser: seen, added, changed and removed, by mouse and keyboard."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from chromium import NEEDED, Page
from page_gateway import PageGateway
from test_gateway_page import HOSTILE, log_in, show, violations

pytestmark = [NEEDED, pytest.mark.slow]

NEW = "correct horse battery"
NEWS = "document.querySelector('.users > p.good').textContent"
LOOKS = tuple((*size, theme) for size in ((1280, 1000), (360, 740)) for theme in ("light", "dark"))


async def seen(browser: Page, name: str) -> None:
    """Fits in both themes on a wide and a narrow screen, and axe finds nothing."""
    for width, height, theme in LOOKS:
        await browser.look(width, height, theme)
        await browser.run("Promise.all(document.getAnimations().map(one => one.finished))")
        if folder := os.environ.get("HEDGEROW_PICTURES"):
            await browser.run("document.querySelector('.users, .own-password').scrollIntoView()")
            await browser.picture(Path(folder) / f"{name}-{width}-{theme}.png")
        assert await violations(browser) == []
        assert await browser.run("document.documentElement.scrollWidth <= innerWidth")


async def fill_in(browser: Page, **values: str) -> None:
    """Type into fields, by their ids."""
    for name, value in values.items():
        field = f"document.getElementById('{name.replace('_', '-')}')"
        await browser.until(f"{field} && !{field}.disabled")
        await browser.run(f"{field}.focus(); {field}.value = ''")
        await browser.write(value)


async def test_a_user_is_added_given_another_password_and_removed(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "anna")
    await show(browser, "policy")
    assert "argon2" not in await browser.run("document.body.innerHTML")
    await fill_in(browser, new_user="paul")
    await browser.press("Enter")
    once = "document.querySelector('[data-once=paul]')"
    await browser.until(f"{once} && document.activeElement === {once}.querySelector('h3')")
    drawn = await browser.run(f"{once}.querySelector('code').textContent")
    await seen(browser, "users-once")
    await browser.run(f"{once}.querySelector('h3').focus()")
    await browser.press("Tab")
    await browser.press("Enter")
    await browser.until(f"!{once}")
    assert drawn not in await browser.run("document.body.innerHTML")
    await browser.run("document.querySelector('[data-another=paul]').click()")
    await browser.until("document.activeElement.textContent === 'Another password for paul'")
    await browser.press("Tab")
    assert await browser.run("document.activeElement.id") == "another-drawn"
    await browser.run("document.activeElement.click()")
    await fill_in(browser, another_new=NEW, another_again=f"{NEW}!")
    await browser.press("Enter")
    await browser.until("document.querySelector('[data-form=another] .error').textContent")
    await seen(browser, "users-another")
    await fill_in(browser, another_again=NEW)
    await browser.press("Enter")
    await browser.until(f"{NEWS}.includes('another one')")
    await fill_in(browser, new_user=HOSTILE)
    await browser.press("Enter")
    rows = "[...document.querySelectorAll('.users tbody tr')].map(r => r.cells[0].textContent)"
    await browser.until(f"{rows}.includes({json.dumps(HOSTILE)})")
    assert await browser.run("document.getElementById('new-user').value") == ""
    assert await browser.run("document.querySelector('[data-once] code').textContent")
    await browser.run("document.querySelector('[data-another=paul] ~ .sure .opener').click()")
    await browser.until("document.activeElement?.className === 'primary'")
    await browser.press("Enter")
    await browser.until(f"{NEWS} === 'paul is removed'")
    await browser.until(f"!{rows}.includes('paul')")
    assert HOSTILE in await browser.run(rows)
    assert [one["what"] for one in gateway.audit if one.get("user") == "paul"] == [
        "user added",
        "password of a user set",
        "user removed",
    ]
    assert drawn not in json.dumps(gateway.audit)
    assert browser.complaints == []


async def test_a_viewer_changes_its_own_password_and_logs_in_anew(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "vera")
    await browser.run("location.hash = '#/policy'")
    await fill_in(browser, own_old="wrong", own_new=NEW, own_again=NEW)
    assert await browser.run("document.querySelector('.users')") is None
    await browser.press("Enter")
    await browser.until("document.querySelector('.own-password .error').textContent")
    await seen(browser, "own-password")
    browser.complaints.clear()  # of what was refused, as it should be
    await fill_in(browser, own_old="vera")
    await browser.press("Enter")
    await browser.until("document.activeElement?.id === 'user'")
    await browser.write("vera")
    await browser.press("Tab")
    await browser.write(NEW)
    await browser.press("Enter")
    await browser.until("document.querySelector('nav a')")
    assert [one for one in browser.complaints if "401" not in one] == []


async def test_a_file_that_something_else_writes_is_shown_and_not_changed(
    browser: Page, gateway: PageGateway
) -> None:
    file = gateway.folder / "passwords"
    file.write_text(f"# managed by: Ansible (gateway_passwords)\n{file.read_text()}")
    await log_in(browser, gateway, "anna")
    await show(browser, "policy")
    told = await browser.run("document.querySelector('.users').textContent")
    assert "Ansible (gateway_passwords) writes it" in told and "hedgerow passwd NAME" in told
    assert await browser.run("document.querySelector('.users form, .users button')") is None
    assert await browser.run("document.querySelector('.own-password form')") is None
    await seen(browser, "users-elsewhere")
    assert browser.complaints == []
