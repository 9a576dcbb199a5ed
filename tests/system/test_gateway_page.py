"""A gateway's page in a browser: what people see and do there, by mouse and keyboard.

With HEDGEROW_PICTURES=DIR a picture of each page is left there.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import json
import logging
import os
from pathlib import Path
from typing import Any, Protocol

import pytest
from chromium import NEEDED, Page
from mqtt_peer import Peer
from page_gateway import USERS, PageGateway, page_gateway

from gateway.base.event_log.audit import AuditTrail
from gateway.mqtt import Version
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.site_asker import SiteAsker, SiteQuestion
from gateway.trust.policy.principal import Principal

pytestmark = [NEEDED, pytest.mark.slow]

HOSTILE = "<img src=x onerror=alert(1)>\"'&lt;/script><script>alert(2)</script>"
SIZES = ((1280, 800), (768, 1024), (360, 740))
FOCUSED = "document.activeElement === document.querySelector('main')"
BEHIND = """[...document.querySelectorAll(".scroll")]
    .filter(one => one.querySelector("button") && one.scrollWidth > one.clientWidth)
    .map(one => one.getAttribute("aria-label"))"""
"""The tables whose buttons one finds by scrolling sideways alone."""
READY = {
    "overview": "document.querySelectorAll('.figures dd').length === 6",
    "tree": "document.querySelector('.outline-tree .node strong')",
    "clients": "document.querySelector('.clients-list .vt-inside .vt-row')",
    "clients/meter-1": "document.querySelector('.facts') && document.querySelector('.plain td')",
    "topics": "document.querySelectorAll('.columns .card').length === 3",
    "sensors": "document.querySelectorAll('.sensor .reading-value').length > 3",
    "sensors/new": "document.getElementById('driver')",
    "sensors/change/pump": "document.getElementById('key-name')",
    "directory": "document.querySelector('.plain td')",
    "directory/keys": "document.querySelector('.crumbs a')",
    "alerts": "document.querySelector('.chip')",
    "log": "document.querySelector('.lines')",
    "policy": "document.querySelectorAll('.role').length > 4",
    "keys": "document.querySelector('.held')",
    "configuration": "document.querySelectorAll('.config-key').length > 5",
}


class HasPage(Protocol):
    """A gateway that has a page."""

    @property
    def base(self) -> str:
        """Its address."""


async def log_in(browser: Page, gateway: HasPage, user: str) -> None:
    await browser.go(f"{gateway.base}/")
    await browser.until("document.activeElement?.id === 'user'")
    await browser.write(user)
    await browser.press("Tab")
    await browser.write(user)
    await browser.press("Enter")
    await browser.until("document.querySelector('nav a')")
    browser.complaints.clear()


async def show(browser: Page, name: str) -> None:
    """Show a page, until it is whole and has the focus: what is typed before would be lost."""
    is_another = await browser.run(f"location.hash !== '#/{name}'")
    await browser.run(f"document.activeElement.blur(); location.hash = '#/{name}'")
    await browser.until(READY[name])
    if is_another:
        await browser.until(FOCUSED)


async def picture(browser: Page, name: str) -> None:
    folder = os.environ.get("HEDGEROW_PICTURES")
    if folder:
        await browser.picture(Path(folder) / f"{name.replace('/', '-')}.png")


async def violations(browser: Page) -> list[str]:
    """Run axe-core beside the page's own policy; return what it finds, by rule and element."""
    pytest.importorskip("axe_core_python", reason="axe-core is not installed")
    if not await browser.run("Boolean(window.axe)"):
        script = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text()
        await browser.run(f"(() => {{ {script}; window.axe = axe; }})()")
    found = await browser.run(
        "axe.run(document, {resultTypes: ['violations']}).then(r => "
        "r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 160))]))"
    )
    return [json.dumps(one) for one in found]


