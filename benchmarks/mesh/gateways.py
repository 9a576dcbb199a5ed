"""Gateways as processes of their own (``hedgerow run``), one in each namespace of a network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.fleet_certificates import FleetCertificates
from benchmarks.mesh.client import PORT
from benchmarks.mesh.network import Network
from benchmarks.mesh.relay import end_with_parent
from gateway.coap_client import ClientError, request
from gateway.process.state_folder import listeners_file

START_S = 180.0
"""A start may take so long on a busy machine."""
POLL_S = 0.005
COAP_PORT = 5683
TLS_PORT = 8883
GATEWAY = "gateway.tools.cli"
"""The module that runs a gateway."""


class MeshError(RuntimeError):
    """A gateway did not start or ended by itself, or the tree did not form; it says more."""


class Gateways:
    """The gateways of a network, by host; a context manager that leaves none behind.

    Args:
        network: of the hosts that they run at.
        folder: for configurations, states and logs; must exist.
        tree: keys of the configuration's section, for all.
        limits: likewise.
        discovery: true if they find each other by multicast; else each knows its neighbours.
        durability: of their logs, as in `LogSection`.
        tls: of links, see `TreeSection`; clients come without. "off" shows what it costs.

    """

    def __init__(
        self,
        network: Network,
        folder: Path,
        *,
        tree: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        discovery: bool = False,
        durability: str = "write",
        tls: str = "required",
    ) -> None:
        self.network = network
        self.folder = folder
        self.link_port = PORT if tls == "off" else TLS_PORT
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        (folder / "tree.key").touch(mode=0o600)
        (folder / "tree.key").write_text(secrets.token_hex(32))
        hosts = range(len(network.hosts))
        self.certificates: FleetCertificates | None = None
        if tls != "off":
            ids = map(self.id, hosts)
            self.certificates = FleetCertificates(folder / "certificates", ids)
        for host in hosts:
            own = network.address(host)
            tables: dict[str, dict[str, Any]] = {
                "gateway": {
                    "id": self.id(host),
                    "state_dir": str(self.state(host)),
                    "status_interval_s": 0,  # what comes is counted
                },
                "mqtt": {"host": own, "port": PORT, "sys_interval_s": 0, **self._secured(host)},
                "coap": {"host": own, "port": COAP_PORT},
                "tree": {
                    "key_file": str(folder / "tree.key"),
                    "tls": tls,
                    "discovery": discovery,
                    "discovery_interface": own,
                    "neighbours": [] if discovery else self.neighbours(host),
                    # The first is the most capable and so the root.
                    "capability": 1000.0 - host,
                    **(tree or {}),
                },
                "log": {"durability": durability},
                "console": {"enabled": False},
                "access": {"anonymous": True},
                "limits": dict(limits or {}),
            }
            self.config(host).write_text(
                "".join(
                    f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items())
                    for name, table in tables.items()
                )
            )

    def _secured(self, host: int) -> dict[str, Any]:
        if self.certificates is None:
            return {}
        return {"tls_port": TLS_PORT, **self.certificates.mqtt(self.id(host))}

    def neighbours(self, host: int) -> list[str]:
        """Return the addresses at which the neighbours of a host take links."""
        network = self.network
        return [f"{network.address(n)}:{self.link_port}" for n in network.neighbours(host)]

    async def __aenter__(self) -> Gateways:
        return self

    async def __aexit__(self, *_: object) -> None:
        for host in list(self._processes):
            await self.kill(host)

    @staticmethod
    def id(host: int) -> str:
        """Return the gateway's id."""
        return f"g{host:02}"

    def host(self, gateway_id: str) -> int:
        """Return the host that a gateway runs at."""
        return int(gateway_id[1:])

    def config(self, host: int) -> Path:
        """Return the configuration file."""
        return self.folder / f"{self.id(host)}.toml"

    def state(self, host: int) -> Path:
        """Return the state folder."""
        return self.folder / self.id(host)

    def log(self, host: int) -> Path:
        """Return the file of what the gateway says, over all its lives."""
        return self.folder / f"{self.id(host)}.log"

    def program(self, host: int) -> str:
        """Return the module that runs at a host."""
        return GATEWAY

    def is_up(self, host: int) -> bool:
        """Return whether the gateway that was started there listens."""
        return (self.state(host) / listeners_file.NAME).exists()

    @property
    def running(self) -> list[int]:
        """Hosts whose gateway runs."""
        return sorted(self._processes)

    def pid(self, host: int) -> int:
        """Of the gateway that runs."""
        return self._processes[host].pid

    async def start(self, host: int, *, wait: bool = True) -> None:
        """Start a gateway; ``wait`` until it listens.

        Raises:
            MeshError: it does not.

        """
        (self.state(host) / listeners_file.NAME).unlink(missing_ok=True)
        program = self.program(host)
        verb = ["run"] if program == GATEWAY else []
        command = [sys.executable, "-m", program, *verb, "--config", str(self.config(host))]
        with self.log(host).open("ab") as log:
            self._processes[host] = await asyncio.create_subprocess_exec(
                *self.network.hosts[host].command(*command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )
        if wait:
            await self.up(host)

    async def up(self, host: int) -> float:
        """Wait until a gateway listens; returns when that was, on the monotonic clock."""
        process = self._processes[host]
        try:
            async with asyncio.timeout(START_S):
                while not self.is_up(host):
                    if process.returncode is not None:
                        why = f"ended with {process.returncode}"
                        raise MeshError(f"{self.id(host)} {why}: {self.tail(host)}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise MeshError(f"{self.id(host)} does not start: {self.tail(host)}") from None
        return time.monotonic()

    async def kill(self, host: int) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self._processes.pop(host)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    async def stop(self, host: int) -> None:
        """SIGTERM, and wait until it is gone."""
        process = self._processes.pop(host)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        await process.wait()

    def pause(self, host: int) -> None:
        """SIGSTOP: it lives, and does nothing."""
        os.kill(self.pid(host), signal.SIGSTOP)

    def resume(self, host: int) -> None:
        """SIGCONT."""
        os.kill(self.pid(host), signal.SIGCONT)

    def tail(self, host: int) -> str:
        """Return the last lines that it said."""
        return "\n".join(self.log(host).read_text(errors="replace").splitlines()[-8:])

    def died(self) -> list[str]:
        """Return gateways that ended by themselves, with their last words."""
        return self.died_of(self.running)

    def died_of(self, hosts: Iterable[int]) -> list[str]:
        """Return those of some hosts that ended by themselves, with their last words."""
        ended = ((host, self._processes[host].returncode) for host in hosts)
        return [
            f"{self.id(host)} ended with {code}: {self.tail(host)}"
            for host, code in ended
            if code is not None
        ]

    # -- asking ----------------------------------------------------------------------------------

    async def status(self, host: int) -> dict[str, Any] | None:
        """Ask a gateway for its status; return None if it does not answer."""
        return await asyncio.to_thread(self._ask, host)

    def _ask(self, host: int) -> dict[str, Any] | None:
        uri = f"coap://{self.network.address(host)}:{COAP_PORT}/status"
        with self.network.hosts[host].entered(), contextlib.suppress(ClientError):
            answer = asyncio.run(request("GET", uri, timeout_s=3.0))
            if answer.ok:
                status: dict[str, Any] = json.loads(answer.payload)
                return status
        return None

    async def parents(self) -> dict[int, int | None]:
        """Return each running gateway's parent, as they say themselves."""
        found: dict[int, int | None] = {}
        for host in self.running:
            status = await self.status(host)
            if status is not None:
                parent = status["parent"]
                found[host] = None if parent is None else self.host(parent)
        return found

    async def settled(self, limit_s: float = 60.0) -> dict[int, int | None]:
        """Wait until all that run agree on one root, and each but it has a parent.

        Raises:
            MeshError: they do not in time.

        """
        parents: dict[int, int | None] = {}
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    parents = await self.parents()
                    orphans = [host for host, parent in parents.items() if parent is None]
                    if len(parents) == len(self.running) and len(orphans) == 1:
                        return parents
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise MeshError(f"no one tree after {limit_s} s: {parents}") from None
