"""Form behind a link in a mail: it takes an alert on. Only its button changes anything.

Programs that look for malice in mails follow links with GET. A page of another site can't press
the button: it does not know the link. A browser tells nobody of it (``Referrer-Policy``).
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final

from alerts.record import AlertRecord
from alerts.text import plain, stamp
from gateway.process.console.pages import Page

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
}
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:1.1rem system-ui,sans-serif;max-width:34rem;"
    "margin:2rem auto;padding:0 1rem}button{font:inherit;padding:.6rem 1.2rem}"
)


def form(alert: AlertRecord) -> Page:
    """Return the form of an alert that nobody has taken on."""
    about = f"{alert.gateway}, {alert.part}" if alert.part else alert.gateway
    shown = (
        f"<h1>{_text(alert.rule)} ({_text(alert.severity)}): {_text(about)}</h1>"
        f"<p>{_text(alert.message)}</p><p>since {stamp(alert.since_us)}</p>"
        f"<p>what to do: {_text(alert.what_to_do)}</p>"
        '<form method="post"><button>Take it on</button></form>'
    )
    return _page("Take an alert on", shown, HTTPStatus.OK)


def said(text: str, status: HTTPStatus = HTTPStatus.OK) -> Page:
    """Return a page that says one thing."""
    return _page("Alert", f"<p>{_text(text)}</p>", status)


def _page(title: str, shown: str, status: HTTPStatus) -> Page:
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><meta name="robots" content="noindex">'
        f"<style>{_STYLE}</style><main>{shown}</main></html>\n"
    )
    return Page("text/html; charset=utf-8", body.encode(), status, _HEADERS)


def _text(text: str) -> str:
    return escape(plain(text))
