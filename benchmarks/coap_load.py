"""Compiles and runs the CoAP load generator, and reads what it says.

It is a C program of one thread in ``benchmarks/load``, over plain UDP or over DTLS with OpenSSL;
a null server shows how much it can do.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load_generator import SOURCES, GeneratorError

GET, POST, PUT, DELETE = 1, 2, 3, 4
PSK_IDENTITY, PSK = "bench", "0123456789abcdef"
_START_LIMIT_S = 45.0


@dataclass(frozen=True, slots=True)
class Programs:
    """The compiled programs."""

    generator: Path
    null_server: Path
    observers: Path


@dataclass(frozen=True, slots=True)
class Load:
    """The work of the generator.

    Attributes:
        name: the case in words.
        uri: path and query; a # in it is the running number of the request.
        clients: their number; each has one request in flight.
        method: its code.
        payload: of the request, as link format.
        expected_bytes: of the whole answer; 0: any.
        over_dtls: true for DTLS with a pre-shared key.
        first: the first running number.
        modulo: the count of numbers after which it begins again; 0: never.
        count: end after so many answers, whatever time that takes; 0: after the time.
        limit_s: end then, even without `count` answers; 0: never.
        locations: a file to be, of the locations of what is created.
        paths: such a file, whose locations the requests go to in turn; `uri` is the query only.

    """

    name: str
    uri: str
    clients: int = 1
    method: int = GET
    payload: str = ""
    expected_bytes: int = 0
    over_dtls: bool = False
    first: int = 0
    modulo: int = 0
    count: int = 0
    limit_s: float = 0.0
    locations: Path | None = None
    paths: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one run; `fault` says why they mean nothing, or is empty."""

    rate_hz: float = 0.0
    p50_us: float = 0.0
    p99_us: float = 0.0
    generator_cpu: float = 0.0
    resent: int = 0
    fault: str = ""
    max_us: float = 0.0
    answered: int = 0


def compile_programs(folder: Path) -> Programs:
    """Build the programs into a folder.

    Raises:
        GeneratorError: there is no compiler or no OpenSSL to build with, or it fails.

    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise GeneratorError("cc is not installed: sudo apt-get install gcc libc6-dev libssl-dev")
    programs = Programs(folder / "coap_generator", folder / "null_coap", folder / "coap_observers")
    for program, libraries in (
        (programs.generator, ["-lssl", "-lcrypto"]),
        (programs.null_server, []),
        (programs.observers, []),
    ):
        source = SOURCES / f"{program.name}.c"
        command = [compiler, "-O2", "-std=gnu11", "-o", str(program), str(source), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise GeneratorError(f"{source.name}: {done.stderr.strip()} (libssl-dev?)")
    return programs


def run(
    programs: Programs, load: Load, port: int, *, warm_up_s: float = 0.15, measure_s: float = 0.5
) -> Run:
    """Put a load on the server at a port of this machine."""
    command = [
        str(programs.generator),
        f"--port={port}",
        f"--clients={load.clients}",
        f"--uri={load.uri}",
        f"--method={load.method}",
        f"--payload={load.payload}",
        f"--expected={load.expected_bytes}",
        f"--first={load.first}",
        f"--modulo={load.modulo}",
        f"--count={load.count}",
        f"--limit-ms={load.limit_s * 1000:.0f}",
        f"--warm-up-ms={warm_up_s * 1000:.0f}",
        f"--measure-ms={measure_s * 1000:.0f}",
    ]
    if load.over_dtls:
        command += [f"--psk-identity={PSK_IDENTITY}", f"--psk={PSK}"]
    if load.locations is not None:
        command.append(f"--locations={load.locations}")
    if load.paths is not None:
        command.append(f"--paths={load.paths}")
    limit_s = warm_up_s + measure_s + load.limit_s + _START_LIMIT_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Run(fault=f"not done within {limit_s:.0f} s")
    if not done.stdout:
        raise GeneratorError(f"coap_generator: {done.stderr.strip() or done.returncode}")
    return parse_run(done.stdout)


def parse_run(line: str) -> Run:
    """Read the generator's JSON.

    Raises:
        GeneratorError: it is none, or lacks a key.

    """
    try:
        found = json.loads(line)
        measured_s = float(found["measured_s"]) or math.inf
        return Run(
            found["measured"] / measured_s,
            float(found["p50_us"]),
            float(found["p99_us"]),
            found["generator_cpu_s"] / measured_s,
            found["resent"],
            _fault(found),
            float(found["max_us"]),
            found["answered"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError(f"coap_generator wrote {line[:200]!r}: {error!r}") from error


def _fault(found: dict[str, int]) -> str:
    if found["no_handshake"]:
        return f"{found['no_handshake']} clients without a handshake"
    if found["refused"]:
        last = divmod(found["last_refusal"], 100)
        return f"{found['refused']} of {found['answered']} refused, last {last[0]}.{last[1]:02}"
    if found["wrong"]:
        return f"{found['wrong']} answers of a wrong length"
    return "" if found["measured"] else "no answer"


@contextmanager
def null_server(programs: Programs) -> Iterator[int]:
    """Run the server that does nothing and give its port."""
    with subprocess.Popen(
        [str(programs.null_server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
