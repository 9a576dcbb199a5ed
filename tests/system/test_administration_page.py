"""The pages that change a gateway itself, in a browser: its configuration and its keys."""

from __future__ import annotations

import base64
import json
import os
import socket
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from brokers import Gateway
from certificate_fleet import PASSWORD, Fleet
from chromium import NEEDED, Page
from cryptography import x509
from page_gateway import CHEAP, POLICY, USERS, PageGateway, page_gateway
from ports import free_port
from test_gateway_page import log_in, show, violations

pytestmark = [NEEDED, pytest.mark.slow]


async def picture(browser: Page, name: str) -> None:
    folder = os.environ.get("HEDGEROW_PICTURES")
    if folder:
        await browser.picture(Path(folder) / f"{name}.png")


async def type_value(browser: Page, key: str, value: str) -> None:
    """Search a key, open it, and type another value."""
    await browser.run("document.querySelector('input[type=search]').focus()")
    await browser.run("document.querySelector('input[type=search]').select()")
    await browser.write(key)
    row = f"document.querySelector('[data-key=\"{key}\"]')"
    await browser.until(row)
    await browser.run(f"{row}.querySelector('details').open = true")
    field = f"{row}.querySelector('.config-value')"
    await browser.until(field)
    await browser.run(f"{field}.value = {json.dumps(value)}")
    await browser.run(f"{row}.querySelector('form').requestSubmit()")
    await browser.until(f"{row}.querySelector('details summary strong')")
    await browser.until("document.querySelector('.config-changes')")


async def test_a_value_is_searched_changed_checked_and_written(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "anna")
    await show(browser, "configuration")
    await type_value(browser, "tree.hello_s", "-4")
    await browser.until("document.querySelector('.config-changes .error').textContent !== ''")
    assert await browser.run("document.querySelector('[data-do=apply]')") is None
    assert await violations(browser) == []
    await type_value(browser, "tree.hello_s", "1.5")
    await browser.until("document.querySelector('[data-do=apply]')")
    difference = await browser.run("document.querySelector('.config-diff').textContent")
    assert "- tree.hello_s = 0.5" in difference and "+ tree.hello_s = 1.5" in difference
    for width, theme in ((1280, "light"), (360, "dark")):
        await browser.look(width, 800, theme)
        await picture(browser, f"configuration-change-{width}-{theme}")
        await browser.run("Promise.all(document.getAnimations().map(one => one.finished))")
        assert await violations(browser) == []
        assert await browser.run("document.documentElement.scrollWidth <= innerWidth")
    await browser.run("document.querySelector('[data-do=apply]').click()")
    await browser.until("document.querySelector('[data-trial=waiting]')")
    document = tomllib.loads((gateway.folder / "gateway.toml").read_text())
    assert document["tree"]["hello_s"] == 1.5
    assert browser.complaints == []


async def test_a_viewer_has_no_page_for_administrators(browser: Page, gateway: PageGateway) -> None:
    await log_in(browser, gateway, "olga")
    pages = await browser.run("[...document.querySelectorAll('nav a')].map(a => a.hash)")
    assert "#/configuration" not in pages and "#/keys" not in pages
    await browser.run("location.hash = '#/configuration'")
    await browser.until("document.querySelector('[role=alert]')?.textContent.includes('configure')")


