"""The job itself is killed with SIGKILL at moments of chance while a collector's spool grows.

Each record is then in the tables once: records come twice, over two spools; workers of Python and
the process of Spark's Python source die, and the job lives on; checkpoint and ledger are deleted on
the way.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from pathlib import Path

import psutil
import pytest
from ingest_bed import DEADLINE_S, Collected, Job, check, kill, source_runners, until, workers

ROUNDS = 30

pytestmark = [
    pytest.mark.timeout(0),
    pytest.mark.soak("minutes; each step of the job is killed in test_ingest_crashes.py"),
]


def test_killing_the_job_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    chance = random.Random(pytestconfig.getoption("--seed"))
    collected = Collected(tmp_path, chance)
    tables = tmp_path / "tables"
    job = Job(collected, tables, tmp_path / "checkpoint")
    forgotten: list[Path | None] = [None, job.checkpoint, tables / "_ledger"]
    with collected.growing():
        for number in range(ROUNDS):
            process = job.start("--follow", "--trigger-s", "0.2", "--compact", "--compact-every=5")
            try:
                before = job.commits()
                until(lambda: job.commits() > before + 1, process)  # noqa: B023  # at once
                if number % 2 == 0:
                    before = job.commits()
                    for worker in [*source_runners(process), *workers(process)]:
                        with contextlib.suppress(psutil.NoSuchProcess):
                            worker.kill()
                    until(lambda: job.commits() > before + 1, process)  # noqa: B023
                time.sleep(chance.uniform(0, 1))  # somewhere in a trigger
            finally:
                kill(process)
            forget = forgotten[number % len(forgotten)]
            if forget is not None:
                shutil.rmtree(forget, ignore_errors=True)
    process = job.start()
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors.decode()
    check(job)
