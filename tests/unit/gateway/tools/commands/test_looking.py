"""`hedgerow top` looks as often as it is told, once, for a script or on a terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Self

import pytest
from told_gateways import answers, status

from gateway.tools.commands import looking, top
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.gateway_arguments import add_at, add_gateway
from gateway.tools.commands.parser import Parser
from gateway.tools.commands.top_answers import LogEnd
from gateway.tools.top import terminal
from gateway.tools.top.fleet_sample import FleetAnswers
from gateway.tools.top.live import NotToldError
from gateway.tools.top.sample import LOG_LINES_MAX, GatewayAnswers
from gateway.tools.top.top_view import FLEET, OF_FLEET, TopView

Printed = pytest.CaptureFixture[str]
Came = GatewayAnswers | FleetAnswers | Exception


class EnoughError(Exception):
    """The test has seen what it wanted."""


class Gateways:
    """Stand for what a command asks: answers come in turn, and then it has seen enough.

    Attributes:
        logs: the log that the command has found.
        waited_s: how long it waited between.

    """

    def __init__(self) -> None:
        self.came: list[Came] = []
        self.logs: list[LogEnd | None] = []
        self.waited_s: list[float] = []
        self.seen: list[tuple[list[str], str]] = []

    def take(self, _: argparse.Namespace, log: LogEnd | None) -> Self:
        self.logs.append(log)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        log = self.logs[-1]
        if log is not None:
            self.seen.append((list(log.lines()), log.trouble()))

    async def ask(self) -> GatewayAnswers:
        came = self._next()
        assert isinstance(came, GatewayAnswers)
        return came

    async def fleet(self) -> FleetAnswers:
        came = self._next()
        assert isinstance(came, FleetAnswers)
        return came

    def _next(self) -> Came:
        came = self.came.pop(0) if self.came else EnoughError()
        if isinstance(came, Exception):
            raise came
        return came


def of_fleet(at: int = 1) -> FleetAnswers:
    return FleetAnswers(2.0 * at, 2.0 * at, {"gw-north": status(at)}, {"gw-south": "no answer"})


@pytest.fixture
def gateways(monkeypatch: pytest.MonkeyPatch) -> Gateways:
    made, sleep = Gateways(), asyncio.sleep

    async def wait(seconds: float) -> None:
        made.waited_s.append(seconds)
        await sleep(0)

    monkeypatch.setattr(looking, "TopAsker", made.take)
    monkeypatch.setattr(asyncio, "sleep", wait)
    return made


def look(*words: str, host: bool = True) -> int:
    parser = Parser(prog="hedgerow")

    def add(command: argparse.ArgumentParser, *, timeout_s: float) -> None:
        add_gateway(command, timeout_s=timeout_s)
        add_at(command)

    top.add(parser.add_subparsers(), add, looking.run)
    code: int = looking.run(parser.parse_args(["top", *words, *(["--host", "gw"] * host)]))
    return code


@pytest.mark.parametrize(
    ("words", "apart_s"), [((), 1.0), (("--interval", "0.1"), 0.1), (("--interval", "3600"), 3600)]
)
def test_who_looks_once_looks_twice_an_interval_apart(
    gateways: Gateways, words: tuple[str, ...], apart_s: float, capsys: Printed
) -> None:
    gateways.came = [answers(1), answers(2)]
    assert look("--once", "--json", *words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rates"]["messages_in"] == 125.0, "250 more in two seconds"
    assert gateways.waited_s == [apart_s, 0.0]
    assert gateways.came == []


def test_what_is_shown_once_is_a_frame_for_a_person(gateways: Gateways, capsys: Printed) -> None:
    gateways.came = [answers(1), answers(2)]
    assert look("--once") == 0
    shown = capsys.readouterr().out
    assert "gw-north" in shown
    assert "F1" not in shown, "there are no keys"
    gateways.came = [of_fleet(1), of_fleet(2)]
    assert look("--once", "--fleet") == 0
    shown = capsys.readouterr().out
    assert "gw-north" in shown and "gw-south" in shown


def test_a_fleet_is_one_document_in_which_each_gateway_has_its_own(
    gateways: Gateways, capsys: Printed
) -> None:
    gateways.came = [of_fleet(1), of_fleet(2)]
    assert look("--once", "--fleet", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["failure"] is None
    north, south = told["gateways"]["gw-north"], told["gateways"]["gw-south"]
    assert north["rates"]["messages_in"] == 125.0
    assert (south["gateway"], south["failure"]) == (None, "no answer")


@pytest.mark.parametrize(
    ("came", "why"),
    [
        ([NotToldError("no answer within 5 s")], "no answer within 5 s"),
        ([answers(1), NotToldError("it is away")], "it is away"),
        ([answers(1, status=[])], "it told nothing that can be read"),
    ],
)
def test_who_looks_once_and_is_told_nothing_fails(
    gateways: Gateways, came: list[Came], why: str, capsys: Printed
) -> None:
    gateways.came = came
    with pytest.raises(FailedError) as failed:
        look("--once")
    assert (str(failed.value), capsys.readouterr().out) == (why, "")


@pytest.mark.parametrize(
    ("words", "apart_s"),
    [
        ((), 2.0),
        (("--fleet",), 5.0),
        (("--interval", "7"), 7.0),
        (("--fleet", "--interval=7"), 7.0),
    ],
)
def test_a_script_gets_a_line_each_time_and_hears_why_there_is_nothing_new(
    gateways: Gateways, words: tuple[str, ...], apart_s: float, capsys: Printed
) -> None:
    made: Callable[[int], Came] = of_fleet if "--fleet" in words else partial(answers)
    gateways.came = [made(1), NotToldError("it is away"), made(3)]
    with pytest.raises(EnoughError):
        look("--json", *words)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["failure"] for one in told] == [None, "it is away", None]
    assert gateways.waited_s == [apart_s] * 3


def test_without_a_terminal_once_or_json_is_needed(gateways: Gateways) -> None:
    with pytest.raises(WrongUseError) as refused:
        look()
    assert str(refused.value) == "top: this is no terminal: --once, or --json for scripts"
    assert gateways.logs == []


# -- on a terminal ---------------------------------------------------------------------------------


class Screen(io.StringIO):
    """A terminal, as far as a command asks."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 5


