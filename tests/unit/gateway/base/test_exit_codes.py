"""An exit code means one thing, whichever command ends with it."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.commands.parser import subcommands

PROJECT = Path(__file__).parents[4]
OWNER = PROJECT / "gateway" / "base/exit_codes.py"
SOURCES = sorted(
    path
    for package in (
        "gateway",
        "cloud_ingest",
        "tree_handler",
        "resource_directory",
        "dtls",
        "alerts",
    )
    for path in (PROJECT / package).rglob("*.py")
    if path != OWNER
)
COMMANDS = (
    *(PROJECT / "gateway" / "tools/commands").glob("*.py"),
    *(PROJECT / "cloud_ingest").rglob("command.py"),
    PROJECT / "gateway" / "tools/system_image" / "__main__.py",
    PROJECT / "gateway" / "tools/cli.py",
    PROJECT / "cloud_ingest" / "job" / "java.py",
)
"""Files whose functions return the exit code of a process."""


def parsers(
    parser: argparse.ArgumentParser, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command, and every command of a command."""
    yield name, parser
    for word, below in subcommands(parser).items():
        yield from parsers(below, (*name, word))


EVERY = list(parsers(cli.command_line()))


def numbers(tree: ast.AST) -> Iterator[int]:
    """Lines where a number stands for an exit code: returned, or given a name of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Return):
            values = (
                [node.value]
                if not isinstance(node.value, ast.IfExp)
                else [*(node.value.body, node.value.orelse)]
            )
            if any(
                isinstance(one, ast.Constant) and type(one.value) is int and one.value
                for one in values
            ):
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and _is_exit(node.func)
            and any(isinstance(one, ast.Constant) and one.value for one in node.args[:1])
        ):
            yield node.lineno


def _is_exit(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("exit", "_exit", "SystemExit", "_fail")


def test_each_code_has_a_meaning_and_each_meaning_a_code_of_its_own() -> None:
    codes = {
        name: value
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int)
    }
    assert len(set(codes.values())) == len(codes)
    assert set(exit_codes.MEANINGS) == set(codes.values())
    assert len(set(exit_codes.MEANINGS.values())) == len(exit_codes.MEANINGS)
    page = (PROJECT / "docs" / "commands.md").read_text()
    assert all(f"| {code} | {meaning} |\n" in page for code, meaning in exit_codes.MEANINGS.items())


def test_no_other_module_has_a_code() -> None:
    named = [
        f"{path.relative_to(PROJECT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign)
        and any(getattr(target, "id", "").startswith("EXIT_") for target in node.targets)
    ]
    assert named == []


def test_no_command_ends_with_a_number_that_has_no_name() -> None:
    found = [
        f"{path.relative_to(PROJECT)}:{line}"
        for path in COMMANDS
        for line in numbers(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize("name", [name for name, _ in EVERY], ids=" ".join)
def test_a_wrong_option_is_one_line_and_the_code_of_wrong_use(
    name: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([*name, "--no-such-option-anywhere"])
    assert ended.value.code == exit_codes.WRONG_USE
    assert capsys.readouterr().err.count("\n") == 1
