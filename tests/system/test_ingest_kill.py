"""The job itself is killed with SIGKILL at moments of chance while a collector's spool grows.

Each record is then in the tables once: records come twice, over two spools; workers of Python die;
checkpoint and ledger are deleted on the way.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import psutil
import pytest

from cloud_ingest.record import Record
from cloud_ingest.spool import receipts
from gateway.log.message_log import MessageLog
from tree_handler import batch
from tree_handler.batch import Entry, Flags

DEADLINE_S = 240.0
GATEWAYS = 5
A_BATCH = 20

pytestmark = pytest.mark.timeout(0)


@dataclass
class Collected:
    """Two spools that grow, as two collectors would have them: each batch in one or in both."""

    folder: Path
    chance: random.Random
    batches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spools = [self.folder / name for name in ("spool-a", "spool-b")]
        self._logs = [
            MessageLog(spool, segment_bytes=200_000, mark=receipts.note) for spool in self.spools
        ]
        for log in self._logs:
            log.open()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._grow, name="collectors")

    @contextlib.contextmanager
    def growing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()
            for log in self._logs:
                log.close()

    def _grow(self) -> None:
        while not self._stopped.wait(0.02):
            for number in range(GATEWAYS):
                frame = self._frame(f"gw-{number}")
                for log in self.chance.choice((self._logs, self._logs[:1], self._logs[1:])):
                    log.append(frame, batch.check(frame))
            for log in self._logs:
                log.sync()

    def _frame(self, origin: str) -> bytes:
        first = self.batches[origin] * A_BATCH + 1
        self.batches[origin] += 1
        payloads = [
            b"no reading" if n % A_BATCH == 0 else Record("s", "", n, time.time(), n).encode()
            for n in range(first, first + A_BATCH)
        ]
        return batch.encode(
            *(origin, 1, first, [Entry("t", payload, 1) for payload in payloads]),
            flags=Flags.LOGGED,
            origin_time_us=time.time_ns() // 1_000,
        )


@dataclass
class Job:
    """Runs of the command over the same tables."""

    collected: Collected
    tables: Path
    checkpoint: Path

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        spools = [word for spool in self.collected.spools for word in ("--spool", str(spool))]
        places = ("--tables", str(self.tables), "--checkpoint", str(self.checkpoint))
        command = (sys.executable, "-m", "cloud_ingest.job.command", *spools, *places, *more)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def commits(self) -> int:
        try:
            return int(deltalake.DeltaTable(self.tables / "telemetry").version())
        except deltalake.exceptions.TableNotFoundError:
            return -1


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends while it is looked at
            if "pyspark.daemon" in " ".join(one.cmdline()):
                found.append(one)
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver; its Java ends by itself, and is waited for."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive


def check(job: Job) -> None:
    everything = Counter(
        (origin, sequence)
        for origin, count in job.collected.batches.items()
        for sequence in range(1, count * A_BATCH + 1)
    )
    found: dict[str, Counter[tuple[str, int]]] = {}
    for name in ("telemetry", "quarantine"):
        dataset = deltalake.DeltaTable(job.tables / name).to_pyarrow_dataset()
        rows = dataset.to_table(columns=["origin", "sequence"]).to_pylist()
        found[name] = Counter((row["origin"], row["sequence"]) for row in rows)
    assert found["telemetry"] + found["quarantine"] == everything
    assert all(sequence % A_BATCH == 0 for _, sequence in found["quarantine"])


def test_killing_the_job_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = 30 if request.config.getoption("--soak") else 1
    chance = random.Random(request.config.getoption("--seed"))
    collected = Collected(tmp_path, chance)
    job = Job(collected, tmp_path / "tables", tmp_path / "checkpoint")
    forgotten: list[Path | None] = [None, job.checkpoint, job.tables / "_ledger"]
    with collected.growing():
        for number in range(rounds):
            process = job.start("--follow", "--trigger-s", "0.2", "--compact", "--compact-every=5")
            try:
                before = job.commits()
                until(lambda: job.commits() > before + 1, process)  # noqa: B023  # at once
                if number % 2 == 0:
                    before = job.commits()
                    for worker in workers(process):
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
