"""An hour of a fleet in which much goes wrong: each fault has its alert once, and nothing else."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections import Counter

import pyarrow as pa
import pytest
from troubled_fleet import HOUR_S, RULES, Raised, raised, troubled
from watched_fleet import WatchedFleet, at

from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.fleet.rules import read
from cloud_ingest.fleet.watch import FleetWatch


class Watched:
    """A watch that is asked after each batch, its alerts, and what that took."""

    def __init__(self) -> None:
        self.watch = FleetWatch(read(RULES))
        self.alerts = pa.table({})
        self.tables: dict[str, pa.Table] = {}
        self.rows: Counter[str] = Counter()
        self.longest_s = 0.0
        self.total_s = 0.0
        self.batches = 0

    def take(self, facts: BatchFacts) -> None:
        begin = time.perf_counter()
        self.watch.take(facts)
        changes = self.watch.changes(facts.committed_us)
        self.watch.state()
        took_s = time.perf_counter() - begin
        self.longest_s = max(self.longest_s, took_s)
        self.total_s += took_s
        self.batches += 1
        self.watch.written(changes)
        self.tables.update(changes.replace)
        self.rows.update({name: table.num_rows for name, table in changes.append.items()})

    def raised(self) -> Raised:
        """Alerts by kind, gateway and whether they are cleared."""
        return raised(self.tables["alerts"])


@pytest.mark.timeout(1_200)
def test_an_hour_of_trouble_raises_each_alert_once_and_no_false_one(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    is_long = request.config.getoption("--soak")
    count = 1_000 if is_long else 40
    fleet, wanted = troubled(count)
    watched = Watched()
    for facts in fleet.batches(HOUR_S):
        watched.take(facts)
    assert watched.raised() == wanted
    rows = {row["gateway"]: row for row in watched.tables["gateways"].to_pylist()}
    assert len(rows) == count
    assert rows["gw-0001"]["health"] == "silent"
    assert rows["gw-0003"]["health"] == "warning"
    assert rows["gw-0020"]["health"] == "good"
    assert rows["gw-0020"]["gaps"] == 0
    missing = sum(last - first + 1 for first, last in fleet[15].lost)
    assert rows["gw-0015"]["gaps"] == missing > 0
    if is_long:
        each_ms = 1_000 * watched.total_s / watched.batches
        state_bytes = len(watched.watch.state())
        told = (
            f"\n{count} gateways, {watched.batches} batches: {each_ms:.0f} ms a batch, "
            f"{1_000 * watched.longest_s:.0f} ms the longest, {state_bytes} bytes of state\n"
        )
        with capsys.disabled():
            sys.stdout.write(told)


def test_the_state_of_a_fleet_does_not_grow_with_the_hours() -> None:
    fleet, watched = WatchedFleet(10), Watched()
    sizes = []
    tracemalloc.start()
    try:
        for hour in (0.25, 0.5, 0.75, 1.0):
            for facts in fleet.batches(hour * HOUR_S):
                watched.take(facts)
            sizes.append((len(watched.watch.state()), tracemalloc.get_traced_memory()[0]))
    finally:
        tracemalloc.stop()
    assert sizes[-1][0] < 1.05 * sizes[0][0]
    assert sizes[-1][1] < 1.5 * sizes[0][1] + 500_000
    assert at(0) < watched.watch.progress_us  # type: ignore[operator]  # it has taken something
