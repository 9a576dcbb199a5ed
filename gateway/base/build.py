"""Version and build that run: the sources as they stand, or what mypyc made of the hot ones."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import PurePath
from typing import Final, Literal

VERSION: Final = "0.2.0"
"""Of this release; pyproject.toml reads it here, so that no start reads a package's metadata."""

Build = Literal["compiled", "interpreted"]

HOT_MODULE = "tree_handler.batch"
"""Every message passes it; one wheel holds all hot modules compiled, or none."""


def running() -> Build:
    """Return which build this process has."""
    spec = find_spec(HOT_MODULE)
    return build_of((spec and spec.origin) or "")


def build_of(module_file: str) -> Build:
    """Return which build a module is of, by its file.

    Args:
        module_file: as a module's ``__file__`` has it, such as ``.../batch.py`` or
            ``.../batch.cpython-311-x86_64-linux-gnu.so``.

    """
    return "compiled" if PurePath(module_file).suffix == ".so" else "interpreted"
