"""``/healthz``: whether this gateway can do its work.

That it answers at all shows that its event loop turns.
"""

from __future__ import annotations

from http import HTTPStatus

from gateway.log.message_log import MessageLog
from gateway.process.console.pages import Page

_PLAIN = "text/plain; charset=utf-8"


def page(log: MessageLog) -> Page:
    """200, or 503 with what is wrong."""
    if log.failure:
        text = f"log: {log.failure}\n".encode()
        return Page(_PLAIN, text, HTTPStatus.SERVICE_UNAVAILABLE)
    return Page(_PLAIN, b"ok\n")
