"""Help is as wide as argparse has it, though nothing is imported to learn the width."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import pytest

from gateway.tools.commands.parser import Parser

SAID = "what this option does, told in more words than one narrow line of a terminal has room for"


def said_by(parser: argparse.ArgumentParser) -> str:
    parser.add_argument("--option", help=SAID)
    return parser.format_help()


@pytest.mark.parametrize("columns", ["40", "132", "0", "-3", "wide", "", None])
def test_help_is_as_wide_as_the_terminal(
    columns: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert said_by(Parser(prog="p")) == said_by(argparse.ArgumentParser(prog="p"))


def test_help_is_told_where_there_is_no_standard_output() -> None:
    program = "import sys; sys.stdout = sys.__stdout__ = None\n" + (
        "from gateway.tools.commands.parser import Parser\n"
        "sys.exit(Parser(prog='p').format_help()[:8])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == "usage: p\n"


def widest(monkeypatch: pytest.MonkeyPatch) -> int:
    """The width for which help is made: the longest line of words that fill all lines."""
    parser = Parser(prog="p", description="x " * 999)
    monkeypatch.delenv("COLUMNS", raising=False)
    return max(map(len, parser.format_help().splitlines()))


def test_without_a_terminal_there_are_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "__stdout__", None)
        assert widest(patched) == 77, "two are left free, and words of two fill an odd number"
    for columns, width in ((0, 77), (52, 49)):
        size = os.terminal_size((columns, 20))
        with monkeypatch.context() as patched:
            patched.setattr(os, "get_terminal_size", lambda _, size=size: size)
            patched.setattr(sys, "__stdout__", OneAtATerminal())
            assert widest(patched) == width


class OneAtATerminal:
    """A standard output, as far as its descriptor goes."""

    def fileno(self) -> int:
        return 1
