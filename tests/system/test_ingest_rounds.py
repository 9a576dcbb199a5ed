"""In each round over one set of tables a process of the ingest is killed, on real Spark.

The driver, the workers of Python and an executor in mid-task, the process of Spark's Python source,
a collector, and a compactor beside the job take turns. Meanwhile the checkpoint or the ledger is
deleted, a disk is full, or one clock is wrong. After each round every message that gateways
published is in telemetry or in quarantine, once, by a reader that knows only Delta's log and
Parquet. In the end each alert was raised once, was right, and is cleared. A webhook that refuses
every third time has been told so, once of each.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from alert_receiver import AlertReceiver
from disks import Tmpfs
from ingest_rounds import A_BATCH, GATEWAYS, HOLED, ODD, RoundFleet, TableReader
from round_job import RoundJob

pytestmark = [
    pytest.mark.timeout(0),
    pytest.mark.soak("half an hour; each step of the job is killed in test_ingest_crashes.py"),
]

TROUBLES = {
    "driver": ("both", "clock", "checkpoint", "ledger", "clock"),
    "worker": ("spool's disk", "", "tables' disk", "", "spool's disk"),
    "source runner": ("tables' disk", "", "spool's disk", "tables' disk", ""),
    "collector": ("clock", "spool's disk", "clock", "clock", "clock"),
    "compactor": ("", "tables' disk", "spool's disk", "", "tables' disk"),
    "executor": ("", "tables' disk", "spool's disk", "", "tables' disk"),
}
"""The trouble of each round, by the kind of process that is killed in it.

Only a driver that is started again takes another clock, or finds its checkpoint gone. A start takes
longer than any round without one.
"""
CLOCKS_S = (60.0, -60.0, 86_400.0, -86_400.0, 40 * 365 * 86_400.0, -40 * 365 * 86_400.0)


class Rounds:
    """The rounds over the ingest of one fleet, and what each does to it.

    Args:
        fleet: it publishes all the time.
        job: over its spools.
        disks: of the second spool, and of the tables.
        receiver: of the job's alerts.
        chance: when things happen.

    """

    def __init__(
        self,
        fleet: RoundFleet,
        job: RoundJob,
        disks: dict[str, Tmpfs],
        receiver: AlertReceiver,
        chance: random.Random,
    ) -> None:
        self._fleet = fleet
        self._job = job
        self._disks = disks
        self._receiver = receiver
        self._chance = chance
        self._reader = TableReader(job.tables)
        self._clocks_s = list(CLOCKS_S)
        chance.shuffle(self._clocks_s)
        self._is_job_wrong = False

    def play(self, number: int, party: str, trouble: str) -> None:
        """Have one process killed while something else is wrong."""
        self._fleet.keep_back()
        self._fleet.read_odd(number, 1_000.0)
        self._kill(party, trouble)
        self._job.wait(lambda: self._are_open(number))
        self._fleet.bring()
        self._fleet.read_odd(number, 1.0)
        self.check()
        # What is open when the next batch goes missing would stand for that one, too.
        self._job.wait(self._are_all_cleared)

    def check(self) -> int:
        """Wait until all that is published is in the tables, and return how much that is."""
        published = set(self._fleet.published)
        missing = published

        def has_come() -> bool:
            nonlocal missing
            counts = self._reader.count()
            doubled = [stamp for stamp, times in counts.items() if times > 1]
            assert not doubled, f"{len(doubled)} are doubled: {sorted(doubled)[:10]}"
            missing = published - counts.keys()
            return not missing

        try:
            self._job.wait(has_come)
        except AssertionError as error:
            raise AssertionError(
                f"{len(missing)} missing: {sorted(missing)[:10]}: {error}"
            ) from error
        return len(published)

    def check_alerts(self, rounds: int) -> None:
        """Wait until all alerts are cleared: each round has raised its two, and nothing more."""
        self._job.wait(self._are_all_cleared)
        rows = self._job.alerts()
        about = ("kind", "gateway", "sensor", "value")
        wanted = Counter(
            ("sensor-range", GATEWAYS[0], f"{ODD}{number}", 1_000.0) for number in range(rounds)
        )
        wanted["gap", HOLED, None, float(A_BATCH)] = rounds
        assert Counter(tuple(row[name] for name in about) for row in rows) == wanted
        assert len({row["alert"] for row in rows}) == len(rows)
        assert all(row["opened"] <= row["cleared"] for row in rows)
        self._check_told({row["alert"] for row in rows})

    def _check_told(self, alerts: set[str]) -> None:
        """Wait until the webhook knows of each alert that it was raised and cleared."""
        told = self._receiver.told
        wanted = {(alert, change) for alert in alerts for change in ("raised", "cleared")}
        self._job.wait(lambda: wanted <= told.keys())
        assert {alert for alert, _ in told} == alerts
        twice = {about: names for about, names in told.items() if len(names) > 1}
        assert not {about for about in twice if about[1] in ("raised", "cleared")}, twice

    def _kill(self, party: str, trouble: str) -> None:
        clock_s = 0.0
        if trouble == "clock":  # one is wrong at a time: by two of three nobody knows the third
            clock_s = self._clocks_s.pop()
            self._fleet.set_clocks_right()
            if self._is_job_wrong and party != "driver":
                self._job.kill()
                self._start(0.0)
        disk = self._disks.get(trouble)
        if disk is not None:
            disk.fill()
        time.sleep(self._chance.uniform(0, 2))  # somewhere in a trigger
        if party == "driver":
            self._job.kill()
        elif party == "collector":
            self._fleet.kill_one(clock_s)
        elif party == "compactor":
            self._job.kill_compactor(self._chance)
        else:
            self._job.kill_one(party)
        before = self._job.commits()
        if disk is not None:
            time.sleep(self._chance.uniform(0, 2))
            disk.free()
        if party == "driver":
            self._job.forget(trouble)
            self._start(clock_s)
        self._job.wait(lambda: self._job.commits() > before + 1)

    def _start(self, clock_s: float) -> None:
        self._is_job_wrong = bool(clock_s)
        self._job.start(clock_s)

    def _are_all_cleared(self) -> bool:
        return all(row["cleared"] for row in self._job.alerts())

    def _are_open(self, number: int) -> bool:
        """Return whether the round's two alerts are open."""
        rows = [row for row in self._job.alerts() if not row["cleared"]]
        is_odd = any(row["sensor"] == f"{ODD}{number}" for row in rows)
        return is_odd and any(row["kind"] == "gap" for row in rows)


