"""``/``: what the console has."""

from __future__ import annotations

from gateway.base import build
from gateway.process.console.pages import Page

_PAGES = """
/healthz   whether this gateway can do its work
/metrics   what it counts, for Prometheus
"""


def page() -> Page:
    """The other pages, a line each."""
    return Page("text/plain; charset=utf-8", f"Hedgerow {build.VERSION}\n{_PAGES}".encode())
