"""A command that takes its time says at a terminal what goes on, until it prints something."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable

import pytest

from gateway.tools.cli import command_line
from gateway.tools.commands.carrying_out import carry_out
from gateway.tools.commands.output import complain, going_on
from gateway.tools.commands.parser import Parser, subcommands
from gateway.tools.commands.progress_bar import QUICK_S

LIMIT_S = 60.0
LINE = f"waiting ... {QUICK_S:.0f} s"
CLEARED = "\r\x1b[K"
SAYS_ITSELF = {
    **dict.fromkeys(("backup", "bench", "demo", "flash", "system"), "lines of its own"),
    **dict.fromkeys(("run", "collector", "dashboard", "first-start"), "goes on until it is ended"),
    **dict.fromkeys(("ingest", "keys serve"), "goes on until it is ended"),
    **dict.fromkeys(("logs", "observe", "sub"), "shows what comes, when it comes"),
    **dict.fromkeys(("passwd", "pub"), "asks for a password at the terminal"),
    "shell": "the terminal is another program's",
    "top": "draws; it says so until the first answer",
    "simulate": "a line for each run",
    **dict.fromkeys(("config set",), "how long a gateway has to come up"),
    **dict.fromkeys(("completion", "config show", "logs", "place", "policy"), "reads some files"),
    **dict.fromkeys(("keys export", "keys import", "keys list", "keys log"), "reads some files"),
    **dict.fromkeys(("keys init-ca", "keys request", "keys renew"), "makes one key"),
    **dict.fromkeys(("keys revoke", "keys roll-over", "keys token"), "writes some files"),
}
"""Commands that need no such line, and why."""


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def carried_out(does: Callable[[], None], goes_on: str = "waiting") -> int:
    """Carry out a command that does something."""

    def command(options: argparse.Namespace) -> int:
        does()
        return 0

    def parser() -> argparse.ArgumentParser:
        made = Parser(prog="p")
        made.set_defaults(command=command, goes_on=goes_on)
        return made

    return carry_out(parser, [])


def wait_for(terminal: Terminal, text: str) -> None:
    ends_s = time.monotonic() + LIMIT_S
    while text not in terminal.getvalue():
        assert time.monotonic() < ends_s, terminal.getvalue()
        time.sleep(0.02)


def names(command: argparse.ArgumentParser, before: str = "") -> list[tuple[str, bool]]:
    """Return each command by its words, and whether it says what goes on."""
    found = []
    for name, below in subcommands(command).items():
        words = f"{before} {name}".strip()
        if subcommands(below) and words not in SAYS_ITSELF:
            found += names(below, words)
        else:
            found.append((words, bool(below.get_default("goes_on"))))
    return found


@pytest.mark.parametrize(("name", "says"), names(command_line()))
def test_each_command_says_what_goes_on_or_why_it_need_not(name: str, says: bool) -> None:
    assert says is not (name in SAYS_ITSELF)


def test_the_line_goes_when_the_first_text_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = at_terminal(monkeypatch)

    def answers() -> None:
        wait_for(terminal, LINE)
        sys.stdout.write("told\n")
        assert terminal.getvalue().endswith(CLEARED)
        shown = terminal.getvalue()
        time.sleep(0.5)
        assert terminal.getvalue() == shown, "it does not come back"

    assert carried_out(answers) == 0
    assert capsys.readouterr().out == "told\n"
    assert terminal.getvalue().endswith(CLEARED)


def test_a_complaint_stands_in_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)

    def complains() -> None:
        wait_for(terminal, LINE)
        complain("no")

    assert carried_out(complains) == 0
    assert terminal.getvalue().endswith(f"{LINE}{CLEARED}no\n")


def test_a_part_of_a_command_says_for_how_long_it_may_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)

    def comes_up() -> None:
        with going_on("coming up", 60.0):
            wait_for(terminal, "s left  coming up")
        assert terminal.getvalue().endswith(CLEARED)

    assert carried_out(comes_up) == 0
    assert "waiting" not in terminal.getvalue(), "one line at a time"


def test_what_is_quick_or_at_no_terminal_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carried_out(lambda: time.sleep(QUICK_S + 0.5)) == 0
    assert capsys.readouterr() == ("", "")
    terminal = at_terminal(monkeypatch)
    assert carried_out(lambda: None) == 0
    assert terminal.getvalue() == ""
