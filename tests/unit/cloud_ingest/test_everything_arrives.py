"""Whatever clients publish is in telemetry or in quarantine, once, and the job lives on.

`python tests/fuzz ingest` runs the same for as long as one likes.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest
from hostile_feed import RULES, HostileFeed, missing_and_doubled
from hostile_job import run
from spark_runs import ingest

from cloud_ingest.mapping import rules as mapping_rules


@pytest.mark.parametrize("seed", [1, 107])
def test_whatever_is_published_is_in_one_of_two_tables_once(seed: int, tmp_path: Path) -> None:
    assert run(tmp_path, seed, triggers=4, batches=20) > 100


def test_what_a_seed_draws_is_in_one_of_two_tables_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    assert run(tmp_path, 2_000 + seed, triggers=4, batches=20) > 100


@pytest.mark.soak("starts Spark; the steps without it are run above")
def test_whatever_is_published_goes_through_spark_into_one_of_two_tables_once(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark: Any = request.getfixturevalue("spark")
    feed = HostileFeed(tmp_path / "spool", random.Random(request.config.getoption("--seed")))
    for _ in range(10):
        feed.segment(300)
        with caplog.at_level(logging.WARNING):
            ingest(spark, feed, tmp_path / "tables", mappings=mapping_rules.read(RULES))
    assert missing_and_doubled(tmp_path / "tables", feed.published) == (set(), set())
    assert "set aside" not in caplog.text
