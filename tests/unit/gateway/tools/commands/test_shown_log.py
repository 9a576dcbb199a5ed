"""`hedgerow logs` shows the last records that are asked for, whole and in their order."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.base.printable import printable
from gateway.tools.commands import logs, shown_log
from gateway.tools.commands.errors import FailedError
from gateway.tools.commands.gateway_arguments import add_config
from gateway.tools.commands.parser import Parser

LINES = (
    "2026-11-28 07:31:02 INFO gateway.node.links.node: one",
    "2026-11-28 07:31:03 ERROR gateway.broker.upkeep: two",
    "  Traceback",
    "  ValueError",
    "no record \x1b[2J",
    "2026-11-28 07:31:05 WARNING gateway.node.links.node: three",
)
Printed = pytest.CaptureFixture[str]


class Source:
    """A log that has these lines, and ends, or fails behind them."""

    def __init__(self, *lines: str, fails: bool = False) -> None:
        self._lines = lines
        self._fails = fails
        self.asked: list[tuple[int | None, bool]] = []

    async def lines(self, *, last: int | None, follows: bool) -> AsyncIterator[str]:
        self.asked.append((last, follows))
        for line in self._lines:
            yield line
        if self._fails:
            raise FailedError("journalctl: it is gone")


def options(*words: str) -> argparse.Namespace:
    parser = Parser(prog="hedgerow")
    logs.add(parser.add_subparsers(), add_config)
    found: argparse.Namespace = parser.parse_args(["logs", *words])
    return found


def shown(
    monkeypatch: pytest.MonkeyPatch, printed: Printed, source: Source, *words: str
) -> list[str]:
    monkeypatch.setattr(shown_log, "find_source", lambda *_: source)
    assert shown_log.run(options(*words)) == 0
    return printed.readouterr().out.splitlines()


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(
    ("words", "which", "last"),
    [
        ((), [0, 1, 2, 3, 4, 5], 800),
        (("-n", "all"), [0, 1, 2, 3, 4, 5], None),
        (("-n", "1"), [5], 8),
        (("-n", "2"), [4, 5], 16),
        (("-n", "3"), [1, 2, 3, 4, 5], 24),
        (("--level", "error"), [1, 2, 3], None),
        (("--level", "warning", "-n", "1"), [5], None),
        (("--part", "gateway.node.links"), [0, 5], None),
        (("--part", "links.node"), [0, 5], None),
        (("--part", "nobody"), [], None),
    ],
)
def test_so_many_of_the_last_records_are_shown_as_were_asked_for(
    follow: tuple[str, ...],
    words: tuple[str, ...],
    which: list[int],
    last: int | None,
    capsys: Printed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight lines for each record are read; of chosen ones nobody knows how many."""
    source = Source(*LINES)
    told = shown(monkeypatch, capsys, source, *words, *follow)
    assert told == [printable(LINES[one]) for one in which]
    assert source.asked == [(last, bool(follow))]


def test_a_script_gets_a_document_for_each_record(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = shown(monkeypatch, capsys, Source(*LINES[1:5]), "--json")
    assert [json.loads(line) for line in told] == [
        {
            "time": "2026-11-28T07:31:03",
            "level": "error",
            "part": "gateway.broker.upkeep",
            "text": "two",
            "further": ["  Traceback", "  ValueError"],
        },
        {
            "time": None,
            "level": None,
            "part": None,
            "text": "no record \x1b[2J",
            "further": [],
        },
    ]


def test_a_log_that_can_not_be_followed_any_more_is_told_behind_what_it_had(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_log, "find_source", lambda *_: Source(*LINES[:2], fails=True))
    with pytest.raises(FailedError, match="it is gone"):
        shown_log.run(options("-f"))
    assert capsys.readouterr().out.splitlines() == list(LINES[:2])


@pytest.mark.parametrize(
    ("text", "number"),
    [("all", None), ("1", 1), ("9999999", 9_999_999), ("10000000", ""), ("\u00b2", ""), ("", "")],
)
def test_a_number_of_records_has_seven_digits_at_most(
    text: str, number: int | str | None, capsys: Printed
) -> None:
    if number == "":
        with pytest.raises(SystemExit):
            options("-n", text)
        assert f"-n/--lines: {text!r} is no number of records, and not all" in (
            capsys.readouterr().err
        )
    else:
        assert options("-n", text).lines == number


def test_without_a_number_the_last_hundred_records_of_a_file_are_shown(
    tmp_path: Path, capsys: Printed
) -> None:
    file = tmp_path / "gateway.log"
    file.write_text("".join(f"2026-11-28 07:31:02 INFO gateway.a: {one}\n" for one in range(102)))
    given = options("--file", str(file))
    assert given.command(given) == 0
    told = capsys.readouterr().out.splitlines()
    assert (len(told), told[0][-3:], told[-1][-3:]) == (100, ": 2", "101")
