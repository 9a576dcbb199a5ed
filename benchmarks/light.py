"""The weight of a gateway: what a start, a command and an idle one take, beside other brokers.

python -m benchmarks.light [--quick] [--beside NAME=PYTHON ...]

A start is measured by processor time, so that a busy machine changes it little: until the gateway
says READY=1, or until a peer accepts a connection; the median of ten. The gateway is one of the
plain configuration: MQTT, CoAP and CoAP over DTLS, a policy, a console, one sensor of each kind
that the machine has of itself. `--beside` measures the gateway of another Python too, such as that
of a release before: `--beside before=/path/to/its/.venv/bin/python`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import broker_peers, builds, load_generator
from benchmarks.broker_peers import Broker, MissingPeerError
from benchmarks.broker_process import free_port
from benchmarks.load_generator import GeneratorError, Programs

READY_S = 120.0
CLIENTS = 1_000
STILL_KIB = 64
"""A process whose memory changes by less in a second is at rest."""
REST_S = 20
"""So many seconds are waited for that, at most."""
OPEN_FILES = 8_192
COMMANDS = {
    "hedgerow --help": ["--help"],
    "hedgerow get": ["get", "coap://127.0.0.1:1/x"],
    "hedgerow pub": ["pub", "--host", "127.0.0.1", "--port", "1", "-t", "t", "-m", "m"],
    "hedgerow status": ["status", "127.0.0.1:1"],
}
"""The last three find nobody there: what they cost is their start."""
EXIT_FAILED = 1


class LightError(RuntimeError):
    """A process did not start, or says nothing of itself; the message names it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process, MiB.

    Attributes:
        all_mib: with what it shares.
        anonymous_mib: memory that no file is behind: its own data.

    """

    all_mib: float
    anonymous_mib: float

    def __str__(self) -> str:
        return f"{self.all_mib:.1f} ({self.anonymous_mib:.1f})"


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


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs."""

    name: str
    pid: int
    port: int

    def cpu_s(self) -> float:
        """Processor time that its threads have taken, to the nanosecond."""
        return (
            sum(int(self._told(f"task/{one}/schedstat").split()[0]) for one in self._tasks()) / 1e9
        )

    def threads(self) -> int:
        """Return the number of its threads."""
        return len(self._tasks())

    def memory(self) -> Memory:
        """Wait until it has come to rest; return the memory that it takes then."""
        before = self._memory()
        for _ in range(REST_S):
            time.sleep(1.0)
            now = self._memory()
            if abs(now.all_mib - before.all_mib) * 1024 < STILL_KIB:
                break
            before = now
        return now

    def _tasks(self) -> list[str]:
        return [path.name for path in Path(f"/proc/{self.pid}/task").iterdir()]

    def _memory(self) -> Memory:
        return memory_of(self._told("smaps_rollup"))

    def _told(self, name: str) -> str:
        try:
            return Path(f"/proc/{self.pid}/{name}").read_text()
        except OSError as error:
            raise LightError(f"{self.name}: {error.filename}: {error.strerror}") from error


def memory_of(rollup: str) -> Memory:
    """Read what the kernel tells of a process (``/proc/PID/smaps_rollup``, proc(5))."""
    kib = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in rollup.splitlines()[1:])
    }
    return Memory(kib["Rss"] / 1024, kib["Anonymous"] / 1024)


def gateway(name: str, build: builds.Build) -> Broker:
    """Return a gateway of the plain configuration, to which anybody may connect."""

    def tables(folder: Path, _port: int) -> dict[str, dict[str, object]]:
        key = folder / "psk"
        key.touch(mode=0o600)
        key.write_text(f"operator:{'5a' * 16}\n")
        return {"coap": {"dtls_port": 0, "psk_file": str(key)}}

    plain = broker_peers.ours(name, with_neighbour=False, build=build, tables=tables)

    def prepare(folder: Path, port: int) -> list[str]:
        plain.prepare(folder, port)
        with (folder / "gateway.toml").open("a") as file:
            file.write('[console]\nport = 0\n[[sensors]]\ntype = "host"\ninterval_s = 10.0\n')
        return [*_program(build), "run", "--config", str(folder / "gateway.toml")]

    return Broker(name, plain.keeps, prepare)


