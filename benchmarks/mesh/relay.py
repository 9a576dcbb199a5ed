"""Edges between namespaces with delay, jitter and loss, which this kernel's tc may lack (netem).

An edge is a pair of TUN devices. A process of its own reads each packet from one and writes it to
the other after a delay drawn from a normal distribution. Packets of one direction keep their order:
none leaves before the one that came before it. Bandwidth is not the relay's matter: each device
has a token bucket of the kernel's (tbf).

    python -m benchmarks.mesh.relay     started by `Relay`, which tells it what to do by lines
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.mesh.namespaces import FOLDER, TUN, BedError, _enter_path

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_MAX_PACKET_BYTES = 65536
_PACKETS_AT_ONCE = 64
_PR_SET_PDEATHSIG = 1
_STDIN = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """The delay and the loss of an edge, in each direction alike.

    Attributes:
        delay_ms: mean of the one-way delay.
        jitter_ms: its standard deviation.
        loss: share of the packets that vanish, 0 to 1.

    """

    delay_ms: float = 10.0
    jitter_ms: float = 2.5
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge: the device of this name in a namespace."""

    namespace: str
    device: str


class Relay:
    """The process that carries packets over all edges of a network.

    Args:
        edges: both ends of each; the devices are made.
        seed: of delays and losses.

    """

    def __init__(self, edges: list[tuple[End, End]], seed: int = 1) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mesh.relay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        ends = [[[a.namespace, a.device], [b.namespace, b.device]] for a, b in edges]
        self._tell({"edges": ends, "seed": seed})
        if self._process.stdout.readline() != "up\n":
            self.stop()
            raise BedError("the relay did not start")

    def shape(self, edge: int, shape: Shape) -> None:
        """Change what an edge does from now on."""
        self._tell({"edge": edge, "shape": [shape.delay_ms, shape.jitter_ms, shape.loss]})

    def stop(self) -> None:
        """End it; its devices go with it."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _tell(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()


def end_with_parent() -> None:
    """Called in a child: it gets SIGKILL when its parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# -- the process -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Direction:
    to: int
    edge: int
    last_due_s: float = 0.0


class _Carrier:
    def __init__(self, edges: list[list[list[str]]], seed: int) -> None:
        self._random = random.Random(seed)
        self._shapes = [Shape() for _ in edges]
        self._directions: dict[int, _Direction] = {}
        self._due: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._poll = select.epoll()
        for number, ends in enumerate(edges):
            one, other = (_open_tun(*end) for end in ends)
            self._directions[one] = _Direction(other, number)
            self._directions[other] = _Direction(one, number)
        for fd in self._directions:
            self._poll.register(fd, select.EPOLLIN)
        self._told = b""
        self._poll.register(_STDIN, select.EPOLLIN)

    def run(self) -> None:
        """Carry packets until standard input ends."""
        clock = time.monotonic
        due = self._due
        while True:
            timeout_s = max(0.0, due[0][0] - clock()) if due else None
            for fd, _ in self._poll.poll(timeout_s):
                if fd == _STDIN:
                    if not self._listen():
                        return
                else:
                    self._take(fd, clock())
            now = clock()
            while due and due[0][0] <= now:
                _, _, to, packet = heapq.heappop(due)
                with contextlib.suppress(OSError):  # a device that is down takes nothing
                    os.write(to, packet)

    def _take(self, fd: int, now: float) -> None:
        direction = self._directions[fd]
        shape = self._shapes[direction.edge]
        for _ in range(_PACKETS_AT_ONCE):
            try:
                packet = os.read(fd, _MAX_PACKET_BYTES)
            except OSError:  # BlockingIOError: that was all
                return
            if shape.loss and self._random.random() < shape.loss:
                continue
            delay_s = self._random.gauss(shape.delay_ms, shape.jitter_ms) / 1000
            direction.last_due_s = max(direction.last_due_s, now + max(0.0, delay_s))
            self._number += 1
            heapq.heappush(self._due, (direction.last_due_s, self._number, direction.to, packet))

    def _listen(self) -> bool:
        data = os.read(_STDIN, _MAX_PACKET_BYTES)
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self._shapes[told["edge"]] = Shape(*told["shape"])
        return bool(data)


def _open_tun(namespace: str, device: str) -> int:
    _enter_path(FOLDER / namespace)  # this process may stay in any: its files are what counts
    fd = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", device.encode(), _IFF_TUN | _IFF_NO_PI))
    return fd


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: what follows is the carrier's to read
        line += os.read(_STDIN, 1)
    return line


def main() -> None:
    """Do what `Relay` says."""
    begin = json.loads(_first_line())
    carrier = _Carrier(begin["edges"], begin["seed"])
    print("up", flush=True)
    carrier.run()


if __name__ == "__main__":
    main()
