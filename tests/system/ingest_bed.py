"""A spool that grows, and the job's command over it: started, killed, and what its tables hold."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import psutil

from cloud_ingest.spool import receipts
from gateway.log.message_log import MessageLog
from record_formats.record import Record
from tree_handler import batch
from tree_handler.batch import Entry, Flags

DEADLINE_S = 240.0
GATEWAYS = 5
A_BATCH = 20


@dataclass
class Collected:
    """Spools that grow, as several collectors would have them: each batch in one or in all."""

    folder: Path
    chance: random.Random
    names: Sequence[str] = ("spool-a", "spool-b")
    batches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.spools = [self.folder / name for name in self.names]
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
                for log in self.chance.choice((self._logs, self._logs[:1], self._logs[-1:])):
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
            origin,
            1,
            first,
            [Entry("t", payload, 1) for payload in payloads],
            flags=Flags.LOGGED,
            origin_time_us=time.time_ns() // 1_000,
        )


@dataclass
class Job:
    """Runs of the command over the same tables.

    Args:
        collected: what it reads.
        tables: a folder or a URI.
        checkpoint: a folder.
        options: more words of the command.
        storage: as `deltalake` takes it, where the tables stand in an object store.

    """

    collected: Collected
    tables: Path | str
    checkpoint: Path
    options: Sequence[str] = ()
    storage: Mapping[str, str] = field(default_factory=dict)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        spools = [word for spool in self.collected.spools for word in ("--spool", str(spool))]
        places = ("--tables", str(self.tables), "--checkpoint", str(self.checkpoint))
        stored = [word for pair in self.storage.items() for word in ("--storage", "=".join(pair))]
        words = (*spools, *places, *stored, *self.options, *more)
        command = (sys.executable, "-m", "cloud_ingest.job.command", *words)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def commits(self) -> int:
        try:
            return int(self.table("telemetry").version())
        except deltalake.exceptions.TableNotFoundError:
            return -1

    def table(self, name: str) -> deltalake.DeltaTable:
        options = dict(self.storage) or None
        return deltalake.DeltaTable(f"{self.tables}/{name}", storage_options=options)


def until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def children(process: subprocess.Popen[bytes], words: str) -> list[psutil.Process]:
    """Return the processes below one whose command line has these words."""
    found = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends while it is looked at
            if words in " ".join(one.cmdline()):
                found.append(one)
    return found


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return children(process, "pyspark.daemon")


def source_runners(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Spark's process for the Python source: Java starts it once for a query, and never again."""
    return children(process, "python_streaming_source_runner")


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver; its Java ends by itself, and is waited for."""
    if process.poll() is not None:  # it has ended by itself, and whoever waits for it says so
        return
    below = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(below, timeout=DEADLINE_S)
    assert not alive


def check(job: Job) -> None:
    everything = Counter(
        (origin, sequence)
        for origin, count in job.collected.batches.items()
        for sequence in range(1, count * A_BATCH + 1)
    )
    found: dict[str, Counter[tuple[str, int]]] = {}
    for name in ("telemetry", "quarantine"):
        dataset = job.table(name).to_pyarrow_dataset()
        rows = dataset.to_table(columns=["origin", "sequence"]).to_pylist()
        found[name] = Counter((row["origin"], row["sequence"]) for row in rows)
    assert found["telemetry"] + found["quarantine"] == everything
    assert all(sequence % A_BATCH == 0 for _, sequence in found["quarantine"])
