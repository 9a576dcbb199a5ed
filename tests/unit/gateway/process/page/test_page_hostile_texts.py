"""Whatever text is sent to the page is text: in files, logs, headers, answers and the audit trail.

Goal: of every route each name in its path, each parameter and each field of its body takes hostile
texts, from a stranger, a viewer and an administrator. None is an error of the gateway, makes a file
of its own, or comes out as anything but JSON.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import by_seed
import pytest
from certificate_fleet import Fleet
from page_gateway import Looker, PageGateway, looker, page_gateway

from gateway.base.event_log.lines import LineFormatter
from gateway.process.page import face
from gateway.process.page.fields import COUNT, FLAG, LIST, NUMBER, TABLE, Field
from gateway.process.page.routes import ROUTES, ApiRoute
from gateway.web.browser_rules import headers

TEXTS: Final = (
    "../../../../../etc/passwd",
    "..",
    "/",
    "//etc//passwd",
    "a/../../b",
    "C:\\autoexec.bat",
    "gw\r\nSet-Cookie: stolen=1\r\n\r\n<html>",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe",
    "\u2028{\u2029",
    "nul\0byte",
    "$(reboot)`reboot`;reboot|reboot&reboot",
    "'; DROP TABLE users; --",
    "%s%n%d{0}{visitor.__class__}",
    "--config=/etc/shadow",
    "#",
    "+/#",
    "$SYS/broker",
    "$hedgerow/tree",
    "console:anna",
    "*" * 200,
    "\U0001d54f" * 300,
    "x" * 1_000,
    " ",
)
ENDS_ITS_SESSION: Final = ("log_out",)
DRAWN: Final = 9
"""So many texts stand in each field in CI, others in each commit; with --soak all of them."""


def filled(field: Field, text: str) -> Any:
    """Return a value of a field's kind that holds a text."""
    if field.kind in (NUMBER, COUNT):
        return field.least or 1
    if field.kind == FLAG:
        return True
    if field.kind == LIST:
        return [text, f'gateway.domain="{text}"']
    if field.kind == TABLE:
        return {text: text, "rule": text}
    return text


def requests(route: ApiRoute, text: str) -> Iterator[tuple[str, Any]]:
    """Yield a path and a body: with the text in all fields, and in those alone that must be."""
    path = "/".join(
        quote(text, safe="") if segment.startswith("{") else segment
        for segment in route.path[1:].split("/")
    )
    for of in (
        (*route.query, *route.body),
        [f for f in (*route.query, *route.body) if f.is_needed],
    ):
        query = {f.name: filled(f, text) for f in route.query if f in of and f.name != "wait_s"}
        body = {f.name: filled(f, text) for f in route.body if f in of}
        where = f"{path}?{urlencode(query)}" if query else path
        yield where, body if route.method != "GET" else None


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PageGateway]:
    for limit in ("REQUESTS_PER_S", "REQUESTS_AT_ONCE", "STRANGERS_PER_S", "STRANGERS_AT_ONCE"):
        monkeypatch.setattr(face, limit, 1_000_000)
    fleet = Fleet(tmp_path / "tls")
    psk = tmp_path / "psk"
    psk.touch(mode=0o600)
    coap, more = f'psk_file = "{psk}"\ndtls_port = 0\n', "[alerts]\nenabled = true\n"
    async with page_gateway(tmp_path / "gateway", mqtt=fleet.mqtt, coap=coap, more=more) as made:
        yield made


def names(folder: Path) -> set[str]:
    """Return the files below a folder, but for what the gateway itself writes as it runs."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


async def asked(at: Looker, route: ApiRoute, path: str, body: Any) -> tuple[int, bytes]:
    sent = {"X-Hedgerow-CSRF": at.csrf, "Content-Type": "application/json"}
    async with at.session.request(
        route.method,
        f"{at.base}/api/v1/{path}",
        data=None if body is None else json.dumps(body),
        headers=sent,
        allow_redirects=False,
    ) as answer:
        told = await answer.read()
        assert answer.content_type in ("application/json", route.answer), (path, told)
        assert headers(is_secure=False).items() <= dict(answer.headers).items()
        if "Set-Cookie" in answer.headers:
            assert answer.headers["Set-Cookie"].startswith("hedgerow_")
        if answer.content_type == "application/json":
            json.loads(told)
        return answer.status, told


def is_plain(text: str) -> bool:
    """Return whether a terminal shows all of a text, and as it stands."""
    return not any(unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") for one in text)


@pytest.mark.slow
@pytest.mark.parametrize("user", ["", "vera", "anna"], ids=["stranger", "viewer", "administrator"])
async def test_hostile_texts_are_texts(
    gateway: PageGateway,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    pytestconfig: pytest.Config,
    user: str,
) -> None:
    before, texts = names(tmp_path), by_seed.some(pytestconfig, TEXTS, DRAWN)
    async with looker(gateway, user) as visitor:
        for route in ROUTES:
            if route.operation in ENDS_ITS_SESSION:
                continue
            for text in texts:
                for path, body in requests(route, text):
                    status, told = await asked(visitor, route, path, body)
                    assert status < 500, (route.operation, text, told)
                    if not user and not route.is_open:
                        assert status in (400, 401, 404, 405), (route.operation, text, told)
                    if user == "vera" and route.change and route.operation != "change_own_password":
                        assert status in (400, 403, 404, 405, 409), (route.operation, text, told)
    made = {name for name in names(tmp_path) - before if not name.startswith("gateway/state/")}
    assert not made
    for line in (gateway.folder / "state" / "audit.jsonl").read_text().split("\n")[:-1]:
        assert is_plain(line), line
        json.loads(line)
    lines = LineFormatter()
    assert all(is_plain(line) for one in caplog.records for line in lines.format(one).split("\n"))
