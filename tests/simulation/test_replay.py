"""A run that fails says how to run it again, whatever was simulated, and that shows the same."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from unstopped_trees import all_but_to_stop

from gateway.tools import cli
from tree_handler.proof import Verdict
from tree_handler.retained.proof import RetainedProofs
from tree_handler.retained.sync import RetainedSync
from tree_handler.routing.destination import Destination
from tree_handler.sharing.groups import FleetGroups
from tree_handler.simulation.runs import Options, run
from tree_handler.simulation.subjects import SUBJECTS
from tree_handler.spanning.spanning_tree import SpanningTree

GUARDS: dict[str, tuple[type, str, Any]] = {
    "tree": (SpanningTree, "take_actions", all_but_to_stop),
    "routed": (Destination, "claimed", lambda *_: []),
    "topic": (Destination, "claimed", lambda *_: []),
    "overlays": (SpanningTree, "take_actions", all_but_to_stop),
    "retained": (RetainedSync, "link_up", lambda *_: None),
    "shared": (FleetGroups, "gives", lambda *_: True),
    "liar": (SpanningTree, "take_actions", all_but_to_stop),
    "retained-liar": (RetainedProofs, "check", lambda *_: Verdict.PROVEN),
}
"""The guard that is taken away from each subject, so that some of its runs fail."""
MANY = pytest.mark.soak("it is one command for all subjects: CI tries it with two of them")
SOME = [
    subject if subject in ("tree", "routed") else pytest.param(subject, marks=MANY)
    for subject in SUBJECTS
]


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = cli.main(["simulate", *arguments])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all runs in this process: what a test takes away is away in it alone."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("subject", SOME)
def test_the_printed_command_shows_the_violation_again(
    subject: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = "--subject", subject, "--runs", "5", "--gateways", "3", "--gateways-to", "6"
    assert simulate(capsys, *sweep)[0] == 0
    monkeypatch.setattr(*GUARDS[subject])
    code, lines = simulate(capsys, *sweep)
    assert code == 1
    end = next(at for at, line in enumerate(lines) if line.startswith("  replay: "))
    begin = max(at for at in range(end) if lines[at].startswith("seed "))
    command = shlex.split(lines[end].removeprefix("  replay: "))
    assert command[:2] == ["hedgerow", "simulate"]
    assert simulate(capsys, *command[2:]) == (
        1,
        [*lines[begin : end + 1], f"1 runs, 1 of them failed; {_events(lines[begin])} events"],
    )


def _events(head: str) -> str:
    return next(part for part in head.split(", ") if part.endswith("events")).split()[0]


@pytest.mark.usefixtures("one_process")
def test_scripts_are_given_the_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = simulate(capsys, "--subject", "routed", "--runs", "1", "--gateways", "3", "--json")
    (report,) = json.loads("\n".join(lines))["reports"]
    command = "hedgerow simulate --subject routed --seed 1 --gateways 3 --runs 1"
    assert report["replay"] == command


@pytest.mark.parametrize("subject", SUBJECTS)
def test_options_that_no_seed_draws_are_told_in_full(subject: str) -> None:
    options: Options = replace(SUBJECTS[subject].drawn(1, 3), faults_s=0.5)
    assert options.replay.startswith(f"runs.run({type(options).__name__}(1, ")
    assert "faults_s=0.5" in options.replay
    assert run(options).options == options


@pytest.mark.parametrize("subject", SOME)
def test_a_run_is_the_same_in_each_process(subject: str) -> None:
    def reports(hash_seed: str) -> str:
        sweep = "--subject", subject, "--runs", "1", "--gateways", "5", "--seed", "70", "--json"
        return subprocess.run(
            [sys.executable, "-m", "gateway.tools.cli", "simulate", *sweep],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout

    assert reports("1") == reports("2") != ""
