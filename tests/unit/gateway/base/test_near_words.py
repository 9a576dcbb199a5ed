"""A slip in a command, an option or a word is told beside what was meant."""

from __future__ import annotations

import errno
import os

import pytest

from gateway.base import exit_codes
from gateway.base.toml import checks
from gateway.node.links.refusal import reason
from gateway.tools import cli


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("staus", "'staus', did you mean 'status'?"),
        ("keys isue", "'isue', did you mean 'issue'?"),
        ("status --confg x", "unrecognized arguments: --confg, did you mean --config?"),
        ("ingest --tables t --spol s", "--spol s, did you mean --spool?"),
        ("query x --tabels=t", "--tabels=t, did you mean --tables?"),
        ("run --log-level infoo", "'infoo', did you mean 'info'?"),
        ("run --log-level 7", "'7', there are debug, info, warning"),
        ("status --zzzz", "unrecognized arguments: --zzzz (see"),
    ],
)
def test_a_slip_is_told_beside_the_near_word(
    typed: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(typed.split())
    assert ended.value.code == exit_codes.WRONG_USE
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_an_unknown_option_is_told_by_the_command_that_has_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["keys", "list", "--josn"])
    assert "(see hedgerow keys list --help)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "least", "most", "told"),
    [
        (70_000.0, 1.0, 65_535.0, "70000 is not 1 to 65535"),
        (0.0, 0.01, 60.0, "0 is not 0.01 to 60"),
        (2.0, 0.1, 0.5, "2 is not 0.1 to 0.5"),
        (float("nan"), 0.0, 1.0, "nan is not 0 to 1"),
        (float("inf"), 0.0, 1.0, "inf is not 0 to 1"),
    ],
)
def test_numbers_are_told_as_people_write_them(
    value: float, least: float, most: float, told: str
) -> None:
    assert [fault.why for fault in checks.within("x", value, least, most)] == [told]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"),
        OSError(
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 9, 0, 0), "
            "[Errno 111] Connect call failed ('127.0.0.1', 9)"
        ),
    ],
)
def test_a_refused_connection_is_called_so(error: OSError) -> None:
    assert reason(error) == os.strerror(errno.ECONNREFUSED)


def test_a_command_says_that_nobody_listens_there(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["sub", "-t", "x", "--host", "127.0.0.1", "--port", "9"])
    assert code == exit_codes.FAILED
    assert capsys.readouterr().err == (
        "hedgerow: 127.0.0.1:9: Connection refused; nobody listens there: does it run, and is that "
        "its address and port?\n"
    )