class Served(Gateway):
    """A gateway with a page, in a process of its own, as a service runs it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "sync")
        (folder / "passwords").write_text("\n".join(f"{u}:{CHEAP.hash(u)}" for u in USERS) + "\n")
        (folder / "access.toml").write_text(POLICY)
        files = f'password_file = "{folder}/passwords"\npolicy_file = "{folder}/access.toml"'
        text = self.config.read_text()
        assert "anonymous = true" in text
        self.console_port = free_port()
        console = f"[console]\nport = {self.console_port}\nweb = true\n"
        self.config.write_text(f"{text.replace('anonymous = true', files)}\n{console}")
        self.base = f"http://127.0.0.1:{self.console_port}"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    folder = tmp_path / "served"
    folder.mkdir()
    made = Served(folder)
    await made.start()
    yield made
    if made.is_running:
        made.kill()
        await made.ended()


async def test_what_does_not_come_up_goes_back_and_what_does_stays_and_the_page_says_so(
    browser: Page, served: Served
) -> None:
    first = served.config.read_bytes()
    await log_in(browser, served, "anna")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port, state in ((taken.getsockname()[1], "returned"), (free_port(), "confirmed")):
            await show(browser, "configuration")
            await type_value(browser, "mqtt.port", str(port))
            await browser.until("document.querySelector('[data-do=apply]')")
            await browser.run("document.querySelector('[data-do=apply]').click()")
            await browser.until("document.getElementById('user')")  # it has started anew
            await log_in(browser, served, "anna")
            await browser.run("location.hash = '#/configuration'")
            await browser.until(f"document.querySelector('[data-trial={state}]')")
            told = await browser.run("document.querySelector('[data-trial]').textContent")
            if state == "returned":
                assert "mqtt.port" in told
                assert served.config.read_bytes() == first
    assert tomllib.loads(served.config.read_text())["mqtt"]["port"] == port


async def choose(browser: Page, place: str, file: Path, password: str = "") -> None:
    """Put a file and a password into the form of a place, and look into it."""
    form = f"document.querySelector('[data-place=\"{place}\"]')"
    await browser.until(form)
    data = base64.b64encode(file.read_bytes()).decode()
    await browser.run(
        f"(() => {{ const all = new DataTransfer();"
        f"const data = Uint8Array.from(atob('{data}'), c => c.charCodeAt(0));"
        f"all.items.add(new File([data], '{file.name}'));"
        f"{form}.querySelector('input[type=file]').files = all.files;"
        f"{form}.querySelector('input[type=password]').value = {json.dumps(password)};"
        f"{form}.requestSubmit(); }})()"
    )


async def test_a_store_is_looked_into_and_brought_in_and_a_request_made(
    browser: Page, tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path / "tls")
    data, certificate = fleet.store()
    (tmp_path / "new.p12").write_bytes(data)
    (tmp_path / "bad.p12").write_bytes(data[:100])
    async with page_gateway(tmp_path / "gateway", mqtt=fleet.mqtt) as gateway:
        await log_in(browser, gateway, "anna")
        await show(browser, "keys")
        assert "ends in" in await browser.run("document.querySelector('.plain').textContent")
        await choose(browser, "mqtt-own", tmp_path / "bad.p12", PASSWORD)
        await browser.until("document.querySelector('[data-place=mqtt-own] .error').textContent")
        await choose(browser, "mqtt-own", tmp_path / "new.p12", PASSWORD)
        await browser.until("document.querySelector('[data-do=bring-in]')")
        for width, height, theme in (
            (1280, 900, "light"),
            (768, 1024, "dark"),
            (360, 740, "dark"),
        ):
            await browser.look(width, height, theme)
            await browser.run("Promise.all(document.getAnimations().map(one => one.finished))")
            await picture(browser, f"keys-upload-{width}-{theme}")
            assert await violations(browser) == []
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth")
        await browser.run("document.querySelector('[data-do=bring-in]').click()")
        await browser.until("document.querySelector('main > p.good').textContent")
        assert x509.load_pem_x509_certificates(fleet.certificate.read_bytes()) == [certificate]
        await browser.run("document.getElementById('addresses').value = 'north.lan'")
        await browser.run("document.querySelector('[data-place=request]').requestSubmit()")
        await browser.until("document.querySelector('a[download]')")
        asked = await browser.run(
            "fetch(document.querySelector('a[download]').href).then(r => r.text())"
        )
        assert "BEGIN CERTIFICATE REQUEST" in asked and "PRIVATE" not in asked
        assert await violations(browser) == []
        assert [one["what"] for one in gateway.audit if one["who"] == "console:anna"][-2:] == [
            "certificates brought in",
            "key made and certificate requested",
        ]
