"""Alerts of an ingest in which gateways, collectors, the job, its parts and clocks go wrong.

A run draws causes, which begin and end and lie over each other, and faults that are to raise
nothing. After each it holds what is told against what is so: every alert that is to be open is,
no other one, each was raised as often as its cause was there, and a way out was told of each
change. At its end each message is in the tables once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from troubled_ingest import TroubledIngest

ACTS = 1
SOAKED_ACTS = 25
SOAKED_SEEDS = 60


def test_every_alert_is_true_and_raised_and_cleared_once_whatever_else_goes_wrong(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    is_long = request.config.getoption("--soak")
    for drawn in range(seed, seed + (SOAKED_SEEDS if is_long else 1)):
        world = TroubledIngest(tmp_path / str(drawn), drawn)
        told: list[str] = []
        try:
            world.settle(2)
            for _ in range(SOAKED_ACTS if is_long else ACTS):
                world.act(told)
                world.look()
            world.end_all(told)
            world.look()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {drawn}: {told}") from error