@contextmanager
def started(
    broker: Broker, folder: Path, *, is_ours: bool, before: Sequence[str] = ()
) -> Iterator[tuple[Process, float]]:
    """Run a broker; give the process and its processor time when it was ready.

    Args:
        broker: the one to run.
        folder: an empty one.
        is_ours: true if it says READY=1 to a service manager.
        before: arguments of the interpreter, put in front of its own.

    Raises:
        LightError: it does not become ready.

    """
    port = free_port()
    python, *rest = broker.prepare(folder, port)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices,
        (folder / "log").open("wb") as log,
    ):
        notices.bind(str(folder / "notify"))
        notices.settimeout(0.005)
        process = subprocess.Popen(
            [python, *before, *rest],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {"NOTIFY_SOCKET": str(folder / "notify")},
        )
        one = Process(broker.name, process.pid, port)
        try:
            end_s = time.monotonic() + READY_S
            while not (_is_ready(notices) if is_ours else _accepts(port)):
                if process.poll() is not None or time.monotonic() > end_s:
                    tail = (folder / "log").read_text(errors="replace")[-400:]
                    raise LightError(f"{broker.name} did not start: {tail}")
            yield one, one.cpu_s()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_ready(notices: socket.socket) -> bool:
    try:
        return b"READY=1" in notices.recv(4096)
    except TimeoutError:
        return False


def _accepts(port: int) -> bool:
    time.sleep(0.002)
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


def weigh(broker: Broker, programs: Programs, starts: int, *, is_ours: bool) -> Weight:
    """Measure a broker; see `Weight`."""
    times = [_start_s(broker, is_ours=is_ours) for _ in range(starts)]
    with _folder() as folder, started(broker, folder, is_ours=is_ours) as (process, _):
        idle, threads = process.memory(), process.threads()
        with load_generator.idle_clients(programs, process.port, CLIENTS):
            with_clients = process.memory()
    modules = _modules(broker) if is_ours else None
    return Weight(broker.name, median(times), idle, with_clients, threads, modules)


def _start_s(broker: Broker, *, is_ours: bool) -> float:
    with _folder() as folder, started(broker, folder, is_ours=is_ours) as (_, cpu_s):
        return cpu_s


def _modules(broker: Broker) -> int:
    with _folder() as folder:
        with started(broker, folder, is_ours=True, before=["-X", "importtime"]):
            pass
        lines = (folder / "log").read_text(errors="replace").splitlines()
    return sum(line.startswith("import time:") for line in lines) - 1  # its head


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="light-benchmark-") as folder:
        yield Path(folder)


def command_s(build: builds.Build, arguments: Sequence[str], starts: int) -> float:
    """Processor time of a command, seconds; the median."""
    return median(_command_s(build, arguments) for _ in range(starts))


def _command_s(build: builds.Build, arguments: Sequence[str]) -> float:
    process = subprocess.Popen(
        [*_program(build), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return used.ru_utime + used.ru_stime


def _program(build: builds.Build) -> list[str]:
    """`hedgerow`, whichever release of it that Python has; not the sources beside this file."""
    return [build.python, "-P", "-c", "from gateway.program import main; raise SystemExit(main())"]


def measure(beside: Sequence[builds.Build], starts: int, programs: Programs) -> Iterator[str]:
    """Measure all, and give the lines of the tables as they come."""
    compiled = builds.compiled()
    ours = [*beside, *([compiled] if compiled else []), builds.INTERPRETED]
    yield from (*builds.missing(), "", *TABLE)
    for build in ours:
        yield weigh(gateway(f"hedgerow {build.name}", build), programs, starts, is_ours=True).row()
    missing = []
    for find in (partial(broker_peers.mosquitto, nodelay=True), broker_peers.nats_server):
        try:
            yield weigh(find(), programs, starts, is_ours=False).row()
        except MissingPeerError as error:
            missing.append(f"not measured: {error}")
    yield from (*missing, "", f"| command | {' | '.join(build.name for build in ours)} |")
    yield f"|---|{'--:|' * len(ours)}"
    for name, arguments in COMMANDS.items():
        times = [f"{command_s(build, arguments, starts):.3f}" for build in ours]
        yield f"| `{name}`, s of a processor | {' | '.join(times)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, and return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.light", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three starts in place of ten")
    parser.add_argument("--beside", action="append", type=_build, default=[], metavar="NAME=PYTHON")
    options = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES:  # a file for each client, here and in the brokers, which inherit this
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(OPEN_FILES, hard), hard))
    try:
        with _folder() as folder:
            programs = load_generator.compile_programs(folder)
            for line in measure(options.beside, 3 if options.quick else 10, programs):
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
