"""`hedgerow simulate` prints runs, tables and searches, and ends by what was violated."""

from __future__ import annotations

import copyreg
import json
import os
import pickle
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.base import build
from gateway.tools.commands import simulate, simulating
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.parser import Parser
from gateway.tools.directory_simulation import costs, world
from gateway.tools.directory_simulation.costs import Cost
from gateway.tools.directory_simulation.world import DirectoryOptions
from tree_handler.simulation import exploration, growth, runs, timing
from tree_handler.simulation.checks import Violation
from tree_handler.simulation.exploration import SearchCoverage
from tree_handler.simulation.growth import Growth
from tree_handler.simulation.report import Report
from tree_handler.simulation.timing import Timing

Printed = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class PartOfDrawn:
    name: str


@dataclass(frozen=True)
class DrawnOptions:
    """Options of a run, as drawn."""

    seed: int
    gateways: int
    parts: tuple[PartOfDrawn, ...] = (PartOfDrawn("a"),)
    leaves: int = 0
    parameters: Any = None
    replay: str = "hedgerow simulate --again"


def report(options: DrawnOptions) -> Report:
    violations = (Violation(1, 2.0, "two roots", "again"),) if options.seed == 2 else ()
    return Report(options, violations, 0.5, 1, 2, 10, 3, 4)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)


def run(*words: str) -> int:
    parser = Parser(prog="hedgerow")
    simulating.add_to(parser.add_subparsers())
    options = parser.parse_args(["simulate", *words])
    code: int = options.command(options)
    return code


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectoryOptions, "drawn", DrawnOptions)
    monkeypatch.setattr(world, "run", report)
    monkeypatch.setattr(runs, "drawn_size", lambda _, fewest, most: fewest + most)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("words", "code", "ends"),
    [
        (("--runs", "1"), 0, "1 runs, 0 of them failed; 10 events"),
        (("--runs", "2"), 1, "2 runs, 1 of them failed; 20 events"),
        (("--runs", "2", "--seed", "3"), 0, "2 runs, 0 of them failed; 20 events"),
    ],
)
def test_each_run_is_told_and_a_violated_invariant_is_a_failure(
    words: tuple[str, ...], code: int, ends: str, capsys: Printed
) -> None:
    assert run("--subject", "directory", "--gateways", "2", "--gateways-to", "3", *words) == code
    *told, last = capsys.readouterr().out.splitlines()
    assert last == ends
    seeds = [line.partition(":")[0] for line in told if line.startswith("seed ")]
    first = 3 if "--seed" in words else 1
    assert seeds == [f"seed {number}" for number in range(first, first + int(words[1]))]
    assert "5 gateways" in told[0], "as many as were drawn between both"


@pytest.mark.usefixtures("drawn")
def test_runs_are_one_document_for_scripts(capsys: Printed) -> None:
    assert run("--subject", "directory", "--runs", "2", "--gateways", "4", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["failed"]) == (2, 1)
    assert told["reports"] == [
        {
            "seed": seed,
            "gateways": 8,
            "replay": "hedgerow simulate --again",
            "violations": ["invariant 1 at 2.000000 s: two roots; replay: again"] * (seed == 2),
            "convergence_s": 0.5,
            "hellos": 1,
            "messages": 2,
            "events": 10,
            "faults": 3,
            "published": 4,
            "forgotten": 0,
        }
        for seed in (1, 2)
    ]


@pytest.mark.usefixtures("drawn")
def test_what_is_drawn_goes_to_other_processes_with_all_that_is_in_it(capsys: Printed) -> None:
    assert run("--subject", "directory", "--runs", "1") == 0
    assert capsys.readouterr().err == ""
    assert {DrawnOptions, PartOfDrawn} <= copyreg.dispatch_table.keys()
    made = DrawnOptions(1, 2)
    assert pickle.loads(pickle.dumps(made)) == made


COSTS = [
    Cost(1_000, "look-up", 12_345, 1_234_567, 0.0126, 1_001, 2_002, 3_003),
    Cost(10, "change", 1, 2, 1.0, 3, 4, 5),
]


