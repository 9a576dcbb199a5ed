"""`hedgerow bench` says what it does and what came of it, and gives way to what else runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from one_parser import hedgerow, parser

from gateway.base import exit_codes
from gateway.process.configuration import place
from gateway.process.fleet_status import rating
from gateway.process.fleet_status.rating import Rating, RatingFile
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import AnswerTimes, Figures, as_document, as_text, verdict
from gateway.tools.commands import benching

FIGURES = Figures(
    start_s=2.0,
    start_cpu_s=1.5,
    sync=AnswerTimes(2.0, 9.0),
    idle_bytes=80 << 20,
    messages_per_s=4_000.0,
    puback=AnswerTimes(3.0, 12.0),
    reads_per_s=2_500.0,
    available_bytes=300 << 20,
)


class Measuring:
    """Measures nothing, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[Path, float]] = []
        self.fails: Exception | None = None
        self.niced: list[int] = []

    async def measured(self, folder: Path, seconds: float, told: Callable[[str], None]) -> Figures:
        self.asked.append((folder, seconds))
        told("starting a gateway")
        if self.fails is not None:
            raise self.fails
        return FIGURES

    async def ended(self, *_: object) -> Figures:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)
        raise AssertionError

    def nice(self, by: int) -> int:
        self.niced.append(by)
        return by


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    made = Measuring()
    monkeypatch.setattr(benching, "measured", made.measured)
    monkeypatch.setattr(os, "nice", made.nice)
    return made


def configured(tmp_path: Path) -> Path:
    key, file = tmp_path / "tree.key", tmp_path / "gw.toml"
    key.touch(0o600)
    key.write_text("5a" * 32)
    file.write_text(
        '[gateway]\nid = "gw-a"\nstate_dir = "state"\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    )
    return file


def test_the_figures_are_told_to_people_and_to_scripts(
    bench: Measuring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hedgerow("bench", "--folder", tmp_path) == exit_codes.DONE
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"{as_text(FIGURES)}\n", "starting a gateway ...\n")
    assert hedgerow("bench", "--folder", tmp_path, "--json", "--seconds", "5") == exit_codes.DONE
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == (as_document(FIGURES), "")
    assert bench.asked == [(tmp_path, 120.0), (tmp_path, 5.0)]
    assert bench.niced == [10, 10], "what serves goes before it"


def test_without_a_folder_the_disk_of_the_gateways_state_is_measured(
    bench: Measuring, tmp_path: Path
) -> None:
    file, state, other = configured(tmp_path), tmp_path / "state", tmp_path / "other"
    state.mkdir()
    other.mkdir()
    assert hedgerow("bench", "--config", file) == exit_codes.DONE
    assert RatingFile(state).read() == Rating(None, None)
    assert hedgerow("bench", "--config", file, "--keep", "--folder", other) == exit_codes.DONE
    assert hedgerow("bench", "--config", file, "--keep") == exit_codes.DONE
    assert [folder for folder, _ in bench.asked] == [state, other, state]
    given = verdict(FIGURES)
    assert RatingFile(state).read() == Rating(given.messages_per_s, given.clients)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BenchError("80 MiB of memory are needed"), "80 MiB of memory are needed"),
        (OSError(5, "Input/output error"), "{folder}: Input/output error"),
        (OSError("odd"), "{folder}: odd"),
    ],
)
def test_what_can_not_be_measured_is_told(
    error: Exception,
    why: str,
    bench: Measuring,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench.fails = error
    assert hedgerow("bench", "--folder", tmp_path, "--json") == exit_codes.FAILED
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"hedgerow: {why.format(folder=tmp_path)}\n")


def test_a_verdict_that_can_not_be_kept_is_told_behind_the_figures(
    bench: Measuring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(state_dir: Path, _rating: Rating) -> None:
        raise OSError(5, "Input/output error", str(state_dir / "rating"))

    assert bench.fails is None
    monkeypatch.setattr(rating, "keep", full)
    file, state = configured(tmp_path), tmp_path / "state"
    state.mkdir()
    assert hedgerow("bench", "--config", file, "--keep") == exit_codes.FAILED
    said = capsys.readouterr()
    assert said.out == f"{as_text(FIGURES)}\n"
    why = f"hedgerow: --keep: {state / 'rating'}: Input/output error\n"
    assert said.err == f"starting a gateway ...\n{why}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            [],
            "--folder: not given, and neither a nor b is there: name a folder on the disk that is "
            "to be measured",
        ),
        (["--keep"], "--keep: neither a nor b is there: name the gateway's with --config"),
        (
            ["--keep", "--folder", "."],
            "--keep: neither a nor b is there: name the gateway's with --config",
        ),
        (["--folder", "none"], "--folder: none: no such folder"),
        (["--seconds", "4.99"], "--seconds: 4.99 is not 5 or more"),
    ],
)
def test_what_lacks_is_told_before_anything_is_measured(
    words: list[str],
    why: str,
    bench: Measuring,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def nowhere() -> Path:
        raise place.NoConfigError("neither a nor b is there")

    monkeypatch.setattr(place, "find", nowhere)
    assert hedgerow("bench", *words) == exit_codes.WRONG_USE
    assert capsys.readouterr().err == f"hedgerow: {why}\n"
    assert (bench.asked, bench.niced) == ([], [])


def test_to_end_it_is_no_failure(
    bench: Measuring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benching, "measured", bench.ended)
    assert hedgerow("bench", "--folder", tmp_path) == exit_codes.INTERRUPTED


def test_two_minutes_are_usual_and_five_seconds_the_least() -> None:
    options = parser().parse_args(["bench"])
    assert (options.seconds, options.keep, options.json) == (120.0, False, False)
