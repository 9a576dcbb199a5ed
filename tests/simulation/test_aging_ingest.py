"""Months of an ingest whose parts are lost, set back, trimmed and misled by clocks, together."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from aging_ingest import AgingIngest

STEPS = 12
SEEDS = 1
SOAKED_SEEDS = 100
LOST = ("_ledger", "checkpoint")
SET_BACK = ("telemetry", "quarantine")


def acts(world: AgingIngest) -> dict[str, Callable[[], object]]:
    """Return the acts that may happen, by name; what is often there happens often."""
    draw = world.draw.choice
    return {
        "publish": world.publish,
        "publish more": world.publish,
        "copy": world.copy,
        "kill": world.kill,
        "run": world.run,
        "back up": world.back_up,
        "time": world.pass_time,
        "months": world.pass_months,
        "clock": world.turn_a_clock,
        "another clock": world.turn_a_clock,
        "trim": world.trim,
        "replace disk": world.replace_disk,
        "lose": lambda: world.lose(draw(LOST)),
        "restore": lambda: world.restore(draw((*LOST, *SET_BACK))),
        "restore in delta": lambda: world.restore_in_delta(draw(SET_BACK)),
    }


def test_over_months_of_losses_and_wrong_clocks_each_message_is_there_once_and_none_is_missed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    many = SOAKED_SEEDS if request.config.getoption("--soak") else SEEDS
    for drawn in range(seed, seed + many):
        world = AgingIngest(tmp_path / str(drawn), drawn)
        may = acts(world)
        told = []
        try:
            for _ in range(STEPS):
                told.append(world.draw.choice(list(may)))
                may[told[-1]]()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {drawn}: {told}") from error


def test_what_a_killed_job_had_told_nobody_is_not_missed_without_its_ledger(tmp_path: Path) -> None:
    world = AgingIngest(tmp_path, 5)
    for _ in range(12):
        world.publish()
    world.run()
    for _ in range(6):
        world.publish()
    world.run("committed")
    world.lose("_ledger")
    world.check()


@pytest.mark.parametrize("comes_back", [True, False])
def test_what_an_older_state_of_the_watch_or_none_does_not_know_is_not_missed(
    comes_back: bool, tmp_path: Path
) -> None:
    world = AgingIngest(tmp_path, 5)
    for _ in range(12):
        world.publish()
    world.run()
    state = world.place("_fleet")
    if comes_back:
        shutil.copytree(state, tmp_path / "older")
    for _ in range(40):
        world.publish()
    world.run()
    world.lose("_fleet")
    if comes_back:
        shutil.copytree(tmp_path / "older", state)
    world.check()
