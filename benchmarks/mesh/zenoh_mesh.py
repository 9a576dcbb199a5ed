"""Zenoh routers in the namespaces of a network, with a client at each."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
import time

from benchmarks.mesh.count import Count, payload
from benchmarks.mesh.gateways import START_S, MeshError
from benchmarks.mesh.network import Network
from benchmarks.mesh.relay import end_with_parent
from benchmarks.mesh.silences import Listening
from benchmarks.mesh.zenoh_process import RECORD

NAME = "Zenoh routers"
PACKAGE = "eclipse-zenoh"


def is_installed() -> bool:
    """Return whether Zenoh is installed here."""
    return importlib.util.find_spec("zenoh") is not None


class ZenohMesh:
    """A router at each host, as `failures.Mesh`; a context manager that leaves none behind.

    Args:
        network: of the hosts that they run at.
        rate_hz: of each client's publisher.
        size: of a payload, in bytes.

    """

    def __init__(self, network: Network, *, rate_hz: float, size: int = 64) -> None:
        self.network = network
        self.listening = Listening(Count())
        self._rate_hz = rate_hz
        self._size = size
        self._routers: dict[int, asyncio.subprocess.Process] = {}
        self._clients: dict[int, asyncio.subprocess.Process] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._ups: dict[int, asyncio.Task[float]] = {}
        self._publishes = False

    async def __aenter__(self) -> ZenohMesh:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in (*self._routers.values(), *self._clients.values()):
            await _kill(process)
        for task in (*self._reading, *self._ups.values()):
            task.cancel()
        await asyncio.gather(*self._reading, *self._ups.values(), return_exceptions=True)

    @property
    def running(self) -> list[int]:
        """Hosts whose router runs."""
        return sorted(self._routers)

    async def start(self, host: int, *, wait: bool = True) -> None:
        """Start a router and, once it is up, a client of it."""
        self._ups[host] = asyncio.create_task(self._start(host))
        if wait:
            await self._ups[host]

    async def up(self, host: int) -> float:
        """Wait until the router listens and its client is there; return the time of that."""
        return await self._ups[host]

    async def _start(self, host: int) -> float:
        address = self.network.address(host)
        neighbours = [self.network.address(n) for n in self.network.neighbours(host)]
        self._routers[host] = await self._run(host, "router", address, *neighbours)
        await _said_up(self._routers[host])
        up_s = time.monotonic()
        count = self.listening.count
        stream = count.stream(f"publisher-{host}", host, f"mesh/{host}", 0)
        arguments = (str(stream.number), str(self._rate_hz), str(self._size))
        client = await self._run(host, "client", address, *arguments)
        await _said_up(client)
        self._clients[host] = client
        self.listening.streams[host] = stream
        self.listening.names[host] = f"subscriber-{stream.number}"
        task = asyncio.create_task(self._read(client, self.listening.names[host]))
        self._reading.add(task)
        if self._publishes:
            _tell(client)
        return up_s

    async def kill(self, host: int) -> None:
        """SIGKILL the router; its client goes too, and a new one comes with the next router."""
        await _kill(self._routers.pop(host))
        await _kill(self._clients.pop(host))

    async def settled(self) -> dict[int, int | None]:
        """Wait until everybody has heard of everybody; there are no parents to tell."""
        alive = self._alive()
        while not alive.heard_all():
            await asyncio.sleep(0.05)
        return {}

    def _alive(self) -> Listening:
        alive = Listening(self.listening.count)
        alive.names = {h: n for h, n in self.listening.names.items() if h in self._clients}
        alive.streams = {h: s for h, s in self.listening.streams.items() if h in self._clients}
        return alive

    async def begin(self) -> Listening:
        """Publish from now on, everywhere."""
        for host in range(len(self.network.hosts)):
            await self.up(host)
        self._publishes = True
        for client in self._clients.values():
            _tell(client)
        return self.listening

    async def end(self) -> None:
        """Publish no more; what is under way arrives."""
        for client in self._clients.values():
            _tell(client)
        await asyncio.sleep(3.0)

    async def _run(self, host: int, *arguments: str) -> asyncio.subprocess.Process:
        module = (sys.executable, "-m", "benchmarks.mesh.zenoh_process")
        return await asyncio.create_subprocess_exec(
            *self.network.hosts[host].command(*module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            preexec_fn=end_with_parent,
        )

    async def _read(self, client: asyncio.subprocess.Process, name: str) -> None:
        assert client.stdout is not None
        count = self.listening.count
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                record = await client.stdout.readexactly(RECORD.size)
                arrived, stream, number, sent_s, arrived_s = RECORD.unpack(record)
                if arrived:
                    body = payload(stream, number, sent_s, 0)
                    count.arrived(name, body, arrived_s, again=False)
                else:
                    count.streams[stream].sent = number
                    count.streams[stream].acknowledged.add(number, number)


def _tell(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b"next\n")


async def _said_up(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        if await process.stdout.readline() != b"up\n":
            raise MeshError("a Zenoh process did not start")


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    await process.wait()
