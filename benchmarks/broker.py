"""The broker against other brokers, under one load generator: ``python -m benchmarks.broker``.

Each broker runs as a process of its own, all of them at once, and a case goes to one after the
other in turn, so that a change of the machine's mood meets them all. MQTT 3.1.1 on loopback.

Exit codes: 0 done; 1 a run of ours lost, doubled or disordered a message or failed otherwise;
2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import math
import os
import platform
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import broker_cases as cases
from benchmarks import broker_figures as figures
from benchmarks import broker_peers, builds, comparison, load_generator
from benchmarks.broker_process import RunningBroker, StartError, launched
from benchmarks.load_generator import GeneratorError, Programs, Run

EXIT_OURS_FAILED = 1
EXIT_WRONG_USE = 2
_STOP_S = 4.0
"""Seconds of its time that ``--quick`` keeps back for stopping the brokers."""
_MIN_RUN_S = 1.0
_OPEN_FILES = 8192


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases that are measured, and how long and how often each is."""

    rate_loads: list[cases.Load]
    latency_loads: list[cases.Load]
    rounds: int
    warm_up_s: float
    measure_s: float
    latency_s: float
    limit_s: float
    shows_variants: bool


def full_plan() -> Plan:
    """Return every case, three rounds: some twenty minutes with all peers."""
    return Plan(cases.rate_loads(), cases.latency_loads(), 3, 0.15, 0.7, 2.0, math.inf, True)


def quick_plan() -> Plan:
    """Return a short round of a few cases; what there is no time for is left out by name."""
    light = cases.latency_loads()[:1]
    limit_s = comparison.QUICK_S - _STOP_S
    return Plan(cases.quick_rate_loads(), light, 1, 0.1, 0.25, 0.5, limit_s, False)


class Benchmark:
    """Measures the brokers that run, case by case.

    Args:
        plan: the cases, and how long and how often each is measured.
        programs: the compiled generator and null broker.
        null_port: port of the null broker.
        brokers: ours and the peers.
        started_s: the moment at which the plan's limit began, on the monotonic clock.

    """

    def __init__(
        self,
        plan: Plan,
        programs: Programs,
        null_port: int,
        brokers: Sequence[RunningBroker],
        started_s: float,
    ) -> None:
        self._plan = plan
        self._programs = programs
        self._null_port = null_port
        self._brokers = brokers
        self._end_s = started_s + plan.limit_s

    def results(self) -> Iterator[figures.CaseResult]:
        """Yield every case as soon as it is measured; memory first, while the brokers are fresh."""
        plan = self._plan
        yield self._memory()
        for load in plan.latency_loads:
            runs, alone = self._rounds(load, plan.latency_s)
            if alone.latencies_us:
                yield from figures.latency_results(load, runs, alone)
        for load in plan.rate_loads:
            yield figures.rate_result(load, *self._rounds(load, plan.measure_s))

    def _rounds(self, load: cases.Load, measure_s: float) -> tuple[dict[str, list[Run]], Run]:
        runs: dict[str, list[Run]] = {
            broker.name: []
            for broker in self._brokers
            # What a part of a gateway costs is seen with the small payload.
            if load.payload_bytes == cases.SMALL_BYTES or not is_variant(broker.name)
        }
        alone = self._run(load, self._null_port, measure_s)
        for _ in range(self._plan.rounds):
            for broker in self._brokers:
                if broker.name not in runs:
                    continue
                of_broker = runs[broker.name]
                if not any(run.fault for run in of_broker):
                    before_s = broker.cpu_s()
                    run = self._run(load, broker.port, measure_s)
                    of_broker.append(run.of_broker(broker.cpu_s() - before_s))
        return runs, alone

    def _run(self, load: cases.Load, port: int, measure_s: float) -> Run:
        left_s = self._end_s - time.monotonic()
        if left_s < measure_s + _MIN_RUN_S:
            return Run(0.0, 0.0, (), "out of time")
        return load_generator.run(
            self._programs,
            load,
            port,
            warm_up_s=self._plan.warm_up_s,
            measure_s=measure_s,
            limit_s=left_s,
        )

    def _memory(self) -> figures.CaseResult:
        return figures.CaseResult(
            cases.MEMORY_CASE,
            cases.MEMORY,
            [self._memory_of(broker) for broker in self._brokers],
            shows_sync=False,
        )

    def _memory_of(self, broker: RunningBroker) -> figures.Figure:
        try:
            with load_generator.idle_clients(self._programs, broker.port, cases.IDLE_CLIENTS):
                return figures.Figure(broker.name, broker.rss_mib())
        except (GeneratorError, psutil.Error) as error:
            return figures.Figure(broker.name, None, str(error))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("broker", __doc__.partition("\n")[0], arguments)
    plan = quick_plan() if options.quick else full_plan()
    started_s = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _raise_open_files()
    results: list[figures.CaseResult] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="broker-benchmark-") as folder,
            ExitStack() as stack,
        ):
            for result in _measure(plan, Path(folder), stack, started_s):
                results.append(result)
                print("\n".join(("", *result.lines())), flush=True)
    except GeneratorError as error:
        print(f"benchmarks.broker: {error}", file=sys.stderr)
        return EXIT_WRONG_USE
    except StartError as error:
        print(f"benchmarks.broker: {error}", file=sys.stderr)
        return EXIT_OURS_FAILED
    print("\n".join(("", *summary(results))), flush=True)
    if options.json_file is not None:
        found = [one for result in results for one in result.comparisons()]
        comparison.write_json(options.json_file, found)
    return EXIT_OURS_FAILED if our_faults(results) else 0


