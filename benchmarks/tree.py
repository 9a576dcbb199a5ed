"""Chains of gateways against chains of other brokers: ``python -m benchmarks.tree``.

A publisher at one end, a subscriber at the other, one hop and two. All chains of a length run at
the same time, and a case goes to one after the other in turn. MQTT 3.1.1 on loopback under the load
generator of `benchmarks.broker`; Zenoh over its own protocol, with QoS 0 alone.

Exit codes: 0 done; 1 a run of ours lost, doubled or disordered a message or failed otherwise;
2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_figures as figures
from benchmarks import comparison, load_generator, tree_cases, tree_chains
from benchmarks.broker import EXIT_OURS_FAILED, EXIT_WRONG_USE, our_faults
from benchmarks.broker_cases import SMALL_BYTES
from benchmarks.broker_process import StartError
from benchmarks.load_generator import GeneratorError, Programs, Run
from benchmarks.tree_cases import ChainLoad
from benchmarks.tree_chains import Chain, Kind

_STOP_S = 4.0
_MIN_RUN_S = 1.5


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases that are measured, and how long and how often each is."""

    hops: Sequence[int]
    payloads: Sequence[int]
    rounds: int
    warm_up_s: float
    measure_s: float
    latency_s: float
    limit_s: float
    shows_variants: bool


FULL = Plan(tree_cases.HOPS, tree_cases.PAYLOADS, 3, 0.3, 1.0, 2.0, math.inf, True)
QUICK = Plan((1,), (SMALL_BYTES,), 1, 0.2, 0.5, 0.5, comparison.QUICK_S - _STOP_S, False)


class Benchmark:
    """Measures the chains that run, case by case.

    Args:
        plan: the cases, and how long and how often each is measured.
        programs: the compiled generator and null broker.
        null_port: port of the null broker.
        started_s: the moment at which the plan's limit began, on the monotonic clock.

    """

    def __init__(self, plan: Plan, programs: Programs, null_port: int, started_s: float) -> None:
        self._plan = plan
        self._programs = programs
        self._null_port = null_port
        self._end_s = started_s + plan.limit_s

    def results(self, chains: Sequence[Chain], hops: int) -> Iterator[figures.CaseResult]:
        """Yield every case of chains of one length, as soon as it is measured."""
        plan = self._plan
        for load in tree_cases.latency_loads(hops):
            compared = [chain for chain in chains if chain.speaks_mqtt or not load.qos]
            runs, alone = self._rounds(load, compared, plan.latency_s)
            if alone.latencies_us:
                yield from figures.latency_results(load, runs, alone)
        for load in tree_cases.rate_loads(hops):
            if load.payload_bytes in plan.payloads:
                compared = [chain for chain in chains if chain.speaks_mqtt or not load.qos]
                yield figures.rate_result(load, *self._rounds(load, compared, plan.measure_s))

    def _rounds(
        self, load: ChainLoad, chains: Sequence[Chain], measure_s: float
    ) -> tuple[dict[str, list[Run]], Run]:
        runs: dict[str, list[Run]] = {chain.name: [] for chain in chains}
        alone = self._run(load, None, measure_s)
        for _ in range(self._plan.rounds):
            for chain in chains:
                of_chain = runs[chain.name]
                if not any(run.fault for run in of_chain):
                    before_s = chain.cpu_s()
                    run = self._run(load, chain, measure_s)
                    of_chain.append(run.of_broker(chain.cpu_s() - before_s))
        return runs, alone

    def _run(self, load: ChainLoad, chain: Chain | None, measure_s: float) -> Run:
        left_s = self._end_s - time.monotonic()
        if left_s < measure_s + _MIN_RUN_S:
            return Run(0.0, 0.0, (), "out of time")
        if chain is not None and not chain.speaks_mqtt:
            return run_zenoh(load, chain, self._plan.warm_up_s, measure_s)
        return load_generator.run(
            self._programs,
            load,
            self._null_port if chain is None else chain.publish_port,
            subscribe_port=0 if chain is None else chain.subscribe_port,
            warm_up_s=self._plan.warm_up_s,
            measure_s=measure_s,
            limit_s=left_s,
        )


def run_zenoh(load: ChainLoad, chain: Chain, warm_up_s: float, measure_s: float) -> Run:
    """Put a load on a chain of Zenoh routers, over their own protocol."""
    command = [sys.executable, "-m", "benchmarks.zenoh_load", "load"]
    command += [str(chain.publish_port), str(chain.subscribe_port)]
    command += [f"--payload={load.payload_bytes}", f"--rate={load.rate_hz}"]
    command += [f"--warm-up-s={warm_up_s}", f"--measure-s={measure_s}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return Run(0.0, 0.0, (), "out of time")
    if not done.stdout:
        return Run(0.0, 0.0, (), done.stderr.strip()[-200:] or f"exit code {done.returncode}")
    return load_generator.parse_run(done.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("tree", __doc__.partition("\n")[0], arguments)
    plan = QUICK if options.quick else FULL
    started_s = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    results: list[figures.CaseResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="tree-benchmark-") as folder:
            for result in _measure(plan, Path(folder), started_s):
                results.append(result)
                print("\n".join(("", *result.lines())), flush=True)
    except GeneratorError as error:
        print(f"benchmarks.tree: {error}", file=sys.stderr)
        return EXIT_WRONG_USE
    except StartError as error:
        print(f"benchmarks.tree: {error}", file=sys.stderr)
        return EXIT_OURS_FAILED
    if options.json_file is not None:
        found = [one for result in results for one in result.comparisons()]
        comparison.write_json(options.json_file, found)
    faults = our_faults(results)
    print("\n".join(("", *faults)), flush=True)
    return EXIT_OURS_FAILED if faults else 0


def _measure(plan: Plan, folder: Path, started_s: float) -> Iterator[figures.CaseResult]:
    programs = load_generator.compile_programs(folder)
    ours = tree_chains.our_kinds()[: None if plan.shows_variants else 2]
    peers, missing = tree_chains.peers()
    print("\n".join(_heading(plan, [*ours, *peers], missing)), flush=True)
    with load_generator.null_broker(programs) as null_port:
        benchmark = Benchmark(plan, programs, null_port, started_s)
        for hops in plan.hops:
            with ExitStack() as stack:
                chains = [
                    stack.enter_context(
                        tree_chains.running(kind, hops, folder / f"{hops}-{number}")
                    )
                    for number, kind in enumerate([*ours, *peers])
                ]
                yield from benchmark.results(chains, hops)


def _heading(plan: Plan, kinds: Sequence[Kind], missing: Sequence[str]) -> Iterator[str]:
    yield (
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Linux {platform.release()}, Python {platform.python_version()}"
    )
    yield (
        f"loopback; median of {plan.rounds} round(s) of {plan.measure_s:g} s; every message over "
        "MQTT is checked for loss, duplicates and order"
    )
    yield "What a chain keeps:"
    yield from (f"    {kind.name:<34} {kind.broker.keeps}" for kind in kinds)
    for line in missing:
        yield f"MISSING, left out: {line}"


if __name__ == "__main__":
    sys.exit(main())
