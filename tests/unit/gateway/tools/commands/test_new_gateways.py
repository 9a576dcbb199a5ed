"""`hedgerow init` asks until an answer can be taken, and refuses words that have no effect."""

from __future__ import annotations

import io
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.tools.commands import init, new_files, new_gateways, next_steps
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.parser import Parser
from gateway.tools.provisioning.plan import GatewayPlan

Printed = pytest.CaptureFixture[str]
NO_TEXT = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


class Answers(io.StringIO):
    """A terminal at which these lines are typed, of which one may be no text."""

    def __init__(self, *lines: str | Exception) -> None:
        super().__init__()
        self._lines = list(lines)

    def isatty(self) -> bool:
        return True

    def readline(self, *_: Any) -> str:
        line = self._lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[GatewayPlan]:
    """The plans of gateways, which are not written."""
    plans: list[GatewayPlan] = []
    monkeypatch.setattr(new_files, "make", lambda *_: None)
    monkeypatch.setattr(next_steps, "of_one", lambda _, plan, __: plans.append(plan))
    monkeypatch.setattr(next_steps, "of_fleet", lambda _, them, __: plans.extend(them))
    monkeypatch.setattr(socket, "gethostname", lambda: "Attic_Pi.local")
    return plans


def run(*words: object) -> int:
    parser = Parser(prog="hedgerow")
    init.add(parser.add_subparsers(), command=new_gateways.run)
    options = parser.parse_args(["init", *map(str, words)])
    code: int = options.command(options)
    return code


def test_a_question_is_asked_again_until_it_has_an_answer_that_can_be_taken(
    planned: list[GatewayPlan], tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (NO_TEXT, "No Name\n", " gw-a \n", "a/b/c\n", "campus/north\n", "x\n", "\n")
    monkeypatch.setattr(sys, "stdin", Answers(*typed))
    assert run(tmp_path / "new") == 0
    (plan,) = planned
    assert (plan.id, plan.place, plan.address) == ("gw-a", "campus/north", "127.0.0.1")
    said = capsys.readouterr().err
    questions = re.findall(r"((?:Name|Place|Address)[^\[\n]* \[[^]]*\]): ", said)
    name, place = "Name of this gateway [attic-pi]", "Place, as DOMAIN or DOMAIN/GROUP [the top]"
    address = "Address where others reach it [127.0.0.1: this machine alone]"
    assert questions == [name, name, name, place, place, address, address]
    complaints = [line.rpartition("]: ")[2].partition(":")[0] for line in said.splitlines()]
    assert complaints == ["  name", "  name", "  place", "  address", ""]


def test_what_has_an_option_is_not_asked_for(
    planned: list[GatewayPlan], tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Answers())
    assert run(tmp_path / "a", "--name", "gw-b", "--place", "c", "--address", "10.0.0.1") == 0
    assert run(tmp_path / "b", "--yes") == 0
    monkeypatch.setattr(sys, "stdin", None)
    assert run(tmp_path / "c") == 0
    assert [(one.id, one.place, one.address) for one in planned] == [
        ("gw-b", "c", "10.0.0.1"),
        ("attic-pi", "", "127.0.0.1"),
        ("attic-pi", "", "127.0.0.1"),
    ]
    assert capsys.readouterr().err == ""


def test_an_input_that_ends_writes_nothing(
    planned: list[GatewayPlan], tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Answers("gw-a\n", ""))
    with pytest.raises(WrongUseError) as refused:
        run(tmp_path / "new")
    assert str(refused.value) == "init: the input has ended, and nothing is written"
    assert capsys.readouterr().err.endswith("[the top]: \n")
    assert planned == []


def test_who_interrupts_a_question_is_told_that_nothing_is_written(
    planned: list[GatewayPlan], tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Answers):
        def readline(self, *_: Any) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "new")
    assert capsys.readouterr().err.endswith(
        "\nhedgerow: init: interrupted, and nothing is written\n"
    )
    assert planned == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--fleet", "a", "b", "--name", "c"), "--name: of no use with --fleet, which has NAME="),
        (("--fleet", "a", "b", "--address", "::1"), "--address: of no use with --fleet, which"),
        (("--fleet", "a=10.0.0.1", "b"), "--fleet: b: no address, and others have one"),
        (("--fleet", "authority", "b"), "--fleet: 'authority' is the name of another file there"),
        (("--add", "c=10.0.0.1", "--name", "d"), "--name: of no use with --add, which has NAME="),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    planned: list[GatewayPlan], tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(WrongUseError) as refused:
        run(tmp_path / "new", *words)
    assert str(refused.value).startswith(why)
    assert planned == []


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Attic_Pi.local", "attic-pi"),
        ("pi", "pi"),
        ("--pi--", "pi"),
        ("\u00e4", "gateway"),
        ("", "gateway"),
        ("a" * 64, "a" * 63),
        (f"{'a' * 62}-b", "a" * 62),
    ],
)
def test_a_gateway_is_called_as_its_machine_as_far_as_a_name_may_be(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert new_gateways.host_name() == name
