"""Arguments and output that hold bytes which are no text in this locale."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from gateway.base import exit_codes
from gateway.tools.cli import command_line, main
from gateway.tools.commands.output import arriving
from gateway.tools.commands.parser import Parser

TOKEN = f"hedgerow-enrol://gw-c@127.0.0.1:9/{'A' * 43}/{'A' * 22}"


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
    "words",
    [
        ["flash", "--inventory", "hosts.yml", "--to", "card", "--image", "\udcff"],
        ["backup", "fetch", "gw", "--to", "x", "--from", "/\udcff"],
        ["backup", "trial", "gw", "--from", "/\udcff"],
    ],
)
def test_a_word_that_may_name_a_file_is_kept(words: list[str]) -> None:
    assert words[-1] in vars(command_line().parse_args(words)).values()


def test_a_policy_whose_name_is_no_text_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "\udcff.toml"
    policy.write_text("[default]\npublish = []\n")
    assert main(["policy", "check", str(policy)]) == exit_codes.DONE
    assert r"\udcff.toml: has no version" in capsys.readouterr().out
    policy.write_text("[misspelt]\n")
    assert main(["policy", "check", str(policy), "--json"]) == exit_codes.WRONG_USE
    assert json.loads(capsys.readouterr().out)["file"] == str(policy)


def test_who_may_do_what_is_asked_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["policy", "explain", "--file", "none.toml", "user:\udcff", "GET", "/status"]
    assert main(command) == exit_codes.WRONG_USE
    assert r"'user:\udcff' is no text" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"\xff\n", "join: no token: standard input is not UTF-8"),
        ("\ufeffx\n".encode("utf-16-le"), "join: no token: standard input begins with a byte"),
        (b"", "join: no token: it begins with hedgerow-enrol://"),
        (b"\xef\xbb\xbf" + TOKEN.encode() + b"\r\n", "join: 127.0.0.1:9: Connection refused"),
    ],
)
def test_a_token_on_standard_input_is_read_as_other_secrets_are(
    given: bytes,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), "utf-8"))
    assert main(["join", "-", str(tmp_path / "new")]) != 0
    assert capsys.readouterr().err.startswith(f"hedgerow: {why}")
