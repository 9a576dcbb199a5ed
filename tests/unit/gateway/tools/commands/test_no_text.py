"""Arguments and output that hold bytes which are no text in this locale."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gateway.base import exit_codes
from gateway.tools.cli import command_line
from gateway.tools.commands.output import arriving
from gateway.tools.commands.parser import Parser


def test_an_argument_that_is_no_text_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line().parse_args(["clients", "show", "\udcff"])
    assert ended.value.code == exit_codes.WRONG_USE
    assert r"'\udcff' is no text here" in capsys.readouterr().err


def test_a_file_name_that_is_no_text_is_kept() -> None:
    parser = Parser(prog="p")
    below = parser.add_subparsers().add_parser("read")
    below.add_argument("--file", type=Path)
    assert parser.parse_args(["read", "--file", "\udcff"]).file == Path("\udcff")


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "├─ ü\\udcff"), ("ascii", "|- \\xfc\\udcff")]
)
def test_a_tree_keeps_the_lines_that_the_encoding_has(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, encoding))
    with arriving():
        sys.stdout.write("├─ ü\udcff")
    assert taken.getvalue().decode(encoding) == shown
