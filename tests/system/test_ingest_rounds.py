"""Thirty rounds over one set of tables: in each a drawn process of the ingest is killed.

Checkpoint and ledger are deleted, disks filled, and clocks moved in drawn rounds. After each round
every message that gateways published is in telemetry or in quarantine, once, by a reader that knows
only Delta's log and Parquet. In the end each alert was raised once, and is cleared.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from disks import Tmpfs
from ingest_bed import kill, source_runners, workers
from ingest_rounds import HOLED, RULES, Counted, RoundFleet

from cloud_ingest.tables.store import TableStore

pytestmark = [pytest.mark.timeout(0), pytest.mark.slow]

HERE = Path(__file__).parent
PARTIES = ("driver", "worker", "source runner", "executor", "collector", "compactor")
TROUBLES = ("", "checkpoint", "ledger", "both", "spool's disk", "tables' disk", "clocks")
TURNS = 5
PATIENCE_S = 900.0
CLOCKS_S = (60.0, -60.0, 86_400.0, -86_400.0, 40 * 365 * 86_400.0)
MASTER = (
    *("--master", "local-cluster[1,2,512]", "--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
)


@dataclass
class Rounds:
    """The ingest of one fleet, and what each round does to it."""

    folder: Path
    chance: random.Random
    disks: list[Tmpfs] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = self.disks[1].folder / "tables"
        self.checkpoint = self.disks[1].folder / "checkpoint"
        spools = [self.folder / "spool-a", self.disks[0].folder / "spool-b"]
        for spool in spools:
            spool.mkdir()
        self.fleet = RoundFleet(spools, self.chance)
        self.rules = self.folder / "alerts.toml"
        self.rules.write_text(RULES)
        self.process: subprocess.Popen[bytes] | None = None
        self.has_executors = False

    def start(self, *more: str, clock_s: float = 0.0) -> subprocess.Popen[bytes]:
        spools = [word for spool in self.fleet.spools for word in ("--spool", str(spool))]
        places = ("--tables", str(self.tables), "--checkpoint", str(self.checkpoint))
        master = MASTER if self.has_executors else ()
        words = (*spools, *places, "--alerts", str(self.rules), *master, *more)
        program = (HERE / "shifted_clock.py", str(clock_s), "cloud_ingest.job.command")
        with (self.folder / "job.log").open("ab") as log:
            return subprocess.Popen((sys.executable, *program, *words), stdout=log, stderr=log)

    def follow(self, clock_s: float = 0.0) -> None:
        """Start the job, if none runs."""
        if self.process is None or self.process.poll() is not None:
            self.process = self.start(
                *("--follow", "--trigger-s", "0.2", "--compact", "--compact-every=7"),
                clock_s=clock_s,
            )

    def wait(self, holds: Callable[[], bool]) -> None:
        assert self.process is not None
        end_s = time.monotonic() + PATIENCE_S
        while not holds():
            has_ended = self.process.poll() is not None
            if has_ended or time.monotonic() > end_s:
                log = (self.folder / "job.log").read_text()
                raise AssertionError(f"{'ended' if has_ended else 'not in time'}:\n{log[-3000:]}")
            time.sleep(0.2)

    def commits(self) -> int:
        log = self.tables / "telemetry" / "_delta_log"
        return sum(1 for path in log.glob("*.json") if path.stem.isdigit())

    def goes_on(self) -> None:
        """Wait until the job has taken something more."""
        before = self.commits()
        self.wait(lambda: self.commits() > before + 1)

    def alerts(self) -> list[dict[str, object]]:
        try:
            table: pa.Table = TableStore(str(self.tables / "alerts")).table().to_pyarrow_table()
        except Exception:  # not there yet, or between two versions
            return []
        rows: list[dict[str, object]] = table.to_pylist()
        return rows

    # -- who is killed ---------------------------------------------------------------------------

    def kill_driver(self) -> None:
        assert self.process is not None
        kill(self.process)

    def kill_one(self, found: Callable[[subprocess.Popen[bytes]], list[psutil.Process]]) -> None:
        """Kill all processes of a kind that the job has started, once there are some."""
        process = self.process
        assert process is not None
        self.wait(lambda: bool(found(process)))
        for one in found(process):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.goes_on()

    def kill_collector(self, clock_s: float = 0.0) -> None:
        one = self.chance.choice(self.fleet.collectors)
        one.kill()
        time.sleep(self.chance.uniform(0, 1))
        one.start(clock_s)

    def kill_compactor(self) -> None:
        command = (sys.executable, "-m", "cloud_ingest.job.command", "--tables", str(self.tables))
        more = ("--compact", "--vacuum-hours", "24")
        compactor = subprocess.Popen((*command, *more), stderr=subprocess.DEVNULL)
        reading = str(self.tables)
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            look = psutil.Process(compactor.pid)
            while compactor.poll() is None:
                if any(each.path.startswith(reading) for each in look.open_files()):
                    break
        time.sleep(self.chance.uniform(0, 0.2))
        compactor.kill()
        compactor.wait()

    # -- a round ---------------------------------------------------------------------------------

    def act(self, party: str, trouble: str) -> None:
        clock_s = self.chance.choice(CLOCKS_S) if trouble == "clocks" else 0.0
        disk = {"spool's disk": self.disks[0], "tables' disk": self.disks[1]}.get(trouble)
        if disk is not None:
            disk.fill()
            time.sleep(self.chance.uniform(0, 1))
        time.sleep(self.chance.uniform(0, 1))  # somewhere in a trigger
        if disk is not None and party not in ("driver", "collector", "compactor"):
            disk.free()  # nobody goes on before that
            disk = None
        if party == "driver":
            self.kill_driver()
        elif party == "collector":
            self.kill_collector(clock_s)
        elif party == "compactor":
            self.kill_compactor()
        else:
            of = {"worker": workers, "source runner": source_runners, "executor": executors}
            self.kill_one(of[party])
        if disk is not None:
            disk.free()
        forgotten = {
            "checkpoint": [self.checkpoint],
            "ledger": [self.tables / "_ledger"],
            "both": [self.checkpoint, self.tables / "_ledger"],
        }.get(trouble, [])
        if forgotten or (trouble == "clocks" and party != "collector"):
            self.kill_driver()
            for each in forgotten:
                shutil.rmtree(each, ignore_errors=True)
        self.follow(clock_s if party != "collector" else 0.0)

    def check(self) -> None:
        """All that is published so far comes into the tables, once."""
        published = set(self.fleet.published)
        counted = [Counted(Counter())]

        def has_come() -> bool:
            counted[0] = Counted.of(self.tables)
            assert not counted[0].doubled(), counted[0].doubled()[:10]
            return not counted[0].missing(published)

        try:
            self.wait(has_come)
        except AssertionError as error:
            missing = sorted(counted[0].missing(published))
            raise AssertionError(f"{len(missing)} missing: {missing[:10]}; {error}") from error


def executors(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Those of Spark's small cluster, one of them."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("CoarseGrainedExecutorBackend" in word for word in one.cmdline()):
                found.append(one)
    return found[:1]


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Tmpfs]]:
    with contextlib.ExitStack() as stack:
        made = []
        for name, size_kib in (("collector", 4_096), ("cloud", 400_000)):
            made.append(Tmpfs(tmp_path / name, size_kib))
            stack.callback(made[-1].unmount)
        yield made


def test_whoever_is_killed_each_message_and_each_alert_is_there_once(
    tmp_path: Path, disks: list[Tmpfs], request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--soak"):
        pytest.skip("takes some minutes: --soak")
    chance = random.Random(request.config.getoption("--seed"))
    rounds = Rounds(tmp_path, chance, disks)
    plan = [(party, chance.choice(TROUBLES)) for party in PARTIES for _ in range(TURNS)]
    chance.shuffle(plan)
    plan.sort(key=lambda one: one[0] == "executor")  # of a job on a small cluster, at the end
    told = []
    try:
        with rounds.fleet.publishing():
            rounds.follow()
            rounds.wait(lambda: rounds.commits() > 2)
            for number, (party, trouble) in enumerate(plan):
                told.append(f"{party}{trouble and ', '}{trouble}")
                rounds.fleet.keep_back()
                rounds.fleet.read_odd(str(number), 1_000.0)
                if party == "executor" and not rounds.has_executors:
                    rounds.has_executors = True
                    rounds.kill_driver()
                    rounds.follow()
                rounds.act(party, trouble)
                rounds.wait(lambda: is_open(rounds, f"odd/{number}", number + 1))  # noqa: B023  # at once
                rounds.fleet.bring()
                rounds.fleet.read_odd(str(number), 1.0)
                rounds.check()
                sys.stderr.write(f"round {number}: {told[-1]}: {len(rounds.fleet.published)}\n")
                sys.stderr.flush()
            rounds.fleet.stop()
            rounds.check()
            rounds.wait(lambda: all(row["cleared"] for row in rounds.alerts()))
    except AssertionError as error:
        raise AssertionError(f"round {len(told)}: {told[-1:]}: {error}") from error
    finally:
        if rounds.process is not None:
            kill(rounds.process)
    found = Counter((row["kind"], row["gateway"], row["sensor"]) for row in rounds.alerts())
    wanted = Counter({("sensor-range", "gw-0", f"odd/{n}"): 1 for n in range(len(plan))})
    wanted["gap", HOLED, ""] = len(plan)
    assert found == wanted


def is_open(rounds: Rounds, sensor: str, holes: int) -> bool:
    """Whether the round's two alerts are there, and open."""
    rows = rounds.alerts()
    odd = [row for row in rows if row["sensor"] == sensor and not row["cleared"]]
    gaps = [row for row in rows if row["kind"] == "gap"]
    return bool(odd) and len(gaps) >= holes and any(not row["cleared"] for row in gaps)
