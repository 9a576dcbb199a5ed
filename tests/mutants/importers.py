"""Tells which test files a module can be noticed by, the nearest first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

WITH_PROCESSES = ("tests/conformance", "tests/system", "tests/interop", "tests/limits")
"""Folders whose tests start the whole gateway, which imports what their files do not."""


def test_files_for(module: str, sources: Mapping[str, str]) -> list[str]:
    """Return the paths of the test files that import a module, by the number of imports between.

    Of those that are as near units come first, as they take the least time.

    Args:
        module: path of the module, from the root of the project.
        sources: text of each Python file of the project by its path.
    """
    importers = _importers(sources)
    found: list[str] = []
    seen = {module}
    at_this_distance = [module]
    while at_this_distance:
        nearer = sorted(
            {n for path in at_this_distance for n in importers.get(path, ())} - seen,
            key=lambda path: (not path.startswith("tests/unit/"), path),
        )
        seen.update(nearer)
        found += filter(_is_test_file, nearer)
        at_this_distance = [path for path in nearer if not _is_test_file(path)]
    for folder in WITH_PROCESSES:
        of_folder = (path for path in sorted(sources) if path.startswith(folder + "/"))
        found += (path for path in of_folder if _is_test_file(path) and path not in seen)
    return found


def _is_test_file(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def _importers(sources: Mapping[str, str]) -> dict[str, set[str]]:
    paths = {_dotted(path): path for path in sources}
    # The folders of the tests are on the path, so what tests share is imported by its bare name.
    paths |= {Path(path).stem: path for path in sources if path.startswith("tests/")}
    importers: dict[str, set[str]] = {}
    for path, text in sources.items():
        for name in _imported(ast.parse(text)):
            if (imported := paths.get(name)) is not None and imported != path:
                importers.setdefault(imported, set()).add(path)
    return importers


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_sources(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the texts of files by their paths from the root."""
    return {path: (root / path).read_text() for path in paths}
