"""Tells which test files a module can be noticed by, the nearest first."""

from __future__ import annotations

import ast
import io
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

WITH_PROCESSES = ("tests/conformance", "tests/system", "tests/interop", "tests/limits")
"""Folders whose tests start the whole gateway, which imports what their files do not."""

READ_SOURCES = ("tests/unit/deploy/test_limits_page.py",)
"""Test files that read the sources of all modules of the product, and import none."""
FILES_AT_FIRST = 4
FILES_AT_ONCE = 12
"""The number of test files that one call of pytest gets: a start of it costs some seconds."""
_NEAREST = 8
"""So many of the nearest come before those that are named after the module."""
_WORDS = re.compile(r"[a-z0-9]+")
_STEM = 6
"""So many letters of a word count: of `messages` and `messaging` all."""
_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+")


def test_files_for(
    module: str, paths: Iterable[str], importers: Mapping[str, set[str]]
) -> list[str]:
    """Return the paths of the test files that import a module, by the number of imports between.

    Of those that are as near units come first, as they take the least time, and before the others
    those whose names have most words of the module's path; so it is with those of whole gateways.
    Behind the nearest come those that read all sources, and those that are named after the module,
    wherever they are: what a command does is seen by the tests of its process.

    Args:
        module: path of the module, from the root of the project.
        paths: of all Python files of the project.
        importers: who imports each file, see `importers_of`.
    """
    found: list[str] = []
    seen = {module}
    at_this_distance = [module]
    while at_this_distance:
        nearer = sorted(
            {n for path in at_this_distance for n in importers.get(path, ())} - seen,
            key=lambda path: (
                not path.startswith("tests/unit/"),
                -_words_shared(path, module),
                path,
            ),
        )
        seen.update(nearer)
        found += filter(_is_test_file, nearer)
        at_this_distance = [path for path in nearer if not _is_test_file(path)]
    for folder in WITH_PROCESSES:
        of_folder = (path for path in paths if path.startswith(folder + "/"))
        found += sorted(
            (path for path in of_folder if _is_test_file(path) and path not in seen),
            key=lambda path: (-_words_shared(path, module), path),
        )
    nearest, others = found[:_NEAREST], found[_NEAREST:]
    nearest += [path for path in READ_SOURCES if path in paths and path not in nearest]
    others = [path for path in others if path not in nearest]
    return nearest + sorted(others, key=lambda path: not _is_named_after(path, module))


def in_portions(files: Sequence[str]) -> list[list[str]]:
    """Return test files in portions for one call of pytest each, few in the first one."""
    starts = [0, *range(FILES_AT_FIRST, len(files), FILES_AT_ONCE)]
    ends = [*starts[1:], len(files)]
    portions = [[*files[start:end]] for start, end in zip(starts, ends, strict=True)]
    return [portion for portion in portions if portion]


def _is_named_after(path: str, module: str) -> bool:
    return _stems(Path(module).stem) <= _stems(Path(path).stem)


def _words_shared(path: str, module: str) -> int:
    return len(_stems(path) & _stems(module) - {"py"})


def _stems(path: str) -> set[str]:
    return {word[:_STEM] for word in _WORDS.findall(path)}


def _is_test_file(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def importers_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the paths of the files that import each file, or name its module in a text of theirs.

    So do tests that start it as a program, and those that go through a table of modules.

    Args:
        sources: text of each Python file of the project by its path.
    """
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
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (named := _DOTTED.match(node.value)) is not None
        ):
            yield named[0]


def read_sources(archive: bytes) -> dict[str, str]:
    """Return the texts of the Python files of a tar archive by their paths."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return {
            member.name: file.read().decode()
            for member in members
            if member.name.endswith(".py") and (file := members.extractfile(member)) is not None
        }