def drawn(turns: int, chance: random.Random) -> list[tuple[str, str]]:
    """Draw the order of the rounds: who is killed in each, and what else is wrong.

    Executors come last, and right before them a driver: it starts again on a small cluster.
    """
    plan = [(party, trouble) for party in TROUBLES for trouble in TROUBLES[party][:turns]]
    chance.shuffle(plan)
    executors = [one for one in plan if one[0] == "executor"]
    last_driver = [one for one in plan if one[0] == "driver"][-1]
    plan.remove(last_driver)
    return [*(one for one in plan if one[0] != "executor"), last_driver, *executors]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, Tmpfs]]:
    with contextlib.ExitStack() as stack:
        made = {}
        for name, size_kib in (("spool's disk", 4_096), ("tables' disk", 1_500_000)):
            made[name] = Tmpfs(tmp_path / name.replace("'s ", "-").replace("' ", "-"), size_kib)
            stack.callback(made[name].unmount)
        yield made


@pytest.mark.parametrize("turns", [1, 5], ids=["6 rounds", "30 rounds"])
def test_whoever_is_killed_each_message_and_each_alert_is_there_once(
    tmp_path: Path, disks: dict[str, Tmpfs], pytestconfig: pytest.Config, turns: int
) -> None:
    chance = random.Random(pytestconfig.getoption("--seed"))
    plan = drawn(turns, chance)
    spools = [tmp_path / "spool-a", disks["spool's disk"].folder / "spool-b"]
    fleet = RoundFleet(spools, chance)
    receiver = AlertReceiver()
    with (
        receiver.serving(),
        RoundJob(tmp_path, disks["tables' disk"].folder, spools, receiver.url) as job,
        fleet.publishing(),
    ):
        rounds = Rounds(fleet, job, disks, receiver, chance)
        job.start()
        job.wait(lambda: job.commits() > 2)
        began_s = time.monotonic()
        for number, (party, trouble) in enumerate(plan):
            job.has_executors = plan[min(number + 1, len(plan) - 1)][0] == "executor"
            told = f"round {number}: {party}{trouble and ', '}{trouble}"
            try:
                rounds.play(number, party, trouble)
            except AssertionError as error:
                raise AssertionError(f"{told}: {error}") from error
            _say(f"{told}: {len(fleet.published)} messages, {time.monotonic() - began_s:.0f} s")
        fleet.stop()
        messages = rounds.check()
        rounds.check_alerts(len(plan))
        assert job.metrics()["hedgerow_ingest_micro_batches"] > 0
        kinds = dict(Counter(party for party, _ in plan))
        _say(f"{len(plan)} rounds, kills {kinds}, {messages} messages, {2 * len(plan)} alerts")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
