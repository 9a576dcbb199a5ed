"""A thousand observers of one resource: how long until all are told of a change."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.coap_figures import CaseResult
from benchmarks.coap_load import Programs
from benchmarks.coap_servers import Watched
from benchmarks.comparison import shown
from benchmarks.load_generator import GeneratorError

OBSERVERS = 1_000
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """The figures of one run; `fault` says why there are none, or is empty."""

    p50_us: float = 0.0
    max_us: float = 0.0
    generator_cpu: float = 0.0
    fault: str = ""


def observe(programs: Programs, watched: Watched, port: int, changes: int) -> Told:
    """Have the resource observed at a port of this machine, and change it so many times.

    Raises:
        GeneratorError: the program says nothing that can be read.

    """
    command = [
        str(programs.observers),
        f"--port={port}",
        f"--clients={OBSERVERS}",
        f"--changes={changes}",
        f"--uri={watched.uri}",
        f"--change-uri={watched.change_uri}",
        f"--method={watched.method}",
        f"--payload={watched.payload}",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return Told(fault=f"not done within {_LIMIT_S:.0f} s")
    if not done.stdout:
        raise GeneratorError(f"coap_observers: {done.stderr.strip() or done.returncode}")
    return parse_told(done.stdout)


def parse_told(line: str) -> Told:
    """Read the program's JSON.

    Raises:
        GeneratorError: it is none, or lacks a key.

    """
    try:
        found = json.loads(line)
        fault = ""
        if found["registered"] < OBSERVERS:
            fault = f"{found['registered']} observe, {found['refused']} answers were refusals"
        elif found["missed"]:
            fault = f"{found['missed']} were not told of change {found['changes']} within 10 s"
        return Told(float(found["p50_us"]), float(found["max_us"]), found["generator_cpu"], fault)
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError(f"coap_observers wrote {line[:200]!r}: {error!r}") from error


def told_result(runs: Mapping[str, Sequence[Told]]) -> CaseResult:
    """Return the median of each server's medians; one faulty run leaves it without a figure."""
    figures, faults, notes = {}, {}, {}
    for name, of_server in runs.items():
        fault = next((run.fault for run in of_server if run.fault), "")
        if fault or not of_server:
            faults[name] = fault or "out of time"
            continue
        figures[name] = median(run.p50_us for run in of_server) / 1000
        notes[name] = f"longest {shown(max(run.max_us for run in of_server) / 1000)} ms"
    case = f"{OBSERVERS:,} observers of one resource, until all are told of a change"
    return CaseResult(case, "ms", "lower", figures, faults, notes)
