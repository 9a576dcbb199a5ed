"""Whatever ends a command is told in one line, with what to do about it, and is an exit code."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

import pytest

from gateway.base import exit_codes
from gateway.tools.commands.carrying_out import carry_out
from gateway.tools.commands.errors import (
    FailedError,
    WrongUseError,
    expect_folder,
    reading_an_answer,
)

FULL = OSError(errno.ENOSPC, "No space left on device", "/var/x")
ROOM = "make room on its disk (`df -h` shows how full it is), and repeat this"


def carried_out(ending: BaseException | int) -> int:
    """Carry out a command that ends so."""

    def command(_options: argparse.Namespace) -> int:
        if isinstance(ending, int):
            return ending
        raise ending

    def parser() -> argparse.ArgumentParser:
        made = argparse.ArgumentParser()
        made.set_defaults(command=command)
        return made

    return carry_out(parser, [])


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        (0, 0, ""),
        (7, 7, ""),
        (WrongUseError("--to: x"), exit_codes.WRONG_USE, "hedgerow: --to: x\n"),
        (
            caused(WrongUseError("--to: x"), FULL),
            exit_codes.WRONG_USE,
            f"hedgerow: --to: x; {ROOM}\n",
        ),
        (FailedError("no answer"), exit_codes.FAILED, "hedgerow: no answer\n"),
        (FailedError("no key", 35), 35, "hedgerow: no key\n"),
        (caused(FailedError("full", 8), FULL), 8, f"hedgerow: full; {ROOM}\n"),
        (FULL, exit_codes.FAILED, f"hedgerow: /var/x: No space left on device; {ROOM}\n"),
        (OSError(errno.EIO, "Input/output error"), 1, "hedgerow: Input/output error\n"),
        (OSError("odd"), exit_codes.FAILED, "hedgerow: odd\n"),
        (OSError("odd\nand so on"), exit_codes.FAILED, "hedgerow: odd\nand so on\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_ends_a_command_is_a_line_and_an_exit_code(
    ending: BaseException | int, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carried_out(ending) == code
    assert capsys.readouterr() == ("", said)


def test_a_fault_of_the_program_is_not_taken_for_the_users() -> None:
    with pytest.raises(ZeroDivisionError):
        carried_out(ZeroDivisionError())


def test_a_folder_that_is_needed_is_there_or_it_is_told_why_it_is_none(tmp_path: Path) -> None:
    expect_folder("--to", tmp_path)
    (file := tmp_path / "file").touch()
    none, long = tmp_path / "none", tmp_path / ("x" * 256)
    for path, more, why in (
        (none, "", f"--to: {none}: no such folder"),
        (none, "make one", f"--to: {none}: no such folder: make one"),
        (file, "make one", f"--to: {file}: a file, not a folder: make one"),
        (long, "make one", f"--to: {long}: File name too long"),
    ):
        with pytest.raises(WrongUseError) as refused:
            expect_folder("--to", path, more)
        assert str(refused.value) == why


IS_IT_ONE = "is that a gateway, and of which version?"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("alerts"), f"its answer has no 'alerts': {IS_IT_ONE}"),
        (TypeError("no list"), f"its answer can't be read (no list): {IS_IT_ONE}"),
        (AttributeError("x"), f"its answer can't be read (x): {IS_IT_ONE}"),
        (ValueError("x"), f"its answer can't be read (x): {IS_IT_ONE}"),
        (IndexError("x"), f"its answer can't be read (x): {IS_IT_ONE}"),
        (RecursionError("x"), f"its answer can't be read (x): {IS_IT_ONE}"),
    ],
)
def test_an_answer_of_another_kind_is_told_as_one(error: Exception, said: str) -> None:
    with pytest.raises(FailedError) as failed, reading_an_answer():
        raise error
    assert (str(failed.value), failed.value.exit_code) == (said, exit_codes.FAILED)
