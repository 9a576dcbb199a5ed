"""Files of a page, and its modules as one script.

A browser asks for one script in place of twenty modules, of which it learns only as it reads those
that import them. The components that pages have in common stand here, in ``static``; a page's own
modules import them as if they stood beside. So does the document that they stand in, unless a page
has one of its own.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping
from typing import Final

FIRST: Final = "app.js"
"""The module that a page begins with."""
SHARED: Final = "gateway.web"
"""The package whose files all pages have."""
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_IMPORT: Final = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)
_OWN: Final = f'<script src="{FIRST}" type="module"></script>'


def page_files(package: str) -> dict[str, bytes]:
    """Return what a page consists of, by path: its own files, and those that all pages have.

    Args:
        package: whose folder ``static`` has the page's own files, and perhaps a folder ``vendor``.

    """
    found: dict[str, bytes] = {}
    for name in (SHARED, package):
        root = importlib.resources.files(name) / "static"
        found |= {each.name: each.read_bytes() for each in root.iterdir() if each.is_file()}
    vendor = root / "vendor"
    if vendor.is_dir():
        found |= {f"vendor/{each.name}": each.read_bytes() for each in vendor.iterdir()}
    return found


def content_type(path: str) -> str:
    """Return the media type of a static file."""
    return TYPES.get(path[path.rfind(".") :], "application/octet-stream")


def served_files(package: str, script: str) -> dict[str, bytes]:
    """Return what a server has, by path: the page asks for one script, and modules stay there.

    Args:
        package: as of `page_files`.
        script: what that script is called.

    """
    files = page_files(package)
    index = with_scripts(files["index.html"].decode(), script)
    return files | {"index.html": index.encode(), script: bundled(files).encode()}


def with_scripts(index: str, *scripts: str) -> str:
    """Return a page's first document with scripts, in this order, in place of its modules."""
    assert _OWN in index
    return index.replace(
        _OWN, "\n".join(f'<script src="{name}" defer></script>' for name in scripts)
    )


def is_module(name: str) -> bool:
    """Return whether a file of a page is a module of its script."""
    return name.endswith(".js") and "/" not in name and name != "theme.js"


def bundled(files: Mapping[str, bytes]) -> str:
    """Return a page's modules as one script: each runs once, before those that import from it.

    Args:
        files: of the page, by path; its modules import names, a line each, and export functions
            and constants. `FIRST` runs last.

    """
    modules = {name: body.decode() for name, body in files.items() if is_module(name)}
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = modules[name]
        done[name] = ""
        for needed in _IMPORT.findall(source):
            add(needed[1])
        exported = ", ".join(_EXPORT.findall(source))
        body = _EXPORT.sub("", _IMPORT.sub(r'const { \1 } = modules["\2"];\n', source))
        del done[name]
        done[name] = f'modules["{name}"] = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n'

    add(FIRST)
    return '"use strict";\nconst modules = {};\n' + "\n".join(done.values())
