"""`hedgerow passwd` takes a password that is typed twice, and tells what it does."""

from __future__ import annotations

import argparse
import getpass
import io
import sys
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from gateway.broker.access import password_lines
from gateway.tools.commands import passwd
from gateway.tools.commands.errors import FailedError, WrongUseError

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
Printed = pytest.CaptureFixture[str]


class Keyboard(io.StringIO):
    """A terminal, as far as a command asks."""

    def isatty(self) -> bool:
        return True


def typed(monkeypatch: pytest.MonkeyPatch, *words: str | Exception) -> list[str]:
    """Have these typed at a terminal; return the prompts."""
    prompts, left = list[str](), list(words)

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        word = left.pop(0)
        if isinstance(word, Exception):
            raise word
        return word

    monkeypatch.setattr(getpass, "getpass", ask)
    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr(password_lines, "line", lambda user, secret: f"{user}:<{secret.decode()}>")
    return prompts


def run(user: str = "olga", file: Path | None = None, *, delete: bool = False) -> int:
    return passwd.run(argparse.Namespace(user=user, file=file, delete=delete))


def test_a_password_is_asked_for_twice(capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = typed(monkeypatch, "s\u00fc\u00df", "s\u00fc\u00df")
    assert run() == 0
    assert prompts == ["Password of olga: ", "Again: "]
    assert capsys.readouterr().out == "olga:<s\u00fc\u00df>\n"


NO_TEXT = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


@pytest.mark.parametrize(
    ("words", "kind", "why", "told"),
    [
        (("a", "b"), FailedError, "the passwords differ", ""),
        ((EOFError(),), WrongUseError, "no password: the input has ended", "\n"),
        (("a", EOFError()), WrongUseError, "no password: the input has ended", "\n"),
        ((NO_TEXT,), WrongUseError, "no password: what was typed is not text", ""),
    ],
)
def test_no_line_is_made_of_a_password_that_is_not_sure(
    words: tuple[str | Exception, ...],
    kind: type[Exception],
    why: str,
    told: str,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, *words)
    with pytest.raises(kind) as failed:
        run()
    assert str(failed.value) == why
    assert capsys.readouterr() == ("", told)


def test_a_closed_input_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(WrongUseError, match=r"^no password: standard input is closed$"):
        run()


def test_a_user_is_added_changed_and_taken_out_and_that_is_said(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "passwords"
    file.touch(mode=0o600)
    for what, secret in (("added", "a"), ("changed", "b")):
        typed(monkeypatch, secret, secret)
        hashed = CHEAP.hash(secret)
        monkeypatch.setattr(password_lines, "line", lambda user, _, made=hashed: f"{user}:{made}")
        assert run(file=file) == 0
        assert file.read_text() == f"olga:{hashed}\n"
        said = capsys.readouterr()
        assert said == ("", f"olga {what}; a running gateway reads the file at SIGHUP\n")
    assert run(file=file, delete=True) == 0
    said = capsys.readouterr()
    assert said == ("", "olga taken out; a running gateway reads the file at SIGHUP\n")
    assert file.read_text() == ""
    with pytest.raises(FailedError) as failed:
        run(file=file, delete=True)
    assert str(failed.value) == f"{file}: no user 'olga'"


def test_without_a_file_nobody_can_be_taken_out() -> None:
    with pytest.raises(WrongUseError, match=r"^--delete: needs --file$"):
        run(delete=True)


def test_a_user_that_can_not_be_in_a_line_is_a_wrong_use(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, "a", "a")

    def refuse(user: str, _: bytes) -> str:
        raise password_lines.PasswordLineError(f"{user!r}: no user's name")

    monkeypatch.setattr(password_lines, "line", refuse)
    with pytest.raises(WrongUseError, match=r"^'a:b': no user's name$"):
        run("a:b")
    assert capsys.readouterr().out == ""
