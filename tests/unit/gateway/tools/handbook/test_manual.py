"""The manual pages tell of every command and option, and man shows them without a complaint."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from gateway.tools.cli import command_line
from gateway.tools.commands.completion import forms
from gateway.tools.handbook.manual import pages


def shown(page: str, folder: Path) -> str:
    """Return the text of a page as `man` shows it."""
    file = folder / "page.1"
    file.write_text(page)
    done = subprocess.run(
        ["man", "--warnings=w", "--local-file", str(file)],
        env={"LC_ALL": "C.UTF-8", "MANWIDTH": "400", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_each_command_has_a_page_that_tells_of_each_of_its_options() -> None:
    parser = command_line()
    found = pages(parser)
    commands = forms(parser)
    assert set(found) == {"hedgerow", *(f"hedgerow-{name}" for name in commands)}
    for name, command in commands.items():
        assert f"hedgerow\\-{name}".replace("-", "\\-").replace("\\\\", "\\") in found["hedgerow"]
        for option in command.options:
            for written in option.names:
                if written not in {"-h", "--help"}:
                    assert written.replace("-", "\\-") in found[f"hedgerow-{name}"], (name, written)


@pytest.mark.peer("man", "man-db")
def test_man_shows_pages_without_a_warning(tmp_path: Path) -> None:
    found = pages(command_line())
    assert "hedgerow-join(1)" in shown(found["hedgerow"], tmp_path)
    text = shown("".join(found.values()), tmp_path)
    assert "--psk-file FILE" in text
    assert "hedgerow keys issue" in text


@pytest.mark.peer("man", "man-db")
def test_what_a_help_says_is_shown_as_it_is(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser(prog="hedgerow", description="One.")
    odd = parser.add_subparsers().add_parser("odd", help="odd", description=".B 100%% \\fBodd\\fR")
    odd.add_argument("--odd", help='\'a "b" -- \\*c')
    text = shown(pages(parser)["hedgerow-odd"], tmp_path)
    assert ".B 100% \\fBodd\\fR" in text
    assert '\'a "b" -- \\*c' in text


def test_a_page_has_what_a_command_takes_and_what_its_own_commands_do() -> None:
    parser = argparse.ArgumentParser(prog="hedge", description="One.")
    commands = parser.add_subparsers()
    odd = commands.add_parser("odd", help="an odd one", description="Does odd things.")
    odd.add_argument("--of", help="of it")
    below = odd.add_subparsers().add_parser("low", help="unseen", description="Does low things.")
    below.add_argument("what", help=".x")
    commands.add_parser("dark", description="In no list.")
    found = pages(parser)
    whole = found["hedge"].splitlines()
    assert whole[:9] == [
        r'.TH "HEDGE" "1" "" "Hedgerow" "Hedgerow"',
        ".nh",
        ".SH NAME",
        r"hedge \- gateway for fleets of Raspberry Pis",
        ".SH SYNOPSIS",
        ".B hedge",
        ".I COMMAND",
        r"[\fIARGUMENT\fR ...]",
        ".SH DESCRIPTION",
    ]
    listed = whole[whole.index(".SH COMMANDS") : whole.index(".SH EXIT STATUS")]
    assert listed[1:] == [
        ".TP",
        r"\fBhedge\-odd\fR(1)",
        "an odd one",
        ".TP",
        r"\fBhedge\-dark\fR(1)",
        "",
    ]
    assert whole[whole.index(".SH FILES") :][1:4] == [
        ".TP",
        r"\fI/etc/hedgerow/hedgerow.toml\fR",
        "The configuration of this machine's gateway.",
    ]
    end = [".SH EXIT STATUS", "As told in", r"\fBhedge\fR(1).", ".SH SEE ALSO", r"\fBhedge\fR(1)"]
    assert found["hedge-odd"].splitlines() == [
        r'.TH "HEDGE\-ODD" "1" "" "Hedgerow" "Hedgerow"',
        ".nh",
        ".SH NAME",
        r"hedge\-odd \- an odd one",
        ".SH SYNOPSIS",
        r"hedge odd [\-h] [\-\-of OF] {low} ...",
        ".SH DESCRIPTION",
        "Does odd things.",
        ".SH OPTIONS",
        ".TP",
        r"\fB\-\-of OF\fR",
        "of it",
        ".SH COMMANDS",
        '.SS "hedge odd low"',
        r"hedge odd low [\-h] what",
        ".PP",
        "Does low things.",
        ".TP",
        r"\fBWHAT\fR",
        r"\&.x",
        *end,
    ]
    assert found["hedge-dark"].splitlines()[2:] == [
        ".SH NAME",
        r"hedge\-dark \- ",
        ".SH SYNOPSIS",
        r"hedge dark [\-h]",
        ".SH DESCRIPTION",
        "In no list.",
        *end,
    ]
