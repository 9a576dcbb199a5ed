"""Ingest as a fleet grows: ``python -m benchmarks.ingest_growth``.

The job reads 10,000,000 messages of 50 gateways, one in twenty of which comes twice, beside plain
pyarrow over the same segments; then 1,000,000 of 10, 100 and 1,000 gateways, and of 50 with 1, 10
and 100 sensors each. Each case has a session of Spark in a process of its own, and spools that
other processes have filled, so that the memory told is the job's.

Exit codes: 0 done; 1 the tables do not hold each message once; 2 a wrong argument; 3 no Java.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks import comparison, ingest
from benchmarks.comparison import Comparison, shown
from cloud_ingest.job import java
from cloud_ingest.job.session import session

T = TypeVar("T")

_MIB = 1 << 20
_WARM = 5_000
MOST = 10_000_000
EACH = 1_000_000
QUICK_DIVISOR = 50


@dataclass(frozen=True, slots=True)
class Fleet:
    """Whose messages a spool has."""

    messages: int
    gateways: int = ingest.GATEWAYS
    sensors: int = 1

    def __str__(self) -> str:
        one = "sensor" if self.sensors == 1 else "sensors"
        return f"{self.messages:,} messages, {self.gateways:,} gateways, {self.sensors} {one} each"


@dataclass(frozen=True, slots=True)
class Drained:
    """What the job made of one spool.

    Attributes:
        took_s: until all was in the tables.
        rows: of telemetry.
        python_mib: resident memory of the driver's Python at its greatest.
        java_mib: of its Java, at the end.
        ledger_bytes: of the state that it keeps between its runs.

    """

    took_s: float
    rows: int
    python_mib: float
    java_mib: float
    ledger_bytes: int


def fill(spool: Path, fleet: Fleet) -> None:
    """Fill a spool as a collector does."""
    ingest.fill(spool, ingest.frames(fleet.messages, fleet.gateways, fleet.sensors))


def drain(folder: Path, spool: Path, warm: Path) -> Drained:
    """Read a spool into new tables, after a small one has started all that is started once."""
    with session(java.provide(os.environ)) as spark:
        measurement = ingest.IngestMeasurement(spark, folder, ingest.FULL)
        measurement.run(warm)
        took_s, rows = measurement.run(spool)
        own = psutil.Process()
        java_mib = sum(one.memory_info().rss for one in own.children()) / _MIB
        kept = sum(one.stat().st_size for one in folder.glob("run-2/**/ledger*") if one.is_file())
        return Drained(took_s, rows, _peak_mib(), java_mib, kept)


def _peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


def _apart(work: Callable[..., T], *arguments: object) -> T:
    """Do something in a process that ends with it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as one:
        return one.submit(work, *arguments).result()


def measure(folder: Path, fleet: Fleet) -> tuple[Drained, Path]:
    """One case.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    spool, warm = folder / "spool", folder / "warm"
    _apart(fill, spool, fleet)
    _apart(fill, warm, Fleet(_WARM))
    found: Drained = _apart(drain, folder, spool, warm)
    if found.rows != fleet.messages:
        raise ValueError(f"{fleet}: {found.rows} rows")
    rate = shown(fleet.messages / found.took_s)
    print(
        f"{fleet}: {rate} messages/s; driver's Python {found.python_mib:.0f} MiB at most, "
        f"its Java {found.java_mib:.0f} MiB; ledger {found.ledger_bytes:,} bytes",
        flush=True,
    )
    return found, spool


def cases(divisor: int) -> Iterator[Comparison]:
    """All cases, the largest first.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    with tempfile.TemporaryDirectory(prefix="ingest-growth-") as name:
        most = Fleet(MOST // divisor)
        found, spool = measure(Path(name), most)
        begun = time.perf_counter()
        plain_s = ingest.plainly(spool, Path(name) / "plain")
        print(f"  plain pyarrow: {time.perf_counter() - begun:.1f} s", flush=True)
        peer = f"pyarrow, {os.cpu_count()} processes"
        yield _beside(f"job, {most}", most, found, most.messages / plain_s, peer)
    first: float | None = None
    of_gateways = [Fleet(EACH // divisor, gateways) for gateways in (10, 100, 1_000)]
    of_sensors = [Fleet(EACH // divisor, sensors=sensors) for sensors in (1, 10, 100)]
    for fleet in (*of_gateways, *of_sensors):
        with tempfile.TemporaryDirectory(prefix="ingest-growth-") as name:
            found, _ = measure(Path(name), fleet)
        rate = fleet.messages / found.took_s
        if first is None:
            first = rate
        else:
            yield _beside(f"job, {fleet}", fleet, found, first, f"the job, {of_gateways[0]}")


def _beside(case: str, fleet: Fleet, found: Drained, peer: float, peer_name: str) -> Comparison:
    return Comparison(case, fleet.messages / found.took_s, peer, peer_name, "messages/s", "higher")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("ingest_growth", __doc__.partition("\n")[0], arguments)
    try:
        java.provide(os.environ)
    except (java.JavaError, java.JavaChoiceError) as error:
        print(f"benchmarks.ingest_growth: {error}", file=sys.stderr)
        return ingest.EXIT_NO_JAVA
    found: list[Comparison] = []
    try:
        for one in cases(QUICK_DIVISOR if options.quick else 1):
            found.append(one)
            print(f"  {one.ratio:.3g} of {shown(one.peer)} by {one.peer_name}", flush=True)
    except ValueError as error:
        print(f"benchmarks.ingest_growth: {error}", file=sys.stderr)
        return ingest.EXIT_WRONG
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
