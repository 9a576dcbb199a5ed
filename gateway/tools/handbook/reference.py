"""The page of all commands, made from the parser.

.venv/bin/python -m gateway.tools.handbook.reference > docs/commands.md
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping

from gateway.base import exit_codes
from gateway.tools import cli
from gateway.tools.commands.parser import actions, subcommands

HEAD = """\
# Commands

Made from the parser: `.venv/bin/python -m gateway.tools.handbook.reference > docs/commands.md`.
What goes wrong is one line on standard error.

| exit code | meaning |
|--:|---|
"""


def page(parser: argparse.ArgumentParser, exit_codes: Mapping[int, str]) -> str:
    """Return the page as Markdown.

    Args:
        parser: of the whole command line.
        exit_codes: what each means.

    """
    rows = "".join(f"| {code} | {_cell(meaning)} |\n" for code, meaning in exit_codes.items())
    return HEAD + rows + "".join(map(_section, _commands(parser)))


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for command in subcommands(parser).values():
        yield command
        yield from _commands(command)


def arguments(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return what a command takes: words that must stand, those that may, and then options.

    Args:
        command: its parser.

    """
    others = (argparse._HelpAction, argparse._SubParsersAction)
    found = [
        action
        for action in actions(command)
        if not isinstance(action, others) and action.help != argparse.SUPPRESS
    ]
    return sorted(found, key=lambda action: bool(action.option_strings))


def _section(command: argparse.ArgumentParser) -> str:
    rows = "".join(
        f"| {_cell(f'`{written(action)}`')} | {_cell(help_of(action))} |\n"
        for action in arguments(command)
    )
    table = f"\n| argument | |\n|---|---|\n{rows}" if rows else ""
    return f"\n## {command.prog}\n\n{command.description}\n{table}"


def written(action: argparse.Action) -> str:
    """Return an argument as it is typed, in brackets where it may be left out.

    Args:
        action: the argument, as the parser has it.

    """
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    if action.nargs == "?":
        value = f"[{value}]"
    if not action.option_strings:
        return value
    name = ", ".join(action.option_strings)
    return name if action.nargs == 0 else f"{name} {value}"


def help_of(action: argparse.Action) -> str:
    """Return what an argument is for, with its default.

    Args:
        action: the argument, as the parser has it.

    """
    text = action.help or ""
    is_told = "default" in text or action.default in (None, False, argparse.SUPPRESS)
    if is_told:
        return text
    return f"{text} (default: {action.default})".strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page(cli.command_line(), exit_codes.MEANINGS))
