"""`hedgerow init` at a terminal asks a question again until its answer is good."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest

from gateway.tools import cli


class Terminal(io.StringIO):
    """A terminal at which somebody types these lines."""

    def isatty(self) -> bool:
        return True


def test_an_answer_that_is_refused_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["Not A Name", "gw-a", "campus/north/west", "campus/north", "127.0.0.1"]
    monkeypatch.setattr("sys.stdin", Terminal("".join(f"{line}\n" for line in lines)))
    assert cli.main(["init", str(tmp_path / "made")]) == 0
    shown = capsys.readouterr().err
    assert shown.count("Name of this gateway [") == 2
    assert shown.count("Place, as DOMAIN or DOMAIN/GROUP [") == 2
    assert shown.count("Address where others reach it [") == 1
    assert "'campus/north/west' is not DOMAIN or DOMAIN/GROUP" in shown
    [made] = tmp_path.rglob("hedgerow.toml")
    assert "gw-a" in str(tomllib.loads(made.read_text()))


def test_an_input_that_ends_at_a_question_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("gw-a\n"))
    assert cli.main(["init", str(tmp_path / "made")]) == 2
    assert "the input has ended, and nothing is written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