async def test_each_page_fits_each_screen_in_both_themes_and_axe_finds_nothing(
    browser: Page, gateway: PageGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("gateway.test").warning("the card writes slowly")
    meter = await gateway.client("meter-1")
    await meter.subscribe("load/#")
    await meter.publish("hall/temperature", b'{"value": 21.5}', retain=True)
    await gateway.process.parts.readings.add({"type": "switch", "name": "pump"})
    trail = AuditTrail(gateway.folder / "state" / "audit.jsonl")
    trail.append("root", "access.password_file changed", 1.7e9, added=list(USERS))
    await log_in(browser, gateway, "anna")
    found: dict[str, list[str]] = {}
    for width, height in SIZES:
        for theme in ("light", "dark"):
            await browser.look(width, height, theme)
            for name in READY:
                await show(browser, name)
                is_in_width = "document.documentElement.scrollWidth <= innerWidth"
                assert await browser.run(is_in_width), (name, width)
                assert await browser.run(BEHIND) == [], (name, width)
                await picture(browser, f"{name}-{width}-{theme}")
                if wrong := await violations(browser):
                    found[f"{name} {width} {theme}"] = wrong
    assert found == {}
    assert browser.complaints == []


async def test_an_actuator_is_switched_and_a_message_published_and_seen(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "olga")
    await show(browser, "sensors")
    switch = "document.querySelector('[data-name=valve] [role=switch]')"
    await browser.until(f"{switch}?.getAttribute('aria-checked') === 'false'")
    await browser.run(f"{switch}.focus()")
    await browser.press("Enter")
    await browser.until(f"{switch}?.getAttribute('aria-checked') === 'true'")
    await show(browser, "topics")
    await browser.run("document.getElementById('topic').focus()")
    await browser.write("bell/door")
    await browser.press("Tab")
    await browser.write("ding dong")
    await browser.run("document.querySelector('.publish').requestSubmit()")
    await browser.until(
        "[...document.querySelectorAll('.payload')].some(e => e.textContent === 'ding dong')"
    )
    assert browser.complaints == []


async def test_an_alert_is_acknowledged_and_silenced_and_the_silence_ended(
    browser: Page, tmp_path: Path
) -> None:
    off = 'off = ["clock-not-kept", "disk-full", "hot"]'
    more = f"[alerts]\nlook_s = 0.1\ngather_s = 0\nfailed_logins = 3\n{off}\n"
    async with page_gateway(tmp_path / "alerting", more=more) as gateway:
        for _ in range(4):
            peer = Peer(
                *await asyncio.open_connection("127.0.0.1", gateway.process.mqtt_port), Version.V5
            )
            assert await peer.connect("guesser", username="olga", password=b"guess") != 0
        await log_in(browser, gateway, "olga")
        await show(browser, "alerts")
        await browser.until("document.querySelector('.alert.is-open .opener')")
        await browser.run("document.querySelector('.alert .opener').click()")
        await browser.until("document.activeElement.tagName === 'TEXTAREA'")
        await browser.write("on my way")
        await browser.run("document.querySelector('.acknowledge:not([hidden])').requestSubmit()")
        await browser.until("document.querySelector('.alert.is-known .said')")
        said = await browser.run("document.querySelector('.alert .said').textContent")
        assert "olga" in said and "on my way" in said
        await browser.run("document.querySelectorAll('.alert .opener')[1].click()")
        await browser.run("document.querySelector('.acknowledge:not([hidden])').requestSubmit()")
        await browser.until(
            "document.querySelector('[data-tab=silences]').textContent.endsWith('1')"
        )
        await browser.run("document.querySelector('[data-tab=silences]').click()")
        await browser.until("document.querySelector('td button')")
        assert await violations(browser) == []
        await browser.run("document.querySelector('td button').click()")
        await browser.until(
            "document.querySelector('[data-tab=silences]').textContent.endsWith('0')"
        )
        orders = [one["do"] for one in gateway.audit if one["what"] == "order about alerts"]
        assert orders == ["ack", "silence", "unsilence"]
        assert browser.complaints == []


async def test_a_client_is_found_and_disconnected(browser: Page, gateway: PageGateway) -> None:
    clients = [await gateway.client(f"meter-{number}") for number in range(30)]
    await log_in(browser, gateway, "anna")
    await show(browser, "clients")
    await browser.run("document.querySelector('input[type=search]').focus()")
    await browser.write("meter-7")
    await browser.until("document.querySelectorAll('.clients-list .c-id a').length === 1")
    await browser.run("document.querySelector('.clients-list .c-id a').focus()")
    await browser.press("Enter")
    await browser.until("document.querySelector('.sure .opener')")
    await browser.run("document.querySelector('.sure .opener').click()")
    await browser.until("document.activeElement?.className === 'primary'")
    await browser.press("Enter")
    assert await clients[7].next() is not None  # DISCONNECT
    await browser.until("location.hash === '#/clients'")
    told = [one for one in gateway.audit if one["what"] == "client disconnected"]
    assert [(one["who"], one["id"]) for one in told] == [("console:anna", "meter-7")]
    assert browser.complaints == []


async def test_a_viewer_is_shown_nothing_that_it_may_not_do(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "vera")
    pages = await browser.run("[...document.querySelectorAll('nav a')].map(a => a.textContent)")
    assert "Clients" not in pages and "Log" not in pages
    await show(browser, "sensors")
    assert (
        await browser.run("document.querySelectorAll('.sensor button, .sensor input').length") == 0
    )
    await browser.run("location.hash = '#/topics'")
    await browser.until("document.querySelectorAll('.columns .card').length === 2")
    assert await browser.run("document.querySelector('.publish')") is None
    assert browser.complaints == []


async def register(gateway: PageGateway, name: str, owner: str = "anna") -> None:
    """Register a device of this name, as one that has a key would."""
    site = gateway.process.parts.site
    asker = SiteAsker(site.answers(), site.access)
    links = b'</x>;rt="a<b>c</b>"'
    query = (f"ep={name}", "base=coap://192.0.2.9")
    question = SiteQuestion("POST", ("rd",), query, links, content_format=40)
    device = Principal("console", owner, frozenset({"admin"}))
    await asker.good(ApiRequest(device, "", {}, {}, {}), question)


async def test_a_registration_is_searched_and_removed(browser: Page, gateway: PageGateway) -> None:
    await register(gateway, "meter-7", "vera")
    await log_in(browser, gateway, "anna")
    await show(browser, "directory")
    await browser.run("document.querySelector('input[type=search]').focus()")
    await browser.write("ep=meter*")
    await browser.press("Enter")
    await browser.until("document.querySelectorAll('.plain tbody tr').length === 1")
    await browser.run("document.querySelector('td .opener').click()")
    await browser.until("document.activeElement.className === 'primary'")
    await browser.press("Enter")
    await browser.until("document.querySelectorAll('.plain tbody tr').length === 0")
    assert [one["what"] for one in gateway.audit].count("registration removed") == 1
    assert browser.complaints == []


async def test_a_sensor_is_tried_added_changed_and_removed_by_its_form(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "olga")
    await show(browser, "sensors")
    await browser.run("document.querySelector('.title-line a.button').focus()")
    await browser.press("Enter")
    await browser.until("document.getElementById('driver')")
    await choose(browser, "gpio-in")
    await browser.until("document.getElementById('key-pin')?.required")
    await choose(browser, "host")
    await browser.until("document.getElementById('key-interval_s')")
    assert await browser.run("document.getElementById('key-disk')") is None  # names a file
    await choose(browser, "switch")
    await browser.until("document.getElementById('key-name')?.required")
    await browser.run("document.getElementById('key-name').focus()")
    await browser.write("pump")
    await browser.run("document.getElementById('key-interval_s').focus()")
    await browser.write("often")
    await browser.run("document.querySelector('.sensor-form .tools button').click()")
    await browser.until("document.querySelector('.sensor-form .error').textContent")
    said = await browser.run("document.querySelector('.sensor-form .error').textContent")
    assert "interval_s: is no number" in said
    await browser.run("document.getElementById('key-interval_s').value = '5'")
    await browser.run("document.querySelector('.sensor-form .tools button').click()")
    await browser.until("document.querySelector('.tried dd')?.textContent.includes('good')")
    await browser.run("document.querySelector('details').open = true")
    for width, height in SIZES:
        for theme in ("light", "dark"):
            await browser.look(width, height, theme)
            await browser.until("document.getAnimations().length === 0")  # colours fade
            assert await browser.run("document.documentElement.scrollWidth <= innerWidth")
            assert await violations(browser) == [], (width, theme)
            await picture(browser, f"sensor-form-{width}-{theme}")
    await browser.run("document.querySelector('.sensor-form').requestSubmit()")
    await browser.until("document.querySelector('[data-name=pump] a')")
    await browser.run("document.querySelector('[data-name=pump] a').click()")
    await browser.until("document.getElementById('key-interval_s')?.value === '5'")
    await browser.run("document.getElementById('key-interval_s').value = '7'")
    await browser.run("document.querySelector('.sensor-form').requestSubmit()")
    await browser.until("document.querySelector('[data-name=pump] a')")
    await browser.run("document.querySelector('[data-name=pump] a').click()")
    await browser.until("document.getElementById('key-interval_s')?.value === '7'")
    await browser.run("document.querySelector('.sure .opener').click()")
    await browser.until("document.activeElement.className === 'primary'")
    await browser.press("Enter")
    await browser.until("document.querySelectorAll('.sensor .reading-value').length > 3")
    assert await browser.run("document.querySelector('[data-name=pump]')") is None
    done = [one["what"] for one in gateway.audit if one["what"].startswith("sensor ")]
    assert done == ["sensor tried", "sensor added", "sensor changed", "sensor removed"]
    assert browser.complaints == []


async def choose(browser: Page, driver: str) -> None:
    await browser.run(
        f"(() => {{ const s = document.getElementById('driver'); s.value = '{driver}'; "
        "s.dispatchEvent(new Event('change')); })()"
    )


async def test_a_key_is_made_shown_once_as_a_code_and_revoked(
    browser: Page, tmp_path: Path
) -> None:
    psk = tmp_path / "psk"
    psk.touch(mode=0o600)
    coap = f'psk_file = "{psk}"\ndtls_port = 0\n'
    async with page_gateway(tmp_path / "keyed", coap=coap) as gateway:
        await log_in(browser, gateway, "anna")
        await show(browser, "directory")
        await browser.run("document.querySelector('.title-line a.button').click()")
        # The page is whole, and has moved the focus to where it begins.
        await browser.until("document.body.innerText.includes('No device has a key')")
        await browser.until(FOCUSED)
        await browser.run("document.getElementById('identity').focus()")
        await browser.write("meter-7")
        await browser.until("document.getElementById('identity').value === 'meter-7'")
        await browser.press("Enter")
        await browser.until("document.querySelector('.qr svg path')")
        assert await browser.run("document.activeElement.textContent") == "The key of meter-7"
        assert len(await browser.run("document.querySelector('.new-key code').textContent")) == 64
        drawn = "document.querySelector('.qr svg path').getBoundingClientRect()"
        assert await browser.run(f"{drawn}.width") > 200 < await browser.run(f"{drawn}.height")
        for width, height in SIZES:
            for theme in ("light", "dark"):
                await browser.look(width, height, theme)
                await browser.until("document.getAnimations().length === 0")  # colours fade
                assert await browser.run("document.documentElement.scrollWidth <= innerWidth")
                assert await violations(browser) == [], (width, theme)
                await picture(browser, f"device-keys-{width}-{theme}")
        await browser.run("document.querySelector('.new-key button').click()")
        await browser.until("document.querySelector('.qr') === null")
        await show(browser, "directory")
        await browser.run("location.hash = '#/directory/keys'")
        await browser.until("document.querySelector('td .opener')")
        assert await browser.run("document.querySelector('.qr')") is None
        await browser.run("document.querySelector('td .opener').click()")
        await browser.until("document.activeElement?.className === 'primary'")
        await browser.press("Enter")
        await browser.until("document.querySelectorAll('.plain tbody tr').length === 0")
        done = [one["what"] for one in gateway.audit if one["what"].startswith("device key")]
        assert done == ["device key made", "device key revoked"]
        assert browser.complaints == []


async def test_what_a_driver_and_an_identity_are_called_is_text(
    browser: Page, tmp_path: Path
) -> None:
    psk = tmp_path / "psk"
    psk.touch(mode=0o600)
    identity = HOSTILE.replace(" ", "/")
    psk.write_text(f"{identity}:{'ab' * 16}\n")
    coap = f'psk_file = "{psk}"\ndtls_port = 0\n'
    async with page_gateway(tmp_path / "keyed", coap=coap) as gateway:
        await gateway.process.parts.readings.add(
            {"type": "switch", "name": "pump", "attributes": {"position": HOSTILE[:60]}}
        )
        await log_in(browser, gateway, "anna")
        await browser.run("location.hash = '#/directory/keys'")
        await browser.until("document.querySelector('.plain td')")
        assert await browser.run("document.querySelector('.plain td').textContent") == identity
        await browser.run("document.querySelector('td .opener').click()")
        await browser.until("document.querySelector('.sure .primary')")
        await browser.run("location.hash = '#/sensors/change/pump'")
        await browser.until("document.getElementById('key-attributes')")
        assert await browser.run("document.querySelector('details').open")
        for made in ("<img src=x>", "%3Cimg%20src=x%3E", "..%2F..%2Fme"):
            await browser.run(f"location.hash = {json.dumps(f'#/sensors/change/{made}')}")
            await browser.until("document.querySelector('main .error')?.textContent")
        assert await browser.run("document.querySelectorAll('main img, main script').length") == 0
        assert await violations(browser) == []


async def test_log_audit_trail_bundle_and_an_explanation_are_had(
    browser: Page, gateway: PageGateway
) -> None:
    await log_in(browser, gateway, "olga")
    await show(browser, "log")
    logging.getLogger("gateway.test").warning("an owl has landed")
    await browser.until("document.querySelector('.lines').textContent.includes('an owl')")
    await browser.run("document.querySelector('input[type=search]').focus()")
    await browser.write("badger")
    await browser.until("!document.querySelector('.lines').textContent.includes('an owl')")
    logging.getLogger("gateway.test").warning("a badger digs")
    await browser.until("document.querySelector('.lines').textContent.includes('a badger')")
    bundle = await browser.run(
        "fetch(document.querySelector('a.button').href).then(r => [r.status, r.headers.get("
        "'Content-Disposition')])"
    )
    assert bundle == [200, 'attachment; filename="support-gw.tar.gz"']
    await browser.run("document.querySelector('[data-tab=audit]').click()")
    await browser.until("document.querySelector('.plain').textContent.includes('logged in')")
    assert await violations(browser) == []
    await show(browser, "policy")
    await browser.run("document.getElementById('who').value = 'console:vera'")
    await browser.run("document.getElementById('action').value = 'PUT /sensors/valve'")
    await browser.run("document.querySelector('.question').requestSubmit()")
    await browser.until("document.querySelector('.question strong')?.textContent === 'denied'")
    assert browser.complaints == []


async def test_what_strangers_chose_is_text_wherever_it_is_shown(
    browser: Page, gateway: PageGateway
) -> None:
    client = await gateway.client(HOSTILE)
    await client.subscribe(f"{HOSTILE}/x")
    await client.publish(f"evil/{HOSTILE}", HOSTILE.encode(), retain=True)
    await register(gateway, HOSTILE[:60])
    await log_in(browser, gateway, "anna")
    for name in ("overview", "clients", "topics", "log", "policy", "directory"):
        await show(browser, name)
    await browser.until("document.querySelectorAll('.plain tbody tr').length === 2")
    assert HOSTILE[:60] in await browser.run("document.querySelector('.plain').textContent")
    await show(browser, "clients")
    shown = "document.querySelector('.clients-list .c-id a').textContent"
    assert await browser.run(shown) == HOSTILE
    await browser.run("document.querySelector('.clients-list .c-id a').click()")
    await browser.until(f"document.querySelector('h1')?.textContent === {json.dumps(HOSTILE)}")
    assert await browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert browser.complaints == []


async def test_a_wrong_password_is_told_and_a_session_that_ends_asks_again(
    browser: Page, gateway: PageGateway
) -> None:
    await browser.go(f"{gateway.base}/")
    await browser.until("document.activeElement?.id === 'user'")
    await browser.write("anna")
    await browser.press("Tab")
    await browser.write("wrong")
    await browser.press("Enter")
    await browser.until("document.querySelector('.error').textContent.includes('is wrong')")
    assert await violations(browser) == []
    await log_in(browser, gateway, "anna")
    (gateway.folder / "passwords").write_text("")
    await gateway.process.reload()
    await browser.until("document.querySelector('.login')")


async def test_the_pages_are_walked_by_keyboard(browser: Page, gateway: PageGateway) -> None:
    await log_in(browser, gateway, "anna")
    await browser.run("document.querySelector('nav a[href=\"#/tree\"]').focus()")
    await browser.press("Enter")
    await browser.until(READY["tree"])
    assert await browser.run("document.activeElement.id") == "main"
    said: Any = await browser.run("document.getElementById('said').textContent")
    assert said == "Tree · gw"
