"""The ingest job of the rounds: started with a clock, killed in parts, and asked how far it is."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import psutil
from ingest_bed import children, kill, source_runners, workers
from ingest_rounds import RULES
from ports import free_port
from prometheus_client.parser import text_string_to_metric_families

from cloud_ingest.tables.store import TableStore

HERE = Path(__file__).parent
PATIENCE_S = 3_600.0
"""For one step: a start of Spark that has a fortieth of a core took a quarter of an hour."""
LOOK_S = 0.3
SOON_S = 0.002
TOLD = 3_000
WAYS = """
state_dir = "{folder}"
[alerts]
gather_s = 0.0
[alerts.webhook]
url = "{webhook}"
"""
MASTER = (
    *("--master", "local-cluster[1,2,512]", "--conf", "spark.executor.memory=512m"),
    *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
)


class RoundJob:
    """Runs of the command over one set of tables.

    Args:
        folder: of its log and rules.
        disk: where tables and checkpoint stand.
        spools: it reads these.
        webhook: gets its alerts.

    """

    def __init__(self, folder: Path, disk: Path, spools: Sequence[Path], webhook: str) -> None:
        self.tables = disk / "tables"
        self.has_executors = False
        """True if it runs on a small cluster from its next start on."""
        self._checkpoint = disk / "checkpoint"
        self._spools = spools
        self._log = folder / "job.log"
        self._rules = folder / "alerts.toml"
        self._rules.write_text(RULES)
        self._ways = folder / "ways.toml"
        self._ways.write_text(WAYS.format(folder=folder, webhook=webhook))
        # Where classes of Java can be kept, that of a killed driver writes them for nobody first.
        self._environment = os.environ | {"XDG_CACHE_HOME": os.devnull}
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, clock_s: float = 0.0) -> None:
        """Start it, with a clock that is ahead by so much."""
        spools = [word for spool in self._spools for word in ("--spool", str(spool))]
        places = ("--tables", str(self.tables), "--checkpoint", str(self._checkpoint))
        follows = ("--follow", "--trigger-s", "0.5", "--compact", "--compact-every", "7")
        master = MASTER if self.has_executors else ()
        alerts = ("--alerts", str(self._rules), "--ways", str(self._ways))
        self._port = free_port()
        metrics = ("--metrics", f"127.0.0.1:{self._port}")
        words = ("ingest", *spools, *places, *follows, *alerts, *metrics, *master)
        program = (HERE / "shifted_clock.py", str(clock_s), "gateway.tools.cli")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, *program, *words), stdout=log, stderr=log, env=self._environment
            )

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, while the job runs."""
        process = self._running()
        end_s = time.monotonic() + PATIENCE_S
        while not holds():
            has_ended = process.poll() is not None
            if has_ended or time.monotonic() > end_s:
                why = f"it ended with {process.returncode}" if has_ended else "not in time"
                raise AssertionError(f"{why}:\n{self._log.read_text()[-TOLD:]}")
            time.sleep(LOOK_S)

    def commits(self) -> int:
        """Return how many commits telemetry has."""
        log = self.tables / "telemetry" / "_delta_log"
        return sum(1 for path in log.glob("*.json") if path.stem.isdigit())

    def metrics(self) -> dict[str, float]:
        """Return the sum of each metric that Prometheus would read now."""
        with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=PATIENCE_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {one.name: sum(sample.value for sample in one.samples) for one in families}

    def alerts(self) -> list[dict[str, Any]]:
        """Return the rows of the table of alerts."""
        try:
            rows = TableStore(str(self.tables / "alerts")).table().to_pyarrow_table().to_pylist()
        except Exception:  # it is not there yet, or between two versions
            return []
        return list(rows)

    def forget(self, what: str) -> None:
        """Delete the checkpoint, the ledger or both, while it does not run."""
        if what in ("checkpoint", "both"):
            shutil.rmtree(self._checkpoint, ignore_errors=True)
        if what in ("ledger", "both"):
            shutil.rmtree(self.tables / "_ledger", ignore_errors=True)

    # -- who is killed ---------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the driver, if it runs."""
        if self._process is not None:
            kill(self._process)

    def kill_one(self, party: str) -> None:
        """Kill a process that the job has started; one that carries out tasks in mid-task."""
        process = self._running()
        if party == "source runner":
            self.wait(lambda: bool(source_runners(process)))
            going = source_runners(process)
        else:
            going = self._at_work(party)
        for one in going:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()

    def kill_compactor(self, chance: random.Random) -> None:
        """Kill a compactor beside the job while it is at the tables."""
        for _ in range(10):
            words = ("--tables", str(self.tables), "--compact", "--vacuum-hours", "24")
            command = (sys.executable, "-m", "cloud_ingest.job.command", *words)
            compactor = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                _until_it_reads(psutil.Process(compactor.pid), self.tables)
                time.sleep(chance.uniform(0, 0.1))
            is_killed = compactor.poll() is None
            compactor.kill()
            compactor.wait()
            if is_killed:
                return
        raise AssertionError("no compactor was killed at work")

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _at_work(self, party: str) -> list[psutil.Process]:
        """Wait until a worker of Python computes; return the workers, or their executor."""
        process = self._running()
        found: list[psutil.Process] = []

        def is_at_work() -> bool:
            of = executors(process) if party == "executor" else [psutil.Process(process.pid)]
            found[:] = of if party == "executor" else workers(process)
            at_work = workers(process)
            end_s = time.monotonic() + LOOK_S
            while of and at_work and time.monotonic() < end_s:
                if any(_computes(one) for one in at_work):
                    return True
                time.sleep(SOON_S)
            return False

        self.wait(is_at_work)
        return found


def executors(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return those of Spark's small cluster: its own processes of Java."""
    return children(process, "CoarseGrainedExecutorBackend")


def _computes(one: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return one.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
    return False


def _until_it_reads(compactor: psutil.Process, tables: Path) -> None:
    while compactor.status() != psutil.STATUS_ZOMBIE:
        if any(each.path.startswith(str(tables)) for each in compactor.open_files()):
            return
