"""The manual pages of all commands, made from the parser (man(7)): one of the whole, one each.

.venv/bin/python -m gateway.tools.handbook.manual FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.base import exit_codes
from gateway.process.configuration import place
from gateway.tools import cli
from gateway.tools.handbook import reference

_FILES = (
    (place.SYSTEM, "The configuration of this machine's gateway."),
    ("~/.config/hedgerow/hedgerow.toml", "A user's own, where there is none of the machine's."),
    ("/var/lib/hedgerow", "The state of the machine's gateway."),
)


def pages(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return the pages by name, ``hedgerow`` and ``hedgerow-get``, as roff.

    Args:
        parser: of the whole command line.

    """
    commands = list(_below(parser))
    named = [(command.prog.replace(" ", "-"), text) for command, text in commands]
    found = {parser.prog: "\n".join(_whole(parser, named)) + "\n"}
    for (command, text), (name, _) in zip(commands, named, strict=True):
        found[name] = "\n".join(_one(command, name, text, parser.prog)) + "\n"
    return found


def _whole(parser: argparse.ArgumentParser, named: list[tuple[str, str]]) -> Iterator[str]:
    yield from _head(parser.prog, "gateway for fleets of Raspberry Pis")
    yield from (".SH SYNOPSIS", f".B {parser.prog}", ".I COMMAND", r"[\fIARGUMENT\fR ...]")
    yield from (".SH DESCRIPTION", _text(parser.description))
    yield ".SH COMMANDS"
    for name, text in named:
        yield from (".TP", rf"\fB{_text(name)}\fR(1)", _text(text))
    yield ".SH EXIT STATUS"
    for code, meaning in exit_codes.MEANINGS.items():
        yield from (".TP", rf"\fB{code}\fR", _text(meaning))
    yield ".SH FILES"
    for path, text in _FILES:
        yield from (".TP", rf"\fI{_text(str(path))}\fR", _text(text))


def _one(command: argparse.ArgumentParser, name: str, text: str, whole: str) -> Iterator[str]:
    yield from _head(name, text)
    yield from (".SH SYNOPSIS", _usage(command))
    yield from (".SH DESCRIPTION", _text(command.description))
    arguments = list(_arguments(command))
    if arguments:
        yield from (".SH OPTIONS", *arguments)
    below = list(_below(command))
    if below:
        yield ".SH COMMANDS"
    for each, _ in below:
        yield from (f'.SS "{_text(each.prog)}"', _usage(each), ".PP", _text(each.description))
        yield from _arguments(each)
    yield from (".SH EXIT STATUS", "As told in", rf"\fB{whole}\fR(1).")
    yield from (".SH SEE ALSO", rf"\fB{whole}\fR(1)")


def _head(name: str, text: str) -> Iterator[str]:
    yield f'.TH "{_text(name.upper())}" "1" "" "Hedgerow" "Hedgerow"'
    yield from (".nh", ".SH NAME", rf"{_text(name)} \- {_text(text)}")


def _usage(command: argparse.ArgumentParser) -> str:
    words = command.format_usage().removeprefix("usage: ").split()
    return _text(" ".join(words))


def _arguments(command: argparse.ArgumentParser) -> Iterator[str]:
    for action in reference.arguments(command):
        written = reference.written(action)
        yield from (".TP", rf"\fB{_text(written)}\fR", _text(reference.help_of(action)))


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Yield the commands of a parser, each with its line in the list."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {one.dest: one.help or "" for one in action._choices_actions}
            for name, command in action.choices.items():
                yield command, texts.get(name, "")


def _text(text: str | None) -> str:
    """Words as roff shows them: none of them is a request or an escape (groff(7))."""
    line = " ".join((text or "").replace("%%", "%").split())
    line = line.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{line}" if line[:1] in {".", "'"} else line


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page, roff in pages(cli.command_line()).items():
        (folder / f"{page}.1").write_text(roff)
