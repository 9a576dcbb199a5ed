"""Compiles and runs the program that shakes hands over DTLS, and reads what it says."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.coap_load import PSK, PSK_IDENTITY, Run
from benchmarks.coap_servers import Served
from benchmarks.dtls_certificates import DtlsCertificates
from benchmarks.load_generator import SOURCES, GeneratorError

WIDTH = 8
"""Handshakes under way at a time, all from one host."""
NONE_AT_ALL = "no handshake"
_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Shaken:
    """The figures of one run, and the server's processor time for each handshake."""

    run: Run
    server_cpu_us: float


def compile_program(folder: Path) -> Path:
    """Build the program into a folder.

    Raises:
        GeneratorError: there is no compiler or no OpenSSL to build with, or it fails.

    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise GeneratorError("cc is not installed: sudo apt-get install gcc libc6-dev libssl-dev")
    program = folder / "dtls_handshakes"
    source = SOURCES / f"{program.name}.c"
    command = [compiler, "-O2", "-std=gnu11", "-o", str(program), str(source), "-lssl", "-lcrypto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GeneratorError(f"{source.name}: {done.stderr.strip()} (libssl-dev?)")
    return program


def with_key() -> list[str]:
    """Return the arguments of clients with a pre-shared key."""
    return [f"--psk-identity={PSK_IDENTITY}", f"--psk={PSK}"]


def with_certificate(certificates: DtlsCertificates) -> list[str]:
    """Return the arguments of clients that show a certificate."""
    shown, key = certificates.client
    return [f"--certificate={shown}", f"--key={key}"]


def shake_hands(
    program: Path, proof: Sequence[str], server: Served, measure_s: float, *, resumed: bool
) -> Shaken:
    """Shake hands with a server as often as it goes."""
    command = [
        str(program),
        f"--port={server.dtls_port}",
        f"--width={WIDTH}",
        f"--measure-ms={measure_s * 1000:.0f}",
        f"--resumed={int(resumed)}",
        *proof,
    ]
    before_s = _cpu_s(server)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LIMIT_S + measure_s
        )
    except subprocess.TimeoutExpired:
        return Shaken(Run(fault=f"not done within {_LIMIT_S + measure_s:.0f} s"), 0.0)
    taken_s = _cpu_s(server) - before_s
    if not done.stdout:
        raise GeneratorError(f"dtls_handshakes: {done.stderr.strip() or done.returncode}")
    run = parse(done.stdout, resumed=resumed)
    return Shaken(run, taken_s / run.answered * 1e6 if run.answered else 0.0)


def parse(line: str, *, resumed: bool) -> Run:
    """Read what the program says.

    Raises:
        GeneratorError: it is no JSON, or lacks a key.

    """
    try:
        found = json.loads(line)
        measured_s = float(found["measured_s"]) or math.inf
        count = int(found["measured"])
        fault = "" if count else NONE_AT_ALL
        if resumed and count and found["resumed"] < count:
            fault = f"{count - found['resumed']} of {count} were not resumed"
        return Run(
            count / measured_s,
            float(found["p50_us"]),
            float(found["p99_us"]),
            found["generator_cpu_s"] / measured_s,
            found["failed"],
            fault,
            answered=count,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise GeneratorError(f"dtls_handshakes wrote {line[:200]!r}: {error!r}") from error


@contextmanager
def held(program: Path, proof: Sequence[str], server: Served, count: int) -> Iterator[int]:
    """Keep so many sessions while the context is open; gives how many there are."""
    command = [str(program), f"--port={server.dtls_port}", f"--hold={count}", *proof]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            yield int(json.loads(said)["held"]) if said else 0
        finally:
            process.stdin.close()


def _cpu_s(server: Served) -> float:
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)
