"""A gateway with as little as a Zero 2 W has: ``python -m benchmarks.small_machine``.

It has a quarter of one core and 384 MB, by control groups (cgroups(7), of version 1 or 2), and its
client has the rest of the machine: 200 messages of QoS 1 a second, each of which is acknowledged.
Mosquitto in the same group stands beside it, in turn. What a Pi of yours does, `hedgerow bench`
tells on the spot.

Control groups are for root alone. Exit codes: 0 done; 1 a broker did not start, was killed, or
acknowledged later than `LATE_MS`; 2 a wrong argument; 6 no control groups.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import broker_peers, builds, weighed
from benchmarks.broker_peers import Broker, MissingPeerError
from benchmarks.weighed import LightError
from gateway.tools.bench import mqtt_load
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import LATE_MS, STEADY_PER_S, AnswerTimes

EXIT_FAILED = 1
EXIT_NO_GROUPS = 6
PERIOD_US = 100_000
SHARE = 0.25
"""Of one core."""
MEMORY_BYTES = 384_000_000
_GROUPS = Path("/sys/fs/cgroup")
_ENTER = 'for file in $1; do echo $$ > "$file"; done; shift; exec taskset -c 0 "$@"'
"""The process enters the group before it is the broker's, so that its start counts, too."""


class NoGroupsError(RuntimeError):
    """No control group can be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of the processor's time.

    Attributes:
        used_up: those in which the share was not enough.
        all: those in which anything ran.

    """

    used_up: int
    all: int

    def since(self, before: Periods) -> float:
        """Return in which part of the periods since then the share was not enough."""
        return (self.used_up - before.used_up) / max(self.all - before.all, 1)


@dataclass(frozen=True, slots=True)
class Group:
    """A control group with limits.

    Attributes:
        folders: one of each controller's hierarchy, or the one of all (version 2).

    """

    folders: Sequence[Path]

    @property
    def entries(self) -> str:
        """The files that take a process's number, in one word for a shell."""
        return " ".join(str(folder / "cgroup.procs") for folder in self.folders)

    def killed(self) -> int:
        """Return how many of its processes were killed for want of memory."""
        found = self._told("memory.events") | self._told("memory.oom_control")
        return found.get("oom_kill", 0)

    def periods(self) -> Periods:
        """Return how its share of the core was used so far."""
        told = self._told("cpu.stat")
        return Periods(told.get("nr_throttled", 0), told.get("nr_periods", 0))

    def _told(self, name: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in (folder / name for folder in self.folders):
            if path.exists():
                found |= numbers(path.read_text())
        return found


def numbers(text: str) -> dict[str, int]:
    """Read a file of a control group that has a name and a number on each line."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


@contextmanager
def group(root: Path = _GROUPS) -> Iterator[Group]:
    """Make a group with `SHARE` of a core and `MEMORY_BYTES`, and take it away again.

    Raises:
        NoGroupsError: it can't be made.

    """
    quota_us = round(PERIOD_US * SHARE)
    name = f"hedgerow-benchmark-{os.getpid()}"
    is_version_2 = (root / "cgroup.controllers").exists()
    if is_version_2:
        limits = {
            root / name: {"cpu.max": f"{quota_us} {PERIOD_US}", "memory.max": str(MEMORY_BYTES)}
        }
    else:
        limits = {
            root / "cpu" / name: {
                "cpu.cfs_period_us": str(PERIOD_US),
                "cpu.cfs_quota_us": str(quota_us),
            },
            root / "memory" / name: {"memory.limit_in_bytes": str(MEMORY_BYTES)},
        }
    with ExitStack() as stack:
        try:
            if is_version_2:
                (root / "cgroup.subtree_control").write_text("+cpu +memory")
            for folder, files in limits.items():
                folder.mkdir()
                stack.callback(folder.rmdir)
                for file, value in files.items():
                    (folder / file).write_text(value)
        except OSError as error:
            raise NoGroupsError(f"{error.filename}: {error.strerror}") from error
        yield Group(list(limits))


@dataclass(frozen=True, slots=True)
class Squeezed:
    """The figures of a broker on a small machine.

    Attributes:
        name: its.
        start_s: by the clock, until it said that it was ready.
        idle: memory when nothing was asked of it.
        loaded: memory afterwards.
        puback: of `STEADY_PER_S` messages a second.
        used_up: the part of the periods under load in which its share was not enough.
        killed: processes, for want of memory.

    """

    name: str
    start_s: float
    idle: weighed.Memory
    loaded: weighed.Memory
    puback: AnswerTimes
    used_up: float
    killed: int

    @property
    def is_well(self) -> bool:
        """Return whether it acknowledged in time, and no process was killed."""
        return not self.killed and self.puback.p99_ms <= LATE_MS

    def row(self) -> str:
        """Return a row of `TABLE`."""
        return (
            f"| {self.name} | {self.start_s:.1f} | {self.idle} | {self.loaded} "
            f"| {self.puback.p50_ms:g} | {self.puback.p99_ms:g} "
            f"| {self.used_up:.0%} | {self.killed} |"
        )


TABLE = (
    "| broker | start, s | RSS idle (anonymous), MiB | under load | PUBACK p50, ms | p99 "
    "| periods with too little | killed |",
    "|---|--:|--:|--:|--:|--:|--:|--:|",
)


def squeezed(broker: Broker, seconds: float, *, is_ours: bool) -> Squeezed:
    """Run a broker in a group of its own, and publish to it.

    Raises:
        NoGroupsError: there is no group.
        LightError: it does not start, or has gone.
        BenchError: it does not acknowledge.

    """
    with group() as one, tempfile.TemporaryDirectory(prefix="small-machine-") as name:

        def prepare(folder: Path, port: int) -> list[str]:
            return ["sh", "-c", _ENTER, "sh", one.entries, *broker.prepare(folder, port)]

        inside = Broker(broker.name, broker.keeps, prepare)
        began_s = time.monotonic()
        with weighed.started(inside, Path(name), is_ours=is_ours) as (process, _):
            start_s = time.monotonic() - began_s
            idle, before = process.memory(), one.periods()
            took_s = asyncio.run(_puback_times_s(process.port, seconds))
            return Squeezed(
                broker.name,
                start_s,
                idle,
                process.memory(),
                AnswerTimes.of(took_s),
                one.periods().since(before),
                one.killed(),
            )


async def _puback_times_s(port: int, seconds: float) -> list[float]:
    async with mqtt_load.connected(port) as load:
        return await load.puback_times_s(seconds, STEADY_PER_S)


def measure(seconds: float) -> Iterator[Squeezed]:
    """Measure the builds that there are, and Mosquitto."""
    compiled = builds.compiled()
    for build in [*([compiled] if compiled else []), builds.INTERPRETED]:
        ours = weighed.gateway(f"hedgerow {build.name}", build)
        yield squeezed(ours, seconds, is_ours=True)
    find = partial(broker_peers.mosquitto, nodelay=True)
    try:
        yield squeezed(find(), seconds, is_ours=False)
    except MissingPeerError as error:
        print(f"not measured: {error}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.small_machine", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load for each (default 60)")
    options = parser.parse_args(arguments)
    is_well = True
    try:
        print(*TABLE, sep="\n", flush=True)
        for one in measure(options.seconds):
            is_well = is_well and one.is_well
            print(one.row(), flush=True)
    except NoGroupsError as error:
        print(f"benchmarks.small_machine: no control group: {error}", file=sys.stderr)
        return EXIT_NO_GROUPS
    except (LightError, BenchError) as error:
        print(f"benchmarks.small_machine: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0 if is_well else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
