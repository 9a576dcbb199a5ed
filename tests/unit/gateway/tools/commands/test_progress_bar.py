"""The progress line is for a terminal alone; a file and a pipe get nothing of it."""

from __future__ import annotations

import io
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.commands import progress_bar
from gateway.tools.commands.progress_bar import QUICK_S, GoingOn, step_text

LIMIT_S = 60.0


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Have one; from a fixture it would be taken away by pytest's own, before the test begins."""
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def wait_for(terminal: Terminal, text: str) -> None:
    ends_s = time.monotonic() + LIMIT_S
    while text not in terminal.getvalue():
        assert time.monotonic() < ends_s, terminal.getvalue()
        time.sleep(0.02)


def test_a_step_has_its_time_and_the_whole_a_bar() -> None:
    assert step_text("reading a.tar.gz", 12.4, None, 80) == "reading a.tar.gz ... 12 s"
    half = step_text("publishing", 60, 120, 80)
    assert half == f"[{'#' * 15}{' ' * 15}]  50%  60 s left  publishing"
    assert "100%  0 s left" in step_text("publishing", 500, 120, 80)


@given(st.text(max_size=300), st.floats(0, 1e6), st.none() | st.floats(0, 1e6), st.integers(1, 200))
def test_the_line_stays_in_its_line(
    what: str, elapsed_s: float, all_s: float | None, cells: int
) -> None:
    text = step_text(what, elapsed_s, all_s, cells)
    assert len(text) < max(cells, 1) or text == ""
    assert text.isprintable()


def test_a_step_that_takes_its_time_is_shown_and_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = at_terminal(monkeypatch)
    with GoingOn() as line:
        line.step("reading")
        wait_for(terminal, f"reading ... {QUICK_S:.0f} s")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_is_said_meanwhile_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = at_terminal(monkeypatch)
    with GoingOn(100.0) as line:
        line.say("1. Starting\n   three gateways")
        wait_for(terminal, "three gateways")
    assert capsys.readouterr().out == "1. Starting\n   three gateways\n"
    assert "1. Starting" not in terminal.getvalue()


def test_where_there_is_no_terminal_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with GoingOn(0.1) as line:
        line.step("reading")
        line.say("said")
        progress_bar.show("writing")(5, 10)
        time.sleep(0.3)
    assert capsys.readouterr() == ("said\n", "")
    monkeypatch.setattr(sys, "stderr", None)
    with GoingOn() as line:
        line.step("reading")


def test_an_error_takes_the_line_away_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_terminal(monkeypatch)
    with pytest.raises(ValueError, match="x"), GoingOn(9.0) as line:
        line.step("reading")
        wait_for(terminal, "reading")
        raise ValueError("x")
    assert terminal.getvalue().endswith("\r\x1b[K")


MIB = 1 << 20


@pytest.mark.parametrize(
    ("done", "everything", "elapsed_s", "line"),
    [
        (0, 100, 0.0, f"[{' ' * 30}]   0% of 100 MiB  0.0 MiB/s  "),
        (25, 100, 10.0, f"[{'#' * 8}{' ' * 22}]  25% of 100 MiB  2.5 MiB/s  30 s left"),
        (100, 100, 20.0, f"[{'#' * 30}] 100% of 100 MiB  5.0 MiB/s  0 s left"),
        (120, 100, 20.0, f"[{'#' * 30}] 100% of 100 MiB  6.0 MiB/s  0 s left"),
        (0, 0, 1.0, f"[{'#' * 30}] 100% of 0 MiB  0.0 MiB/s  "),
    ],
)
def test_what_counts_bytes_has_a_bar_its_speed_and_the_time_that_is_left(
    done: int, everything: int, elapsed_s: float, line: str
) -> None:
    told = progress_bar.text("writing", done * MIB, everything * MIB, elapsed_s)
    assert told == f"writing      {line}"


def test_a_line_is_written_five_times_a_second_at_most_and_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    terminal = at_terminal(monkeypatch)
    progress = progress_bar.show("writing")
    for after_s, done in ((0.125, 1), (0.25, 2), (0.375, 3), (0.5, 4), (0.5, 10), (0.5, 12)):
        clock[0] = 100.0 + after_s
        progress(done * MIB, 10 * MIB)
    shown = terminal.getvalue().split("\r\x1b[K")
    assert [line.partition("]")[2].split(" of")[0].strip() for line in shown[1:]] == [
        *("20%", "40%"),
        *("100%", "100%"),
    ]
    assert [line.endswith("\n") for line in shown[1:]] == [False, False, True, True]