class Live:
    """Notes what is looked at."""

    begun: tuple[Any, ...] = ()

    def __init__(self, *given: Any) -> None:
        self._given = given

    async def run(self, descriptor: int) -> None:
        _, history, view, screen = self._given
        Live.begun = (type(history).__name__, view, screen, descriptor)


def sit_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a test: before each part of one pytest sets the streams anew."""

    @contextlib.contextmanager
    def opened() -> Iterator[str]:
        yield "screen"

    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, Screen())
    monkeypatch.setattr(terminal, "opened", opened)
    monkeypatch.setattr(looking, "LiveTop", Live)


@pytest.mark.parametrize(
    ("words", "history", "view"),
    [
        ((), "GatewayHistory", TopView(interval_s=2.0)),
        (("--interval", "0.5"), "GatewayHistory", TopView(interval_s=0.5)),
        (("--fleet",), "FleetHistory", TopView(OF_FLEET, FLEET, interval_s=5.0)),
    ],
)
def test_a_terminal_shows_what_was_chosen_and_how_often(
    gateways: Gateways,
    words: tuple[str, ...],
    history: str,
    view: TopView,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sit_at_a_terminal(monkeypatch)
    gateways.came = [of_fleet() if words == ("--fleet",) else answers()]
    assert look(*words) == 0
    assert Live.begun == (history, view, "screen", 5)
    assert gateways.came == []


def test_what_is_wrong_at_once_is_told_before_there_is_a_screen(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    sit_at_a_terminal(monkeypatch)
    gateways.came = [NotToldError("nobody listens there")]
    with pytest.raises(FailedError, match=r"^nobody listens there$"):
        look()

    @contextlib.contextmanager
    def opened() -> Iterator[str]:
        raise terminal.TerminalError("TERM='x' is not known")
        yield ""

    monkeypatch.setattr(terminal, "opened", opened)
    gateways.came = [answers()]
    with pytest.raises(FailedError, match=r"^TERM='x' is not known: --once needs no terminal$"):
        look()


# -- the log ---------------------------------------------------------------------------------------


class Log:
    """Has these lines, and fails behind them."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self.asked: tuple[int | None, bool] | None = None

    async def lines(self, *, last: int | None, follows: bool) -> AsyncIterator[str]:
        self.asked = (last, follows)
        for line in self._lines:
            yield line
        raise FailedError("journalctl: it is gone")


def test_the_end_of_the_own_log_is_kept_and_why_nothing_more_comes(
    gateways: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(*map(str, range(LOG_LINES_MAX + 1)))
    monkeypatch.setattr(looking, "find_source", lambda *_: log)
    gateways.came = [answers(1), answers(2)]
    assert look("--once", host=False) == 0
    assert log.asked == (LOG_LINES_MAX, True)
    ((lines, trouble),) = gateways.seen
    assert (lines[0], len(lines), trouble) == ("1", LOG_LINES_MAX, "journalctl: it is gone")


@pytest.mark.parametrize("error", [FailedError("no journal"), WrongUseError("no configuration")])
def test_a_log_that_is_not_found_is_said_and_the_rest_is_shown(
    gateways: Gateways, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> None:
        raise error

    monkeypatch.setattr(looking, "find_source", find)
    gateways.came = [answers(1), answers(2)]
    assert look("--once", host=False) == 0
    assert gateways.seen == [([], str(error))]


@pytest.mark.parametrize("words", [("--host", "gw"), ("--fleet",)])
def test_the_log_of_another_gateway_and_of_a_fleet_is_not_looked_for(
    gateways: Gateways, words: tuple[str, ...]
) -> None:
    is_fleet = "--fleet" in words
    gateways.came = [of_fleet(1), of_fleet(2)] if is_fleet else [answers(1), answers(2)]
    assert look("--once", *words, host=False) == 0
    assert gateways.logs == [None]
