"""The form behind a link in a mail: it names the alert, and only its button does anything."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
import pytest

from alerts.record import AlertRecord
from alerts.text import stamp
from gateway.process.console import ack_form
from gateway.process.console.pages import Page

HOT = AlertRecord(
    alert="gw-a/hot//1",
    change="raised",
    rule="hot",
    gateway="gw-a",
    part="",
    severity="warning",
    since_us=1_795_829_400_000_000,
    at_us=1_795_829_401_000_000,
    message="85 degrees <b>&",
    value=85.0,
    what_to_do="look at the fan",
)


def shows(page: Page, text: str) -> bool:
    return text in page.body.decode()


def test_the_form_tells_the_alert_and_has_one_button() -> None:
    page = ack_form.form(HOT)
    assert page.status is HTTPStatus.OK
    assert page.content_type == "text/html; charset=utf-8"
    assert shows(page, "<title>Take an alert on</title>")
    assert shows(page, "<h1>hot (warning): gw-a</h1>")
    assert shows(page, "<p>85 degrees &lt;b&gt;&amp;</p>")
    assert shows(page, f"<p>since {stamp(HOT.since_us)}</p>")
    assert shows(page, "<p>what to do: look at the fan</p>")
    assert page.body.count(b"<button>") == page.body.count(b'<form method="post">') == 1


def test_a_part_of_the_gateway_is_named_behind_it() -> None:
    told = msgspec.structs.replace(HOT, part="hall/<temperature>")
    assert shows(ack_form.form(told), "<h1>hot (warning): gw-a, hall/&lt;temperature&gt;</h1>")


@pytest.mark.parametrize("status", [HTTPStatus.OK, HTTPStatus.GONE])
def test_a_page_that_says_one_thing_has_no_button(status: HTTPStatus) -> None:
    page = ack_form.said("it is <over>", status)
    assert page.status is status
    assert shows(page, "<p>it is &lt;over&gt;</p>")
    assert b"<button" not in page.body


def test_neither_runs_a_script_nor_tells_another_site_of_the_link() -> None:
    for page in (ack_form.form(HOT), ack_form.said("done")):
        assert page.headers["Referrer-Policy"] == "no-referrer"
        policy = page.headers["Content-Security-Policy"].split("; ")
        assert policy == [
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ]
        assert shows(page, '<meta name="robots" content="noindex">')
