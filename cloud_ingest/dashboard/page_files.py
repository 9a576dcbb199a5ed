"""Files of the dashboard's page."""

from __future__ import annotations

from typing import Final

from gateway.web import page_files

PACKAGE: Final = "cloud_ingest.dashboard"
SCRIPT: Final = "dashboard.js"
"""All modules as one script."""


def static_files() -> dict[str, bytes]:
    """Return the files of the page, by path."""
    return page_files.page_files(PACKAGE)


def served_files() -> dict[str, bytes]:
    """Return what a server has, by path."""
    return page_files.served_files(PACKAGE, SCRIPT)
