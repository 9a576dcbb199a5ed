"""The files that mypyc compiles, as pyproject.toml names them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

PROJECT = Path(__file__).parents[1]


def compiled_sources() -> set[Path]:
    """Without those that stay interpreted."""
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hedgerow"]["compiled"]
    found = {
        path
        for name in table["sources"]
        for path in ([PROJECT / name] if name.endswith(".py") else (PROJECT / name).rglob("*.py"))
        if path.name != "__init__.py"
    }
    return found - {PROJECT / name for name in table["interpreted"]}


def is_compiled(module: ModuleType) -> bool:
    """Return whether the tests run on what mypyc has made of a module."""
    return (module.__file__ or "").endswith(".so")
