"""Which build runs is told by the file that a hot module was loaded from."""

from __future__ import annotations

import ast
import os
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from gateway import build, cli
from gateway.mqtt import publish
from tree_handler import batch

PROJECT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("/x/tree_handler/batch.py", "interpreted"),
        ("/x/tree_handler/batch.cpython-311-x86_64-linux-gnu.so", "compiled"),
        ("/x/tree_handler/batch.cpython-313-aarch64-linux-gnu.so", "compiled"),
        ("", "interpreted"),
    ],
)
def test_a_build_is_known_by_the_file_of_a_module(file: str, told: str) -> None:
    assert build.build_of(file) == told


def test_what_is_told_is_what_runs() -> None:
    assert build.running() == build.build_of(batch.__file__) == build.build_of(publish.__file__)


def test_version_says_which_build_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.endswith(f" ({build.running()})\n")


def compiled_sources() -> set[Path]:
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hedgerow"]["compiled"]
    found = {
        path
        for name in table["sources"]
        for path in ([PROJECT / name] if name.endswith(".py") else (PROJECT / name).rglob("*.py"))
        if path.name != "__init__.py"
    }
    return found - {PROJECT / name for name in table["interpreted"]}


def test_each_module_that_runs_is_of_the_build_that_was_asked_for() -> None:
    asked = os.environ.get("HEDGEROW_BUILD", "interpreted")
    assert build.running() == asked
    for path in compiled_sources():
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert build.build_of(spec.origin) == asked, spec.origin


def test_what_stays_interpreted_is_there_and_has_a_reason() -> None:
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hedgerow"]["compiled"]
    for name, reason in table["interpreted"].items():
        assert (PROJECT / name).is_file()
        assert len(reason) > 20


def is_left_while_it_runs(block: list[ast.stmt]) -> bool:
    leaves = ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield | ast.YieldFrom
    return any(isinstance(node, leaves) for statement in block for node in ast.walk(statement))


def test_what_is_compiled_neither_waits_nor_yields_while_it_handles_an_exception() -> None:
    """All compiled coroutines share the exception that is handled: see decision 0018."""
    wrong = [
        f"{path.relative_to(PROJECT)}:{block[0].lineno}"
        for path in sorted(compiled_sources())
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Try)
        for block in (*(handler.body for handler in node.handlers), node.finalbody)
        if is_left_while_it_runs(block)
    ]
    assert wrong == []


def caught_as(function: ast.AST) -> dict[str, set[str]]:
    """The types of exceptions that a function calls by each name."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type:
            found.setdefault(node.name, set()).add(ast.unparse(node.type))
    return found


def test_in_what_is_compiled_a_name_stands_for_exceptions_of_one_type() -> None:
    """A second one is a TypeError there, and what was to be handled is not: see decision 0018."""
    wrong = [
        f"{path.relative_to(PROJECT)}:{node.lineno}: {name} is {types}"
        for path in sorted(compiled_sources())
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name, types in caught_as(node).items()
        if len(types) > 1
    ]
    assert wrong == []
