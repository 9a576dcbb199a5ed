"""Each command line of ours that a play, a unit, a script or a text holds is one that there is.

What starts by name is seen by no import, and booted systems run in no CI: a module that moved, or
an option with another name, would be found by whoever plays it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from unittest.mock import patch

import ansible_command_lines
import command_lines
import pytest
from ansible_command_lines import ROOT
from command_lines import HEDGEROW, UNKNOWN, CommandLine

from gateway.tools import cli
from gateway.tools.commands.parser import actions

STAND_ALONE = {
    "backups": "gateway.backups.__main__",
    "backups.restoring": "gateway.backups.restoring",
    "gateway.backups.making": "gateway.backups.making",
    "gateway.tools.system_image": "gateway.tools.system_image.__main__",
    "releases": "gateway.releases.__main__",
}
"""Modules with arguments of their own, by what starts them: some lie on a Pi by another name."""
NOT_OURS = ("hedgerow version 0.2.0", "hedgerow interpreted")
"""Words between back quotes that are no command: a topic's value, a column of a table."""
TOLD = (".py", ".yml", ".j2", ".toml", ".service", ".js", ".html", ".default")
"""Endings of the files, beside pages, that name commands between back quotes."""
PLACEHOLDER = re.compile(rf"{UNKNOWN}|[$%{{<\[]|^[A-Z][A-Z0-9_/:.-]*$")
"""A word that is another one when it is typed or run."""


class ParsedError(Exception):
    """A module has made its parser, and gets no further."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__(parser.prog)
        self.parser = parser


def parser_of(module: str) -> argparse.ArgumentParser:
    """Return what a module reads its arguments by."""

    def parsed(parser: argparse.ArgumentParser, *_: object) -> None:
        raise ParsedError(parser)

    main: Callable[[], int] = importlib.import_module(module).main
    with patch.object(argparse.ArgumentParser, "parse_args", parsed):
        try:
            main()
        except ParsedError as error:
            return error.parser
    raise AssertionError(f"{module} reads no arguments")


@cache
def reader(program: str, is_whole: bool) -> argparse.ArgumentParser:
    """Return the program's own parser, for which each word may be a placeholder."""
    parser = cli.command_line() if program in (HEDGEROW, "gateway.tools.cli") else None
    made = parser or parser_of(STAND_ALONE[program])
    loosen(made, is_whole)
    return made


def loosen(parser: argparse.ArgumentParser, is_whole: bool) -> None:
    """Have a parser look at names, and not at values; nor at what lacks, where it may."""
    for action in actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            action.required = action.required and is_whole
            for one in {*action.choices.values()}:
                loosen(one, is_whole)
            continue
        chosen = [str(choice) for choice in action.choices or ()]
        action.type = lambda word, chosen=chosen: (
            chosen[0] if chosen and PLACEHOLDER.search(word) else word
        )
        action.choices = chosen or None
        if not is_whole:
            action.required = False
            if not action.option_strings and action.nargs in (None, "+"):
                action.nargs = "?" if action.nargs is None else "*"
    for group in parser._mutually_exclusive_groups:
        group.required = group.required and is_whole


def complaint(line: CommandLine) -> str | None:
    """Return what the program says of the line; None if it takes it."""
    said = io.StringIO()
    tried = [line.words] if line.is_whole else [line.words, (*line.words, UNKNOWN)]
    for words in tried:
        said.truncate(0)
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                reader(line.program, line.is_whole).parse_args(list(words))
        except SystemExit as end:
            if end.code:
                continue
        return None
    return f"{line}: {said.getvalue().strip().splitlines()[-1]}"


def complaints(lines: Iterable[CommandLine]) -> list[str]:
    known = {HEDGEROW, "gateway.tools.cli", *STAND_ALONE}
    found = [line for line in dict.fromkeys(lines) if line.program in known]
    found = [line for line in found if " ".join((line.program, *line.words)) not in NOT_OURS]
    return [said for line in found if (said := complaint(line)) is not None]


@cache
def tracked() -> tuple[str, ...]:
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    return tuple(name for name in files if (ROOT / name).is_file())


def text_of(name: str) -> str:
    return (ROOT / name).read_bytes().decode(errors="ignore")


def test_what_plays_and_roles_run_is_a_command_that_there_is() -> None:
    lines = [*ansible_command_lines.of_ansible(), *ansible_command_lines.of_templates()]
    assert {"releases", "backups", "backups.restoring"} <= {line.program for line in lines}
    actions = {line.words[:2] for line in lines if line.program == "gateway.tools.cli"}
    assert {("keys", "roll-over"), ("backup", "fetch")} <= actions
    assert complaints(lines) == []


def test_what_units_of_the_cloud_and_of_an_image_run_is_a_command_that_there_is() -> None:
    lines = [*ansible_command_lines.of_list_of("_cloud_commands")]
    assert {line.words[0] for line in lines} == {"collector", "dashboard", "ingest"}
    image = [name for name in tracked() if name.startswith("deploy/") and name.endswith(".service")]
    lines += [line for name in image for line in command_lines.of_unit(name, text_of(name))]
    assert any(line.words == ("system", "watch") for line in lines)
    assert complaints(lines) == []


def scripts() -> Iterator[CommandLine]:
    for name in tracked():
        text = "" if name.startswith("tests/") else text_of(name)
        if name == "Makefile" or re.match("#!/bin/(ba)?sh", text):
            yield from command_lines.of_shell(name, text)


def test_what_scripts_run_is_a_command_that_there_is() -> None:
    lines = [*scripts()]
    assert any(line.place.endswith("first-boot.sh") for line in lines)
    assert any(line.place == "deploy/image/build" for line in lines)
    assert complaints(lines) == []


def pages() -> list[str]:
    left_out = ("docs/decisions/", "CHANGELOG", "docs/errors.md")
    return [n for n in tracked() if n.endswith(".md") and not n.startswith(left_out)]


def test_what_pages_have_a_reader_type_is_a_command_that_there_is() -> None:
    lines = [line for name in pages() for line in command_lines.of_page(name, text_of(name))]
    assert sum(line.is_whole for line in lines) > 100
    assert complaints(lines) == []


def test_what_the_program_and_its_configuration_speak_of_is_a_command_that_there_is() -> None:
    told = [n for n in tracked() if n.endswith(TOLD) and not n.startswith("tests/")]
    lines = [line for name in told for line in command_lines.mentions(name, text_of(name))]
    assert len(lines) > 100
    assert complaints(lines) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("keys rotate --ca DIR", "invalid choice: 'rotate'"),
        ("keys roll-over --ca DIR --end", "unrecognized arguments: --end"),
        ("keys renew --ca", "--ca: expected one argument"),
        ("keys token --to DIR", "unrecognized arguments: --to"),
    ],
)
def test_a_line_that_is_none_is_told_with_its_place(words: str, why: str) -> None:
    (line,) = command_lines.of_shell("some.sh", f"sudo .venv/bin/hedgerow {words} >file 2>&1")
    assert why in (complaint(line) or "")
    assert (complaint(line) or "").startswith("some.sh: ")
