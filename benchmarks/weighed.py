"""Gateways and peers that are weighed: how each is started, and what the kernel tells of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_peers, builds
from benchmarks.broker_peers import Broker
from benchmarks.broker_process import free_port

EXIT_FAILED = 1
READY_S = 120.0
STILL_KIB = 64
"""A process whose memory changes by less in a second is at rest."""
MOST_CLIENTS = 12_000
_LIMITS = (
    *("connections", "connections_per_address", "connections_per_user", "connects_per_s"),
    *("sessions", "sessions_per_user"),
)
_WAITS = "voluntary_ctxt_switches"
_SCHEDULED = 2
"""Makes a process's number the one of its clock: CPUCLOCK_SCHED, clock_getcpuclockid(3)."""
REST_S = 20
"""So many seconds are waited for that, at most."""


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
class Process:
    """One that runs."""

    name: str
    pid: int
    port: int

    def cpu_s(self) -> float:
        """Processor time of all its threads, to the nanosecond; of those that have ended, too."""
        try:
            return time.clock_gettime(~self.pid << 3 | _SCHEDULED)
        except OSError as error:
            raise LightError(f"{self.name}: process {self.pid}: {error.strerror}") from error

    def threads(self) -> int:
        """Return the number of its threads."""
        return len(self._tasks())

    def waits(self) -> int:
        """Return how often its threads have gone to sleep, and so been woken.

        A thread that ends takes what it counted with it.
        """
        return sum(_field(self._told(f"task/{one}/status"), _WAITS) for one in self._tasks())

    def written_bytes(self) -> int:
        """Return how much it has written to files, in the pages that it has made dirty."""
        return _field(self._told("io"), "write_bytes")

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


def _field(text: str, name: str) -> int:
    """Read a number of proc(5) that stands in a line behind a name."""
    (found,) = (line for line in text.splitlines() if line.startswith(f"{name}:"))
    return int(found.split()[1])


def memory_of(rollup: str) -> Memory:
    """Read what the kernel tells of a process (``/proc/PID/smaps_rollup``, proc(5))."""
    kib = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(":") for line in rollup.splitlines()[1:])
    }
    return Memory(kib["Rss"] / 1024, kib["Anonymous"] / 1024)


def gateway(name: str, build: builds.Build, neighbours: Sequence[int] = ()) -> Broker:
    """Return a gateway of the plain configuration, to which anybody may connect.

    Args:
        name: as it is shown.
        build: the build that runs.
        neighbours: the ports of those that it dials.

    """

    def tables(folder: Path, _port: int) -> dict[str, dict[str, object]]:
        key = folder / "psk"
        key.touch(mode=0o600)
        key.write_text(f"operator:{'5a' * 16}\n")
        dialled = [f"127.0.0.1:{port}" for port in neighbours]
        return {
            "coap": {"dtls_port": 0, "psk_file": str(key)},
            "tree": {"neighbours": dialled} if dialled else {},
            "limits": dict.fromkeys(_LIMITS, MOST_CLIENTS),
        }

    plain = broker_peers.ours(name, with_neighbour=False, build=build, tables=tables)

    def prepare(folder: Path, port: int) -> list[str]:
        plain.prepare(folder, port)
        with (folder / "gateway.toml").open("a") as file:
            file.write('[console]\nport = 0\n[[sensors]]\ntype = "host"\ninterval_s = 10.0\n')
        return [*program(build), "run", "--config", str(folder / "gateway.toml")]

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


@contextmanager
def own_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="light-benchmark-") as folder:
        yield Path(folder)


def program(build: builds.Build) -> list[str]:
    """`hedgerow`, whichever release of it that Python has; not the sources beside this file."""
    return [
        build.python,
        "-P",
        "-E",
        "-c",
        "from gateway.program import main; raise SystemExit(main())",
    ]
