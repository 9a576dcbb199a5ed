"""Pages of plain text: what the console has (``/``), whether its gateway works (``/healthz``)."""

from __future__ import annotations

from http import HTTPStatus

from gateway.base import build
from gateway.log.message_log import MessageLog
from gateway.process.console.pages import Page

_PLAIN = "text/plain; charset=utf-8"
_PAGES = """
/healthz   whether this gateway can do its work
/metrics   what it counts, for Prometheus
"""


def contents() -> Page:
    """Return the other pages, a line each."""
    return Page(_PLAIN, f"Hedgerow {build.VERSION}\n{_PAGES}".encode())


def health(log: MessageLog) -> Page:
    """Return 200, or 503 with what is wrong.

    That there is an answer at all shows that the event loop turns.
    """
    if log.failure:
        text = f"log: {log.failure}\n".encode()
        return Page(_PLAIN, text, HTTPStatus.SERVICE_UNAVAILABLE)
    return Page(_PLAIN, b"ok\n")
