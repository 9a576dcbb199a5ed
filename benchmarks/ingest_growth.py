"""Ingest as a fleet grows: ``python -m benchmarks.ingest_growth``.

The job reads 10,000,000 messages of 1,000 gateways, one in twenty of which comes twice, beside
plain pyarrow over the same segments; then 1,000,000 of 10, 100 and 1,000 gateways, and of 50 with
1, 10 and 100 sensors each. Each case has a session of Spark in a process of its own, and spools
that other processes have filled, so that the memory told is the job's.

Exit codes: 0 done; 1 the tables do not hold each message once; 2 a wrong argument; 6 no Java.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import comparison, ingest
from benchmarks.comparison import Comparison, shown
from cloud_ingest.job import java
from cloud_ingest.job.session import session

_MIB = 1 << 20
SPOOL = "spool"
_WARM_MESSAGES = 5_000
MOST = 10_000_000
EACH = 1_000_000
QUICK_MOST = 200_000
QUICK_EACH = 100_000
"""So that 1,000 gateways have a batch each."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet whose messages a spool has."""

    messages: int
    gateways: int = ingest.GATEWAYS
    sensors: int = 1

    def __str__(self) -> str:
        one = "sensor" if self.sensors == 1 else "sensors"
        return f"{self.messages:,} messages, {self.gateways:,} gateways, {self.sensors} {one} each"


@dataclass(frozen=True, slots=True)
class Drained:
    """The outcome of the job on one spool, and the memory that it took.

    Attributes:
        run: of the job.
        python_mib: resident memory of the driver's Python at its greatest.
        java_mib: of its Java, at the end.

    """

    run: ingest.JobRun
    python_mib: float
    java_mib: float


def fill(folder: Path, fleet: Fleet) -> None:
    """Fill a spool as a collector does, and a small one beside it."""
    ingest.fill(folder / SPOOL, ingest.frames(fleet.messages, fleet.gateways, fleet.sensors))
    ingest.fill(folder / ingest.WARM, ingest.frames(_WARM_MESSAGES))


def drain(folder: Path) -> Drained:
    """Read a spool into new tables, after a small one has started all that is started once."""
    with session(java.provide(os.environ)) as spark:
        measurement = ingest.IngestMeasurement(spark, folder, ingest.FULL)
        measurement.run(folder / ingest.WARM)
        run = measurement.run(folder / SPOOL)
        own = psutil.Process()
        java_mib = sum(one.memory_info().rss for one in own.children()) / _MIB
        return Drained(run, _peak_mib(), java_mib)


def _peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


def measure(folder: Path, fleet: Fleet) -> ingest.JobRun:
    """Measure one case.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    ingest.apart(fill, folder, fleet)
    found: Drained = ingest.apart(drain, folder)
    print(told(fleet, found), flush=True)
    return found.run


def told(fleet: Fleet, found: Drained) -> str:
    """Return a line about one case.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    run = found.run
    if run.rows != fleet.messages:
        raise ValueError(f"{fleet}: {run.rows} rows")
    return (
        f"{fleet}: {shown(fleet.messages / run.took_s)} messages/s; "
        f"driver's Python {found.python_mib:.0f} MiB at most, "
        f"its Java {found.java_mib:.0f} MiB; ledger {run.ledger_bytes:,} bytes"
    )


def cases(measured: Sequence[Fleet]) -> Iterator[Comparison]:
    """Yield all cases.

    Args:
        measured: as `fleets` says.

    Raises:
        ValueError: the tables do not hold each message once.

    """
    with tempfile.TemporaryDirectory(prefix="ingest-growth-") as name:
        most, least, *more = measured
        found = measure(Path(name), most)
        begun = time.perf_counter()
        plain_s = ingest.plainly(Path(name) / SPOOL, Path(name) / "plain")
        print(f"  plain pyarrow: {time.perf_counter() - begun:.1f} s", flush=True)
        peer = f"pyarrow, {os.cpu_count()} processes"
        yield _beside(f"job, {most}", most, found, most.messages / plain_s, peer)
    first: float | None = None
    for fleet in (least, *more):
        with tempfile.TemporaryDirectory(prefix="ingest-growth-") as name:
            found = measure(Path(name), fleet)
        rate = fleet.messages / found.took_s
        if first is None:
            first = rate
        else:
            yield _beside(f"job, {fleet}", fleet, found, first, f"the job, {least}")


def fleets(*, quick: bool) -> list[Fleet]:
    """Return all fleets, the one of most messages first and then the one that others stand
    beside."""
    if quick:
        return [
            Fleet(QUICK_MOST, 1_000),
            *(Fleet(QUICK_EACH, gateways) for gateways in (10, 1_000)),
        ]
    of_gateways = [Fleet(EACH, gateways) for gateways in (10, 100, 1_000)]
    of_sensors = [Fleet(EACH, sensors=sensors) for sensors in (1, 10, 100)]
    return [Fleet(MOST, 1_000), *of_gateways, *of_sensors]


def _beside(
    case: str, fleet: Fleet, found: ingest.JobRun, peer: float, peer_name: str
) -> Comparison:
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
        for one in cases(fleets(quick=options.quick)):
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
