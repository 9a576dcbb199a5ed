"""`hedgerow keys` for tests: an authority's folder, and certificates in it."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.tools import cli

HEDGEROW = [sys.executable, "-m", "gateway.tools.cli"]


def keys(*arguments: str | Path) -> None:
    """Run `hedgerow keys`, which has to work out."""
    assert cli.main(["keys", *map(str, arguments)]) == 0


def issue(folder: Path, *names: str, role: str = "gateway") -> None:
    """Issue certificates; the authority is made if it is not there."""
    if not (folder / "ca.pem").exists():
        keys("init-ca", "--ca", folder)
    keys("issue", "--ca", folder, "--role", role, *names)
