"""Starts brokers, waits until they accept connections, and stops them however the run ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import psutil

from benchmarks.broker_peers import Broker

START_LIMIT_S = 60.0
_STOP_LIMIT_S = 5.0
_PR_SET_PDEATHSIG = 1
_LOG_TAIL = 400


class StartError(RuntimeError):
    """A broker did not start; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that accepts connections on a port of this machine."""

    name: str
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Processor time that the process and its children have taken.

        Raises:
            psutil.Error: it has ended.

        """
        process = psutil.Process(self.pid)
        times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))

    def rss_mib(self) -> float:
        """Resident memory of the process and its children.

        Raises:
            psutil.Error: it has ended.

        """
        process = psutil.Process(self.pid)
        family = [process, *process.children(recursive=True)]
        return float(sum(one.memory_info().rss for one in family)) / (1 << 20)


@dataclass(frozen=True, slots=True)
class LaunchedBroker:
    """A broker that may not accept connections yet."""

    name: str
    port: int
    log: Path
    process: subprocess.Popen[bytes]
    neighbour: subprocess.Popen[bytes] | None = None

    def wait(self) -> RunningBroker:
        """Wait until it accepts connections, and its neighbour is linked to it.

        Raises:
            StartError: it has ended, or takes too long.

        """
        end_s = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end_s and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                break
            time.sleep(0.02)
        else:
            self._failed()
        if self.neighbour is not None:
            assert self.neighbour.stdout is not None
            os.set_blocking(self.neighbour.stdout.fileno(), False)
            while not self.neighbour.stdout.readline():
                if time.monotonic() > end_s or self.neighbour.poll() is not None:
                    self._failed()
                time.sleep(0.02)
        return RunningBroker(self.name, self.port, self.process.pid)

    def _failed(self) -> NoReturn:
        tail = self.log.read_text(errors="replace").strip()[-_LOG_TAIL:]
        raise StartError(f"{self.name} did not start: {tail}")


@contextmanager
def launched(broker: Broker, folder: Path) -> Iterator[LaunchedBroker]:
    """Run a broker as long as the context is open; several can start at the same time.

    Args:
        broker: the one to run.
        folder: an empty one for its configuration, state and log.

    """
    port = free_port()
    command = broker.prepare(folder, port)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | broker.environment,
            preexec_fn=_die_along,  # noqa: PLW1509  # this program has no threads
        )
    neighbour: subprocess.Popen[bytes] | None = None
    try:
        if broker.neighbour is not None:
            neighbour = subprocess.Popen(
                broker.neighbour(folder, port),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it tries until the broker is there
                preexec_fn=_die_along,  # noqa: PLW1509
            )
        yield LaunchedBroker(broker.name, port, log, process, neighbour)
    finally:
        if neighbour is not None:
            _stop(neighbour)
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_along() -> None:
    """Have the kernel end the broker when this program ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
