"""Files, folders and modules that pages and docstrings name are there; a page names each table.

Decisions and the change log tell of their day, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from cloud_ingest.tables import registry

PROJECT = Path(__file__).parents[2]
ARCHITECTURE = PROJECT / "docs" / "architecture.md"
PAGES = (
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *sorted((PROJECT / "docs").glob("*.md")),
)
FOLDERS = (
    *("gateway", "tree_handler", "dtls", "resource_directory", "coap_engine", "cloud_ingest"),
    *("record_formats", "alerts", "light_dataclasses", "tests", "deploy", "docs", "benchmarks"),
)
MADE_BY_READERS = frozenset(("deploy/ansible/relay", "module.py", "soil.py"))
"""Keys that a playbook fetches, and drivers that somebody writes."""
OF_OTHERS = frozenset(("websockets",))
PACKAGES = FOLDERS[: FOLDERS.index("tests")]
CORES = "## Cores and shells\n"
_NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?|\w[\w/]*\.py)`")
_FULL_NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+){{2,}})`")
_IN_A_CELL = re.compile(r"`([a-z_]+(?:/[a-z_]+)*)`")


@cache
def places() -> frozenset[str]:
    """Return each file and folder of the tree by every end of its path, modules bare as well."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in (PROJECT / folder, *(PROJECT / folder).rglob("*")):
            parts = path.relative_to(PROJECT).parts
            for start in range(len(parts)):
                end = "/".join(parts[start:])
                found |= {end, end.removesuffix(".py")}
    return frozenset(found)


def cells(page: str) -> Iterator[str]:
    """Yield what stands in backticks in the table of cores and shells."""
    table = page.partition(CORES)[2].partition("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield from _IN_A_CELL.findall(line)


def test_each_file_that_a_page_names_is_there() -> None:
    named = [
        (page.name, name.rstrip("/")) for page in PAGES for name in _NAMED.findall(page.read_text())
    ]
    assert len(named) > len(PAGES)
    assert [one for one in named if one[1] not in places() | MADE_BY_READERS] == []


def test_each_core_and_each_shell_is_there() -> None:
    named = list(cells(ARCHITECTURE.read_text()))
    assert len(named) > ARCHITECTURE.read_text().count("| `") // 2
    assert sorted(set(named) - places() - OF_OTHERS) == []


def test_what_a_docstring_names_by_its_full_name_is_there() -> None:
    sources = [path for folder in PACKAGES for path in sorted((PROJECT / folder).rglob("*.py"))]
    named = [(path.name, name) for path in sources for name in _FULL_NAME.findall(path.read_text())]
    assert len(named) > len(PACKAGES)
    assert [one for one in named if not is_there(one[1])] == []


def is_there(name: str) -> bool:
    """Return whether a name is that of a module or package, or of what one defines itself."""
    path = PROJECT
    parts = name.split(".")
    while parts and (path / parts[0]).is_dir():
        path /= parts.pop(0)
    if not parts:
        return True
    module = path / f"{parts[0]}.py"
    source = (module if module.is_file() else path / "__init__.py").read_text()
    rest = parts[1:] if module.is_file() else parts
    defined = re.findall(r"^\s*(?:(?:async )?def |class |self\.)?(\w+)\s*[:=(\[]", source, re.M)
    return set(rest) <= set(defined)


def test_a_page_names_each_table_that_there_is() -> None:
    told = "".join(page.read_text() for page in PAGES)
    assert [name for name in registry.NAMES if f"`{name}`" not in told] == []
