"""CoAP servers under one load generator: ``python -m benchmarks.coap``.

A sensor's value and a representation of 4 KiB (in blocks of 1,024 bytes) are read with 1, 32 and
1,000 clients, each with one request in flight and an address of its own, over plain UDP and over
DTLS with a pre-shared key; a thousand clients observe one resource. Each case has servers that
have just been started, for some are slower with the sessions that an earlier one has left; they run
at once, and the case goes to one after the other, round by round.

Exit codes: 0 done; 1 ours did not start or failed in a case; 2 a wrong argument, or no compiler.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import coap_load, coap_observers, coap_servers, comparison
from benchmarks.broker_process import StartError
from benchmarks.coap_figures import CaseResult, rate_result
from benchmarks.coap_load import Load, Programs, Run
from benchmarks.coap_observers import Told
from benchmarks.coap_servers import OURS, Served
from benchmarks.load_generator import GeneratorError

EXIT_OURS_FAILED = 1
EXIT_WRONG_USE = 2
_OPEN_FILES = 8192
_CLIENTS = (1, 32, 1000)
_OBSERVED = "1,000 observers"
_CHANGES = 5
_KEEP_S = 8.0
"""Seconds that ``--quick`` keeps back for a case and for stopping the servers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The choice of cases, and how long and how often each is measured."""

    rounds: int
    measure_s: float
    limit_s: float = float("inf")
    has_all_cases: bool = True


def cases(*, has_all: bool) -> list[tuple[Load, bool]]:
    """Return every load without the server's own paths, and whether it reads the large one.

    What takes long, or says little more than another, is only there if all are to be.
    """
    return [
        (
            Load(
                f"GET of {what}, {'DTLS' if dtls else 'plain'}, {count:,} in flight",
                "",
                count,
                over_dtls=dtls,
            ),
            big,
        )
        for dtls in (False, True)
        for what, big in (("a sensor", False), ("4 KiB in blocks", True))
        for count in _CLIENTS
        if has_all or not dtls or count == _CLIENTS[1]
    ]


def measure(
    plan: Plan,
    programs: Programs,
    servers: Sequence[Served],
    end_s: float,
    load: Load,
    *,
    is_big: bool,
) -> CaseResult:
    """Measure one case."""
    runs: dict[str, list[Run]] = {
        server.name: [] for server in servers if server.dtls_port or not load.over_dtls
    }
    for _ in range(plan.rounds):
        for server in servers:
            if server.name not in runs or any(run.fault for run in runs[server.name]):
                continue
            if time.monotonic() > end_s:
                continue
            port = server.dtls_port if load.over_dtls else server.port
            path, length = server.big if is_big and server.big else (server.sensor, 0)
            asked = replace(load, uri=path, expected_bytes=length)
            runs[server.name].append(
                coap_load.run(programs, asked, port or 0, measure_s=plan.measure_s)
            )
    return rate_result(load.name, "requests/s", runs)


def measure_observers(
    plan: Plan, programs: Programs, servers: Sequence[Served], end_s: float
) -> CaseResult:
    """Return the case of the observers."""
    told: dict[str, list[Told]] = {server.name: [] for server in servers if server.watched}
    for _ in range(plan.rounds):
        for server in servers:
            if server.watched is None or time.monotonic() > end_s:
                continue
            if not any(one.fault for one in told[server.name]):
                told[server.name].append(
                    coap_observers.observe(programs, server.watched, server.port, _CHANGES)
                )
    return coap_observers.told_result(told)


def ceiling(plan: Plan, programs: Programs) -> Iterator[str]:
    """Measure what the generator reaches against a server that does nothing."""
    with coap_load.null_server(programs) as port:
        for count in _CLIENTS:
            run = coap_load.run(programs, Load("", "/x", count), port, measure_s=plan.measure_s)
            yield f"generator alone, {count:,} in flight: {run.rate_hz:,.0f} requests/s"


@contextmanager
def fresh_servers(folder: Path) -> Iterator[list[Served]]:
    """Ours and their peers, in a folder that is not there yet."""
    folder.mkdir()
    wanted = [*coap_servers.all_ours(), coap_servers.libcoap(), coap_servers.aiocoap()]
    with ExitStack() as stack:
        yield [
            stack.enter_context(coap_servers.launched(server, folder / f"server-{number}"))
            for number, server in enumerate(wanted)
            if server is not None
        ]


def all_results(
    plan: Plan, programs: Programs, folder: Path, end_s: float, case: str
) -> Iterator[CaseResult]:
    """Yield requests and observers, of every case with that text in its name."""
    for number, (load, is_big) in enumerate(cases(has_all=plan.has_all_cases)):
        if case in load.name:
            with fresh_servers(folder / f"case-{number}") as servers:
                yield measure(plan, programs, servers, end_s, load, is_big=is_big)
    if case in _OBSERVED and (plan.has_all_cases or case):  # a peer that fails takes 20 s
        with fresh_servers(folder / "observers") as servers:
            yield measure_observers(plan, programs, servers, end_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    names = [*(load.name for load, _ in cases(has_all=True)), _OBSERVED]
    options = comparison.options("coap", __doc__.partition("\n")[0], arguments, names)
    plan = Plan(1, 0.3, comparison.QUICK_S - _KEEP_S, False) if options.quick else Plan(3, 0.7)
    end_s = time.monotonic() + plan.limit_s
    raise_open_files()
    results: list[CaseResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="coap-benchmark-") as folder:
            programs = coap_load.compile_programs(Path(folder))
            print("\n".join(heading()), flush=True)
            print("MISSING, left out: aiocoap over DTLS (its tinydtls binding is not installed)")
            print("\n".join(ceiling(plan, programs)), flush=True)
            for result in all_results(plan, programs, Path(folder), end_s, options.case):
                results.append(result)
                print("\n".join(("", *result.lines())), flush=True)
    except (GeneratorError, StartError) as error:
        print(f"benchmarks.coap: {error}", file=sys.stderr)
        return EXIT_WRONG_USE if isinstance(error, GeneratorError) else EXIT_OURS_FAILED
    return finish(results, options)


def finish(results: Sequence[CaseResult], options: comparison.Options) -> int:
    """Write the JSON if it is asked for; the exit code."""
    if options.json_file is not None:
        found = [one for result in results for one in result.comparisons()]
        comparison.write_json(options.json_file, found)
    failed = [
        result for result in results if result.faults.get(OURS, "out of time") != "out of time"
    ]
    for result in failed:
        print(f"Ours failed: {result.case}: {result.faults[OURS]}")
    return EXIT_OURS_FAILED if failed else 0


def heading() -> Iterator[str]:
    """Yield the machine, and what is missing on it."""
    yield (
        f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}; CoAP on loopback"
    )
    for line in coap_servers.missing():
        yield f"MISSING, left out: {line}"


def raise_open_files() -> None:
    """A thousand clients need that many files, here and in the servers, which inherit this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
