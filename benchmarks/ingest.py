"""From spools to tables: ``python -m benchmarks.ingest``.

A collector's spool is filled (append and sync), and the job reads it into Delta tables, each
message once, though one in twenty comes twice. Beside it, plain pyarrow decodes the same segments
with the same columns, message by message, in as many processes and writes Parquet, and looks for no
copies; and DuckDB takes the copies out of what that wrote. The same processes with the job's way to
decode a batch at once show what all else costs the job. A job "at work" has read another spool
before, as its peers' processes have begun before; one "that begins" has not, and its rate holds
what Spark needs to begin a query. Then a spool grows by 1,000 messages a second and the job
follows: how long from the append to the commit. Before all that a job is started as an operator
starts it: how long to the first row.

Exit codes: 0 done; 1 the tables do not hold each message once; 2 a wrong argument; 6 no Java.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from statistics import quantiles
from typing import Any, TypeVar

import deltalake
import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks import comparison
from benchmarks.comparison import Comparison, shown
from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.job import command as job
from cloud_ingest.job import java
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.job.session import session
from cloud_ingest.spool import receipts
from cloud_ingest.spool.segments import position_of, read_mark
from cloud_ingest.tables.store import TableStore
from gateway.base import exit_codes
from gateway.log.message_log import MessageLog
from record_formats.record import Record
from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header, Row

T = TypeVar("T")

EXIT_WRONG = 1
EXIT_NO_JAVA = exit_codes.NO_JAVA
GATEWAYS = 50
A_BATCH = 100
COPIES = 20
"""One batch in so many comes twice."""
WARM = "warm"
"""The folder of a small spool."""
SYNC_EVERY = 10
"""Batches; what a busy collector takes together."""
RATE_PER_S = 1_000
_MIB = 1 << 20
_ORIGIN_TIME_US = 1_760_000_000_000_000


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """The amount of work: messages, and seconds of following a spool that grows."""

    messages: int
    follow_s: float


FULL = IngestPlan(1_000_000, 30.0)
QUICK = IngestPlan(100_000, 8.0)


def frames(
    messages: int, gateways: int = GATEWAYS, sensors: int = 1, fleet: str = "gw"
) -> Iterator[tuple[bytes, Header]]:
    """Yield batches of a fleet in turn; some of them twice.

    Args:
        messages: in all, copies not counted.
        gateways: the number of gateways that send them.
        sensors: of each gateway, which are read in turn.
        fleet: the beginning of the names of its gateways.

    """
    for number in range(messages // A_BATCH):
        first = number // gateways * A_BATCH + 1
        time_us = _ORIGIN_TIME_US + number * 10_000
        made = _frame(f"{fleet}-{number % gateways:03d}", first, A_BATCH, time_us, sensors)
        yield made
        if number % COPIES == 0:
            yield made


def _frame(
    origin: str, first: int, count: int, time_us: int, sensors: int = 1
) -> tuple[bytes, Header]:
    names = [f"host/load{number}" for number in range(1, sensors + 1)]
    topics = [f"campus/north/{origin}/{name}" for name in names]
    entries = [
        Entry(
            topics[n % sensors],
            Record(names[n % sensors], "1", n / 7, time_us / 1e6, n).encode(),
            1,
        )
        for n in range(first, first + count)
    ]
    frame = batch.encode(origin, 1, first, entries, flags=Flags.LOGGED, origin_time_us=time_us)
    return frame, batch.check(frame)


def fill(spool: Path, made: Iterable[tuple[bytes, Header]]) -> float:
    """Append and sync as a collector does; return the seconds that it took, making them too."""
    log = MessageLog(spool, segment_bytes=8 * _MIB, max_bytes=64 << 30, mark=receipts.note)
    log.open()
    begun = time.perf_counter()
    for number, (frame, header) in enumerate(made, 1):
        log.append(frame, header)
        if number % SYNC_EVERY == 0:
            log.sync()
    log.sync()
    took = time.perf_counter() - begun
    log.close()
    return took


def decode_plainly(work: tuple[Path, Path]) -> int:
    """Write one segment to one Parquet file, message by message; return the rows."""
    return _decode(work, _add_each)


def decode_at_once(work: tuple[Path, Path]) -> int:
    """Write it as the job decodes it, a batch at a time; return the rows."""
    return _decode(work, _add_at_once)


def _add_each(columns: TelemetryColumns, first: int, rows: Sequence[Row]) -> None:
    for sequence, row in enumerate(rows, first):
        columns.add(sequence, row[0], row[1], row[2])


def _add_at_once(columns: TelemetryColumns, first: int, rows: Sequence[Row]) -> None:
    for at in columns.add_plain(first, rows):
        columns.add(first + at, *rows[at][:3])


def _decode(
    work: tuple[Path, Path], add: Callable[[TelemetryColumns, int, Sequence[Row]], None]
) -> int:
    segment, target = work
    gc.disable()
    columns, rows = TelemetryColumns(), 0
    data = segment.read_bytes()
    with pq.ParquetWriter(target, columns.table().schema, compression="zstd") as writer:
        for at, header in batch.frames(data):
            times = {"origin_time": header.origin_time_us, "collected_time": header.origin_time_us}
            stamp = {"origin": header.origin, "boot_epoch": header.epoch, "logged": header.logged}
            columns.batch(**stamp, **times, group="-")
            frame = data[at : at + header.end]
            add(columns, header.first, batch.rows(frame, header))
            if columns.rows >= 50_000:
                writer.write_table(columns.table())
                rows, columns = rows + columns.rows, TelemetryColumns()
        if columns.rows:
            writer.write_table(columns.table())
    gc.enable()
    return rows + columns.rows


def plainly(
    spool: Path, target: Path, decode: Callable[[tuple[Path, Path]], int] = decode_plainly
) -> float:
    """Write all segments in as many processes as there are cores; return the seconds."""
    target.mkdir()
    work = [(path, target / f"{path.stem}.parquet") for path in sorted(spool.glob("*.log"))]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.map(decode, work[:1])  # started, and all imported
        begun = time.perf_counter()
        pool.map(decode, work, chunksize=1)
        return time.perf_counter() - begun


def without_copies(plain: Path, target: Path) -> float | None:
    """DuckDB's time to take the copies out of plain files; None where it is not installed."""
    try:
        import duckdb  # noqa: PLC0415  # a peer: may be missing
    except ModuleNotFoundError:
        return None
    stamp = "origin, boot_epoch, logged, sequence"
    query = f"SELECT DISTINCT ON ({stamp}) * FROM '{plain}/*.parquet'"  # ours
    begun = time.perf_counter()
    duckdb.sql(f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    return time.perf_counter() - begun


@dataclass(frozen=True, slots=True)
class JobRun:
    """The outcome of the job on one spool.

    Attributes:
        took_s: until all was in the tables.
        rows: of telemetry.
        ledger_bytes: of the state that it keeps between its runs.

    """

    took_s: float
    rows: int
    ledger_bytes: int


class IngestMeasurement:
    """The job, in one session of Spark."""

    def __init__(self, spark: SparkSession, folder: Path, plan: IngestPlan) -> None:
        self._spark = spark
        self._folder = folder
        self._plan = plan
        self._runs = 0

    def run(self, spool: Path) -> JobRun:
        """Read a spool into new tables."""
        ingest, checkpoint = self._fresh()
        begun = time.perf_counter()
        job.ended(lambda: job.start(self._spark, ingest, [spool], checkpoint))
        took = time.perf_counter() - begun
        return JobRun(took, _rows(ingest), len(ingest.ledger.pack()))

    def run_at_work(self, spool: Path) -> JobRun:
        """Give a spool to a query that has read another, as a job meets what comes to it.

        The processes of plain pyarrow have begun before they are measured, too.

        Args:
            spool: its messages are not those of the small spool.

        Raises:
            ValueError: the query ended before it had read all.

        """
        ingest, checkpoint = self._fresh()
        given = self._folder / f"given-{self._runs}"
        whole = position_of(read_mark(spool))
        noted: Queue[int] = Queue()

        def watch(moment: str) -> None:
            if moment == "noted":
                noted.put(ingest.ledger.all.done.get(str(given.resolve()), 0))

        ingest.watch = watch
        spools = [self._folder / WARM, given]
        query = job.start(self._spark, ingest, spools, checkpoint, trigger_s=0.0)
        _next_of(noted, query)
        before = _rows(ingest)
        ready = self._folder / "ready"
        shutil.copytree(spool, ready, copy_function=os.link)
        begun = time.perf_counter()
        ready.rename(given)
        while _next_of(noted, query) < whole:
            pass
        took = time.perf_counter() - begun
        with ingest.busy:
            query.stop()
        return JobRun(took, _rows(ingest) - before, len(ingest.ledger.pack()))

    def latencies_ms(self) -> list[float]:
        """Follow a spool that grows; from each append to the commit."""
        spool = self._folder / "growing"
        log = MessageLog(spool, mark=receipts.note)
        log.open()
        log.sync()
        ingest, checkpoint = self._fresh()
        appended: dict[int, float] = {}
        found: list[float] = []

        def watch(moment: str) -> None:
            if moment == "told":
                now = time.perf_counter()
                done = ingest.ledger.all.done.get(str(spool.resolve()), 0)
                for end in [end for end in list(appended) if end <= done]:
                    found.append((now - appended.pop(end)) * 1e3)

        ingest.watch = watch
        query = job.start(self._spark, ingest, [spool], checkpoint, trigger_s=1.0)
        growing = threading.Thread(target=self._grow, args=(log, appended))
        growing.start()
        growing.join()
        while appended and query.isActive:
            time.sleep(0.05)
        with ingest.busy:
            query.stop()
        log.close()
        return found[len(found) // 5 :]  # the first triggers start the workers

    def _grow(self, log: MessageLog, appended: dict[int, float]) -> None:
        begun, number = time.perf_counter(), 0
        while (now := time.perf_counter() - begun) < self._plan.follow_s:
            while number * 10 < now * RATE_PER_S:
                first = number // GATEWAYS * 10 + 1
                time_us = time.time_ns() // 1_000
                frame, header = _frame(f"gw-{number % GATEWAYS:03d}", first, 10, time_us)
                at = time.perf_counter()
                log.append(frame, header)
                appended[log.position] = at
                number += 1
            log.sync()
            time.sleep(0.01)

    def _fresh(self) -> tuple[Ingest, str]:
        self._runs += 1
        place = self._folder / f"run-{self._runs}"
        return Ingest(IngestSettings(TableStore(str(place)))), str(place / "checkpoint")


def _rows(ingest: Ingest) -> int:
    return int(deltalake.DeltaTable(ingest.telemetry.store.uri).count())


def _next_of(noted: Queue[int], query: Any) -> int:
    """Wait for the next micro-batch; return how far it came."""
    while query.isActive:
        with suppress(Empty):
            return noted.get(timeout=1.0)
    raise ValueError(f"the query ended: {query.exception()}")


def first_row_s(spool: Path, tables: Path) -> float:
    """From the start of ``hedgerow ingest`` to the commit of the first row; it ends by itself.

    Raises:
        ValueError: it ended without one.

    """
    command = [sys.executable, "-m", "gateway.tools.cli", "ingest"]
    command += ["--spool", str(spool), "--tables", str(tables)]
    first = tables / "telemetry" / "_delta_log" / f"{1:020d}.json"
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job_process:
        while not first.exists():
            if job_process.poll() is not None and not first.exists():
                raise ValueError(f"hedgerow ingest ended with {job_process.returncode}")
            time.sleep(0.01)
        return time.perf_counter() - begun


def measure(spark: SparkSession, folder: Path, plan: IngestPlan) -> Iterator[Comparison]:
    """Yield all cases.

    Args:
        spark: the session.
        folder: with a small spool, `WARM`.
        plan: the amount of work.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    spool = folder / "spool"
    events, collected_s = apart(collected, spool, plan.messages)
    _show("collector, append and sync", f"{shown(events / collected_s)} messages/s")
    warm = folder / WARM
    measurement = IngestMeasurement(spark, folder, plan)
    measurement.run(warm)
    plain_s = plainly(spool, folder / "plain")
    runs = {"at work": measurement.run_at_work(spool), "that begins": measurement.run(spool)}
    for name, run in runs.items():
        if run.rows != plan.messages:
            raise ValueError(f"job {name}: {run.rows} rows of {plan.messages} messages")
        _show(f"job {name}, copies dropped", f"{shown(events / run.took_s)} messages/s")
    rates = {f"job {name}": events / run.took_s for name, run in runs.items()}
    job_s = runs["at work"].took_s
    _show("collector, then job at work", f"{shown(events / (collected_s + job_s))} messages/s")
    at_once_s = plainly(spool, folder / "at-once", decode_at_once)
    peer = f"pyarrow, {os.cpu_count()} processes"
    peers = {peer: events / plain_s, f"{peer}, a batch at once": events / at_once_s}
    duckdb_s = without_copies(folder / "plain", folder / "once.parquet")
    if duckdb_s is not None:
        peers["pyarrow, then DuckDB"] = events / (plain_s + duckdb_s)
    for peer, peer_rate in peers.items():
        for case, rate in rates.items():
            yield Comparison(case, rate, peer_rate, peer, "messages/s", "higher")
    own = psutil.Process()
    _show("driver's Python, resident", f"{own.memory_info().rss / _MIB:.0f} MiB")
    java_mib = sum(one.memory_info().rss for one in own.children()) / _MIB
    _show("its Java, resident", f"{java_mib:.0f} MiB")
    found = quantiles(measurement.latencies_ms(), n=100)
    said = f"p50 {shown(found[49])} ms, p95 {shown(found[94])} ms, p99 {shown(found[98])} ms"
    _show(f"append to commit at {RATE_PER_S:,}/s", said)


def collected(spool: Path, messages: int) -> tuple[int, float]:
    """Fill a spool; return its messages, copies among them, and the seconds that it took."""
    made = list(frames(messages))
    return sum(header.count for _, header in made), fill(spool, made)


def small(spool: Path) -> None:
    """Fill a small spool with the messages of another fleet."""
    fill(spool, list(frames(A_BATCH * GATEWAYS, fleet="early")))


def apart(work: Callable[..., T], *arguments: object) -> T:
    """Do something in a process that ends with it, so that its memory is not the job's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as one:
        return one.submit(work, *arguments).result()


def _show(name: str, said: str) -> None:
    print(f"{name:<34} {said}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("ingest", __doc__.partition("\n")[0], arguments)
    found: list[Comparison] = []
    try:
        runtime: Any = java.provide(os.environ)
    except (java.JavaError, java.JavaChoiceError) as error:
        print(f"benchmarks.ingest: {error}", file=sys.stderr)
        return EXIT_NO_JAVA
    with tempfile.TemporaryDirectory(prefix="ingest-benchmark-") as name:
        folder = Path(name)
        try:
            apart(small, folder / WARM)
            for which in (
                "first",
                "second",
            ):  # Java begins the second with the classes of the first
                took_s = first_row_s(folder / WARM, folder / f"{which}-start")
                _show(f"{which} start to first row", f"{shown(took_s)} s")
            with session(runtime) as spark:
                for one in measure(spark, folder, QUICK if options.quick else FULL):
                    found.append(one)
                    peer = f"{shown(one.peer)} by {one.peer_name}"
                    _show(f"  {one.case}", f"{one.ratio:.3g} of {peer}")
        except ValueError as error:
            print(f"benchmarks.ingest: {error}", file=sys.stderr)
            return EXIT_WRONG
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
