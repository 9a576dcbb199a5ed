"""Compiles and runs the load generator and the null broker, and reads what they say.

Both are C programs of one thread each in ``benchmarks/load``: a generator in Python would be
slower than what it is to measure. The null broker shows how much the generator can do.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.broker_cases import Load

SOURCES = Path(__file__).with_name("load")
MAX_MESSAGES = 100_000_000
"""That one publisher sends in one run, at most."""
_RUN_LIMIT_S = 60.0
_LEAVE_LIMIT_S = 10.0


class GeneratorError(RuntimeError):
    """The generator or the null broker can't be built or run; the message says why."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The compiled programs."""

    generator: Path
    null_broker: Path


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run of the generator.

    `rate_hz` is messages delivered to subscribers in a second, after the warm-up.
    `generator_cpu` is the generator's share of one core meanwhile. `latencies_us` are from
    before the write of a message to after the read of it, in the order of arrival; they are
    recorded only under a light load. `fault` is empty if every message arrived once, in order
    and with its QoS; else the figures say nothing. `delivered` counts the whole run;
    `broker_cpu_us` is what the broker took of a core for each of these, if that is known.
    """

    rate_hz: float
    generator_cpu: float
    latencies_us: tuple[float, ...]
    fault: str
    delivered: int = 0
    broker_cpu_us: float | None = None

    def of_broker(self, cpu_s: float) -> Run:
        """Return the same run, in which the broker took so much processor time in all."""
        if not self.delivered:
            return self
        return replace(self, broker_cpu_us=cpu_s * 1e6 / self.delivered)


def compile_programs(folder: Path) -> Programs:
    """Build both programs into a folder.

    Raises:
        GeneratorError: there is no compiler, or it fails.

    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise GeneratorError("cc is not installed: sudo apt-get install gcc libc6-dev")
    programs = Programs(folder / "generator", folder / "null_broker")
    for program in (programs.generator, programs.null_broker):
        source = SOURCES / f"{program.name}.c"
        command = [compiler, "-O2", "-std=gnu11", "-o", str(program), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GeneratorError(f"{source.name}: {done.stderr.strip()}")
    return programs


def run(
    programs: Programs,
    load: Load,
    port: int,
    *,
    warm_up_s: float,
    measure_s: float,
    limit_s: float = _RUN_LIMIT_S,
    subscribe_port: int = 0,
) -> Run:
    """Put a load on the broker at a port of this machine.

    With ``subscribe_port`` the subscribers are at another broker, at that port.
    """
    command = [
        str(programs.generator),
        f"--port={port}",
        f"--subscribe-port={subscribe_port or port}",
        f"--publishers={load.publishers}",
        f"--subscribers={load.subscribers}",
        f"--qos={load.qos}",
        f"--payload={load.payload_bytes}",
        f"--window={load.window}",
        f"--rate={load.rate_hz}",
        f"--count={MAX_MESSAGES}",
        f"--warm-up-ms={warm_up_s * 1000:.0f}",
        f"--measure-ms={measure_s * 1000:.0f}",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=min(limit_s, _RUN_LIMIT_S)
        )
    except subprocess.TimeoutExpired:
        return Run(0.0, 0.0, (), "out of time")
    if not done.stdout:
        raise GeneratorError(f"generator: {done.stderr.strip() or done.returncode}")
    return parse_run(done.stdout)


def parse_run(line: str) -> Run:
    """Read the generator's JSON.

    Raises:
        GeneratorError: it is none, or lacks a key.

    """
    try:
        found: dict[str, Any] = json.loads(line)
        measured_s = float(found["measured_s"]) or math.inf
        return Run(
            rate_hz=found["measured_delivered"] / measured_s,
            generator_cpu=found["generator_cpu_s"] / measured_s,
            latencies_us=tuple(found["latencies_us"]),
            fault=_fault(found),
            delivered=found["delivered"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError(f"generator wrote {line[:200]!r}: {error!r}") from error


def _fault(found: dict[str, Any]) -> str:
    counts = [
        f"{found[key]} {key}"
        for key in ("lost", "duplicated", "disordered", "stray")
        if found[key]  # a run that ended early has lost what was on its way
    ]
    status = str(found["status"])
    return "; ".join(([] if status == "ok" else [status]) + counts)


@contextmanager
def idle_clients(programs: Programs, port: int, count: int) -> Iterator[None]:
    """Keep clients connected, each with one subscription, while the context is open.

    Raises:
        GeneratorError: the broker does not take them all.

    """
    with _program([str(programs.generator), "--idle", f"--port={port}", f"--subscribers={count}"]):
        yield


@contextmanager
def null_broker(programs: Programs) -> Iterator[int]:
    """Run the null broker and give its port."""
    with _program([str(programs.null_broker)]) as line:
        yield int(line)


@contextmanager
def _program(command: Sequence[str]) -> Iterator[str]:
    """Run a program that prints a line when it is ready and ends when its stdin does."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()  # the program itself limits how long that takes
            if not line or line.startswith("{"):
                fault = parse_run(line).fault if line else "ended without a word"
                raise GeneratorError(f"{Path(command[0]).name}: {fault}")
            yield line
        finally:
            process.stdin.close()
            try:
                process.wait(_LEAVE_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