def _measure(
    plan: Plan, folder: Path, stack: ExitStack, started_s: float
) -> Iterator[figures.CaseResult]:
    programs = load_generator.compile_programs(folder)
    peers, missing = broker_peers.peers(_subfolder(folder, "npm"))
    ours = [broker_peers.ours(figures.OURS), broker_peers.ours(figures.OURS_SYNCED, "sync")]
    if builds.compiled() is not None:
        ours.append(broker_peers.ours(figures.OURS_INTERPRETED, build=builds.INTERPRETED))
    missing += builds.missing()
    variants = broker_peers.variants() if plan.shows_variants else []
    if plan.shows_variants:
        peers.append(broker_peers.bare_forwarder())
    null_port = stack.enter_context(load_generator.null_broker(programs))
    starting = [
        stack.enter_context(launched(broker, _subfolder(folder, f"broker-{number}")))
        for number, broker in enumerate([*ours, *variants, *peers])
    ]
    count = len(ours) + len(variants)
    brokers = [broker.wait() for broker in starting[:count]]
    for peer in starting[count:]:
        try:
            brokers.append(peer.wait())
        except StartError as error:
            missing.append(str(error))
    print("\n".join(_heading(plan, folder, [*ours, *variants, *peers], missing)), flush=True)
    yield from Benchmark(plan, programs, null_port, brokers, started_s).results()


def is_variant(broker: str) -> bool:
    """Return whether it is a gateway that shows what a part of it costs."""
    return figures.is_ours(broker) and broker not in {
        figures.OURS,
        figures.OURS_SYNCED,
        figures.OURS_INTERPRETED,
    }


def our_faults(results: Sequence[figures.CaseResult]) -> list[str]:
    """Return a line for each case in which a gateway of ours has no figure but for want of time."""
    return [
        f"{result.case}: {figure.broker}: {figure.fault}"
        for result in results
        for figure in result.figures
        if figures.is_ours(figure.broker) and figure.value is None and figure.fault != "out of time"
    ]


def summary(results: Sequence[figures.CaseResult]) -> Iterator[str]:
    """Say how far the generator can be trusted, and in which cases ours failed."""
    rates = [result for result in results if result.metric is cases.RATE and result.alone]
    shares = [
        (figure.value / result.alone, figure.broker, result.case)
        for result in rates
        for figure in result.figures
        if figure.value is not None and result.alone and not result.one_in_flight
    ]
    if shares:
        share, broker, case = max(shares)
        yield "Is the generator the bottleneck? Each case was also run against a null broker, which"
        yield "only hands packets on; a broker well below that rate was not held back."
        yield f"The most that a broker reached of it, pipelined: {share:.0%} ({broker}, {case})."
    busy = [
        (figure.generator_cpu, figure.broker, result.case)
        for result in rates
        for figure in result.figures
        if result.one_in_flight and figure.generator_cpu is not None
    ]
    if busy:
        share, broker, case = max(busy)
        yield "One in flight, what counts is whether the generator waited for the broker: it used"
        yield f"at most {share:.0%} of a core ({broker}, {case})."
    marked = [f for result in rates for f in result.figures if result.is_near_limit(f)]
    yield f"Figures that it may have held back, marked: {len(marked)}."
    faults = our_faults(results)
    if faults:
        yield "Ours failed:"
        yield from (f"    {fault}" for fault in faults)


def _heading(
    plan: Plan, folder: Path, brokers: Sequence[broker_peers.Broker], missing: Sequence[str]
) -> Iterator[str]:
    yield (
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}; state on {_file_system(folder)}"
    )
    yield (
        f"MQTT 3.1.1 on loopback; median of {plan.rounds} round(s) of {plan.measure_s:g} s; "
        "every message is checked for loss, duplicates and order"
    )
    yield "Messages that a broker keeps:"
    yield from (f"    {broker.name:<34} {broker.keeps}" for broker in brokers)
    for line in missing:
        yield f"MISSING, left out: {line}"


def _file_system(folder: Path) -> str:
    mounts = [
        (partition.mountpoint, partition.fstype)
        for partition in psutil.disk_partitions(all=True)
        if folder.resolve().is_relative_to(partition.mountpoint)
    ]
    return max(mounts, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _raise_open_files() -> None:
    """A thousand clients need that many files, here and in the brokers, which inherit this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
