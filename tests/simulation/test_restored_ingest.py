"""Parts of the ingest job are lost and brought back alone: each message is in a table once.

The drawn runs take seeds; those that follow are what a review found, one each.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from restored_ingest import PARTS, IngestWorld

STEPS = 14
SEEDS = 2
SOAKED_SEEDS = 150


def filled(folder: Path) -> IngestWorld:
    """A world with a backup, and with more in its tables than the backup has."""
    world = IngestWorld(folder, 1)
    for _ in range(8):
        world.publish()
    world.run()
    world.back_up()
    for _ in range(8):
        world.publish()
    world.run()
    return world


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_comes_back_from_a_backup_loses_and_doubles_nothing(
    part: str, tmp_path: Path
) -> None:
    world = filled(tmp_path)
    world.restore(part)
    for _ in range(4):
        world.publish()
    world.check()


@pytest.mark.parametrize("part", ["telemetry", "quarantine"])
def test_a_table_that_delta_restores_loses_and_doubles_nothing(part: str, tmp_path: Path) -> None:
    world = filled(tmp_path)
    world.restore_in_delta(part)
    world.publish()
    world.check()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_made_anew_loses_and_doubles_nothing(part: str, tmp_path: Path) -> None:
    world = filled(tmp_path)
    world.lose(part)
    world.publish()
    world.check()


def test_new_tables_under_an_old_checkpoint_get_all_that_the_spools_have(tmp_path: Path) -> None:
    world = filled(tmp_path)
    for part in ("telemetry", "quarantine", "_ledger"):
        world.lose(part)
    world.check()


def test_collectors_are_told_to_keep_what_new_tables_do_not_have(tmp_path: Path) -> None:
    world = filled(tmp_path)
    world.lose("telemetry")
    world.run("planned", passes=0)
    assert not list(tmp_path.glob("spool-*/committed.ingest"))


def test_whatever_is_lost_killed_and_brought_back_each_message_is_in_a_table_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for seed in range(SOAKED_SEEDS if request.config.getoption("--soak") else SEEDS):
        world = IngestWorld(tmp_path / str(seed), seed)
        acts = [world.publish, world.publish, world.publish, world.kill, world.run, world.back_up]
        told = []
        for _ in range(STEPS):
            part = world.draw.choice(PARTS)
            drawn = world.draw.randrange(len(acts) + 4)
            if drawn < len(acts):
                told.append(acts[drawn].__name__)
                acts[drawn]()
                continue
            name = ("restore", "lose", "restore_in_delta", "replace_disk")[drawn - len(acts)]
            told.append(f"{name} {part}")
            if name == "restore":
                world.restore(part)
            elif name == "lose" and part in ("_ledger", "checkpoint"):
                world.lose(part)
            elif name == "restore_in_delta" and part in ("telemetry", "quarantine"):
                world.restore_in_delta(part)
            elif name == "replace_disk":
                world.replace_disk()
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {told}") from error


@pytest.mark.parametrize("part", ["telemetry", "quarantine"])
def test_an_older_copy_of_a_table_is_known_without_a_snapshot_too(
    part: str, tmp_path: Path
) -> None:
    world = filled(tmp_path)
    world.restore(part)
    world.lose("_ledger")
    world.publish()
    world.check()


@pytest.mark.parametrize("part", ["telemetry", "quarantine"])
def test_a_copy_of_a_table_that_is_younger_than_the_snapshot_is_known_as_older_than_the_other(
    part: str, tmp_path: Path
) -> None:
    world = IngestWorld(tmp_path, 1)
    for _ in range(8):
        world.publish()
    world.run()
    for _ in range(2):
        for _ in range(8):
            world.publish()
        world.back_up()
        world.run(ends=False)
    world.restore(part)
    world.publish()
    world.check()
