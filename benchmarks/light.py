"""The weight of a gateway: what a start, a command and an idle one take, beside other brokers.

python -m benchmarks.light [--quick] [--beside NAME=PYTHON ...] [--only TABLE]

A start is measured by processor time, so that a busy machine changes it little: until the gateway
says READY=1, or until a peer accepts a connection; the median of ten. The gateway is one of the
plain configuration: MQTT, CoAP and CoAP over DTLS, a policy, a console, one sensor of each kind
that the machine has of itself. `--beside` measures the gateway of another Python too, such as that
of a release before: `--beside before=/path/to/its/.venv/bin/python`. A second table has the memory
behind each load, a third what a gateway does at rest (`light_loads`).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import broker_peers, builds, coap_load, light_loads, load_generator
from benchmarks.broker_peers import Broker, MissingPeerError
from benchmarks.light_loads import Compared, Generators
from benchmarks.load_generator import GeneratorError
from benchmarks.weighed import (
    EXIT_FAILED,
    LightError,
    Memory,
    gateway,
    own_folder,
    program,
    started,
)

CLIENTS = 1_000
OPEN_FILES = 16_384
TABLES = ("starts", "loads", "rest", "commands")
COMMANDS = {
    "hedgerow --help": ["--help"],
    "hedgerow get": ["get", "coap://127.0.0.1:1/x"],
    "hedgerow pub": ["pub", "--host", "127.0.0.1", "--port", "1", "-t", "t", "-m", "m"],
    "hedgerow status": ["status", "127.0.0.1:1"],
}
"""The last three find nobody there: what they cost is their start."""


@dataclass(frozen=True, slots=True)
class Weight:
    """The resources that one broker takes.

    Attributes:
        name: its.
        start_s: processor time of a start, seconds; the median.
        idle: its memory when nobody is connected.
        with_clients: its memory with `CLIENTS` idle clients.
        threads: their number when nobody is connected.
        modules: that it has imported when it serves; None for a peer.

    """

    name: str
    start_s: float
    idle: Memory
    with_clients: Memory
    threads: int
    modules: int | None = None

    def row(self) -> str:
        """Return a row of `TABLE`."""
        modules = "-" if self.modules is None else str(self.modules)
        return (
            f"| {self.name} | {self.start_s:.3f} | {modules} | {self.threads} | {self.idle} "
            f"| {self.with_clients} |"
        )


TABLE = (
    "| broker | start, s of a processor | modules | threads | RSS idle (anonymous), MiB "
    f"| with {CLIENTS:,} idle clients |",
    "|---|--:|--:|--:|--:|--:|",
)


def weigh(broker: Broker, programs: Generators, starts: int, *, is_ours: bool) -> Weight:
    """Measure a broker; see `Weight`."""
    times = [_start_s(broker, is_ours=is_ours) for _ in range(starts)]
    with own_folder() as folder, started(broker, folder, is_ours=is_ours) as (process, _):
        idle, threads = process.memory(), process.threads()
        with load_generator.idle_clients(programs.mqtt, process.port, CLIENTS):
            with_clients = process.memory()
    modules = _modules(broker) if is_ours else None
    return Weight(broker.name, median(times), idle, with_clients, threads, modules)


def _start_s(broker: Broker, *, is_ours: bool) -> float:
    with own_folder() as folder, started(broker, folder, is_ours=is_ours) as (_, cpu_s):
        return cpu_s


def _modules(broker: Broker) -> int:
    with own_folder() as folder:
        with started(broker, folder, is_ours=True, before=["-X", "importtime"]):
            pass
        lines = (folder / "log").read_text(errors="replace").splitlines()
    return sum(line.startswith("import time:") for line in lines) - 1  # its head


def command_s(build: builds.Build, arguments: Sequence[str], starts: int) -> float:
    """Processor time of a command, seconds; the median."""
    return median(_command_s(build, arguments) for _ in range(starts))


def _command_s(build: builds.Build, arguments: Sequence[str]) -> float:
    process = subprocess.Popen(
        [*program(build), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def measure(
    beside: Sequence[builds.Build], starts: int, programs: Generators, only: str = ""
) -> Iterator[str]:
    """Measure all, and give the lines of the tables as they come.

    Args:
        beside: further builds.
        starts: so often each is started where its start is measured.
        programs: the compiled generators.
        only: one of `TABLES`; empty for all.

    """
    compiled = builds.compiled()
    ours = [*beside, *([compiled] if compiled else []), builds.INTERPRETED]
    brokers = [
        Compared(gateway(f"hedgerow {one.name}", one), partial(gateway, "a neighbour", one))
        for one in ours
    ]
    missing = builds.missing()
    for find in (partial(broker_peers.mosquitto, nodelay=True), broker_peers.nats_server):
        try:
            brokers.append(Compared(find()))
        except MissingPeerError as error:
            missing.append(f"not measured: {error}")
    yield from missing
    if only in ("", "starts"):
        yield from ("", *TABLE)
        for one in brokers:
            yield weigh(one.broker, programs, starts, is_ours=one.is_ours).row()
    if only in ("", "loads"):
        yield from ("", *light_loads.memory_table(brokers, programs))
    if only in ("", "rest"):
        yield from ("", *light_loads.rest_table(brokers, programs))
    if only in ("", "commands"):
        yield from ("", *_commands_table(ours, starts))


def _commands_table(ours: Sequence[builds.Build], starts: int) -> Iterator[str]:
    yield f"| command | {' | '.join(build.name for build in ours)} |"
    yield f"|---|{'--:|' * len(ours)}"
    for name, arguments in COMMANDS.items():
        times = [f"{command_s(build, arguments, starts):.3f}" for build in ours]
        yield f"| `{name}`, s of a processor | {' | '.join(times)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, and return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.light", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three starts in place of ten")
    parser.add_argument("--only", choices=TABLES, default="", help="one table in place of all")
    parser.add_argument("--beside", action="append", type=_build, default=[], metavar="NAME=PYTHON")
    options = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES:  # a file for each client, here and in the brokers, which inherit this
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))
    starts = 3 if options.quick else 10
    try:
        with own_folder() as folder:
            programs = Generators(
                load_generator.compile_programs(folder), coap_load.compile_programs(folder)
            )
            for line in measure(options.beside, starts, programs, options.only):
                print(line, flush=True)
    except (GeneratorError, LightError) as error:
        print(f"benchmarks.light: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _build(text: str) -> builds.Build:
    name, separator, python = text.partition("=")
    if not separator or not Path(python).is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PYTHON, with the path of a Python")
    return builds.Build(name, python)


if __name__ == "__main__":
    sys.exit(main())
