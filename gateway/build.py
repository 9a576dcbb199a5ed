"""Which version and build runs: the sources as they stand, or what mypyc made of the hot ones."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import PurePath
from typing import Literal

Build = Literal["compiled", "interpreted"]

HOT_MODULE = "tree_handler.batch"
"""Every message passes it; one wheel holds all hot modules compiled, or none."""


@cache
def version() -> str:
    """Return the version that is installed, such as ``0.1.0``; it is looked up once."""
    from importlib import metadata  # noqa: PLC0415  # a reader of mail, for most commands of no use

    return metadata.version("hedgerow")


def running() -> Build:
    """Which build this process has."""
    spec = find_spec(HOT_MODULE)
    return build_of((spec and spec.origin) or "")


def build_of(module_file: str) -> Build:
    """Which build a module is of, by its file.

    Args:
        module_file: as a module's ``__file__`` has it, such as ``.../batch.py`` or
            ``.../batch.cpython-311-x86_64-linux-gnu.so``.

    """
    return "compiled" if PurePath(module_file).suffix == ".so" else "interpreted"