def test_what_directories_cost_is_a_table_and_a_document(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def measure(gateways: int, seed: int) -> list[Cost]:
        asked.append((gateways, seed))
        return COSTS if gateways == 10 else []

    monkeypatch.setattr(costs, "measure", measure)
    assert run("--subject", "directory", "--growth", "100", "--seed", "7") == 0
    assert capsys.readouterr().out == (
        "| gateways | what | messages | bytes | ms | found | busiest head | busiest other |\n"
        "|--:|---|--:|--:|--:|--:|--:|--:|\n"
        "| 1,000 | look-up | 12,345 | 1,234,567 | 13 | 1,001 | 2,002 | 3,003 |\n"
        "| 10 | change | 1 | 2 | 1000 | 3 | 4 | 5 |\n"
    )
    assert asked == [(10, 7), (100, 7)]
    assert run("--subject", "directory", "--growth", "10", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [(one["gateways"], one["octets"]) for one in told] == [(1_000, 1_234_567), (10, 2)]
    asked.clear()
    assert run("--subject", "directory", "--growth", "10000") == 0
    assert [gateways for gateways, _ in asked] == [10, 100, 1_000], "ten thousand take too long"


def test_how_a_tree_grows_is_a_table_and_a_document(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow(gateways: int, *, seed: int) -> Growth:
        assert seed == 1
        return Growth(gateways, 4, 3, 1.254, 2.26, 3.254, 4.256, 5.26, 6_000)

    monkeypatch.setattr(growth, "grow", grow)
    assert run("--growth") == 0
    *_, row, last = capsys.readouterr().out.splitlines()
    assert row == "| 100 | 3 | 1.25 | 2.3 | 3.25 | 4.26 | 5.3 | 6,000 |"
    assert last.startswith("| 1,000 | ")
    assert run("--growth", "99", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["gateways"], told["degree"], told["tree_bytes"]) == (10, 4, 6_000)


def test_how_long_mending_takes_is_a_table_and_a_document(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_faults(seed: int) -> Timing:
        return Timing(seed, seed / 100, None, None if seed == 5 else 0.0126, 0.5, 2.0)

    monkeypatch.setattr(timing, "time_faults", time_faults)
    assert run("--timing", "--runs", "3", "--seed", "5") == 0
    assert capsys.readouterr().out == (
        "| ms | times | median | 99 % | greatest |\n|---|--:|--:|--:|--:|\n"
        "| cold start | 3 | 60 | 60 | 70 |\n"
        "| link to the parent broken, none known | 2 | 13 | 13 | 13 |\n"
        "| root killed | 3 | 500 | 500 | 500 |\n"
        "| link to the parent silent | 3 | 2000 | 2000 | 2000 |\n"
    )
    assert run("--timing", "--runs", "1", "--seed", "6", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cold_start_s"] == {
        "times": 1,
        "median_s": 0.06,
        "percentile_99_s": 0.06,
        "greatest_s": 0.06,
    }
    assert "switch_s" not in told


@pytest.mark.parametrize(("found", "code"), [([], 0), (["two roots: a, b"], 1)])
def test_each_search_is_told_and_what_it_found_is_a_failure(
    found: list[str], code: int, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def explore(_: object, most_states: int) -> SearchCoverage:
        asked.append(most_states)
        return SearchCoverage(5, 6, 7, False, found)

    monkeypatch.setattr(build, "running", lambda: "interpreted")
    monkeypatch.setattr(exploration, "run", explore)
    searches = [one for one in exploration.SEARCHES if one.gateways == 3]
    assert run("--exhaustive", "3", "--states", "9") == code
    assert capsys.readouterr().out == "".join(
        f"{one}: 5 states, 6 events, 7 left alone, NOT COMPLETE\n"
        + "".join(f"  {line}\n" for line in found)
        for one in searches
    )
    assert asked == [9] * len(searches)
    assert run("--exhaustive", "3", "--json") == code
    told = json.loads(capsys.readouterr().out)
    assert (told["searches"], told["failed"]) == (len(searches), code * len(searches))
    assert told["reports"][0]["search"] == str(searches[0])
    assert told["reports"][0]["states"] == 5


def test_the_compiled_build_searches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "running", lambda: "compiled")
    with pytest.raises(WrongUseError) as refused:
        run("--exhaustive", "2")
    assert str(refused.value) == "--exhaustive: not with the compiled build; run it interpreted"


def test_the_most_gateways_are_no_fewer_than_the_fewest(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongUseError, match=r"^--gateways-to: 7 is fewer than 8$"):
        run("--gateways-to", "7")
    asked: list[tuple[int, ...]] = []

    def draw(*numbers: int, **_: object) -> bool:
        asked.append(numbers)
        return True

    monkeypatch.setattr(simulate, "draw", draw)
    assert run("--gateways-to", "8") == run("--gateways", "2", "--seed", "-1") == 0
    assert asked == [(100, 8, 8, 1), (100, 2, 2, -1)]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--runs", "0"), "--runs: 0 is not 1 or more"),
        (("--gateways", "1"), "--gateways: 1 is not 2 or more"),
        (("--gateways-to", "1"), "--gateways-to: 1 is not 2 or more"),
        (("--years", "0"), "--years: 0 is not 1 or more"),
        (("--states", "0"), "--states: 0 is not 1 or more"),
        (("--growth", "9"), "--growth: 9 is not 10 or more"),
        (("--runs", "x"), "--runs: 'x' is no whole number"),
        (("--exhaustive", "5"), "--exhaustive: invalid choice: 5"),
        (("--exhaustive", "2", "--timing"), "not allowed with argument --exhaustive"),
        (("--liar", "--subject", "years"), "not allowed with argument --liar"),
    ],
)
def test_numbers_below_their_limit_and_options_that_exclude_each_other_are_refused(
    words: tuple[str, ...], why: str, capsys: Printed
) -> None:
    with pytest.raises(SystemExit):
        run(*words)
    assert why in capsys.readouterr().err
