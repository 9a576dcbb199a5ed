"""Feeds the ingest job for a time, without Spark; a seed that breaks something is told."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile_job import run

FIRST_SEED = 1_000


def report(seconds: float) -> str:
    """Run one seed after the other; what broke is raised."""
    end_s = time.monotonic() + seconds
    messages = 0
    seed = FIRST_SEED
    while time.monotonic() < end_s:
        messages += replayed(seed)
        seed += 1
    return f"{messages} messages in {seed - FIRST_SEED} jobs, each in one table and none set aside"


def replayed(seed: int) -> int:
    """Run one seed; return how many messages it has."""
    with tempfile.TemporaryDirectory(prefix="hedgerow-fuzz-") as folder:
        try:
            return run(Path(folder), seed)
        except BaseException:
            sys.stdout.write(f"\nreplay with: {sys.executable} tests/fuzz ingest --replay {seed}\n")
            sys.stdout.flush()
            raise
