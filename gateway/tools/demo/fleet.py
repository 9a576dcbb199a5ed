"""Starts, watches and kills the processes of a small fleet on loopback.

Three gateways (the root, and the groups ``north`` and ``south`` of the domain ``campus``) and a
collector, each a process of its own with a configuration file of its own, in one folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from gateway.coap_client import ClientError, request
from gateway.process.state_folder import listeners_file
from gateway.tools.demo.patience import QuietClock, StalledError, processor_delay_s
from gateway.trust.certificates import founding
from gateway.trust.tls.peer_certificate import COLLECTOR_ROLE
from light_dataclasses import dataclass

COLLECTOR = "collector"
ROOT = "gw-root"
"""The most capable of the gateways."""
OPERATOR = "operator"
"""The pre-shared key's identity."""
_PR_SET_PDEATHSIG = 1
_PORTS = range(10_000, 20_000)
_PORTS_APART = 20


class FleetError(RuntimeError):
    """A process did not start or ended by itself; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a gateway of the demo. ``capability`` decides the election (B4)."""

    gateway_id: str
    domain: str
    group: str
    capability: float
    sensors: tuple[Mapping[str, Any], ...] = ()

    @property
    def prefix(self) -> str:
        """Start of its topics and, behind ``/q/``, of its paths."""
        return f"{self.domain or '-'}/{self.group or '-'}/{self.gateway_id}"


SITES = (
    Site(ROOT, "", "", 3000.0, ({"type": "host", "interval_s": 0.5},)),
    Site(
        "gw-north",
        "campus",
        "north",
        2000.0,
        (
            {"type": "host", "interval_s": 0.5},
            {"type": "switch", "name": "valve", "interval_s": 5.0},
        ),
    ),
    Site("gw-south", "campus", "south", 1000.0, ({"type": "host", "interval_s": 0.5},)),
)


@dataclass(slots=True)
class Member:
    """One process and what it listens on."""

    site: Site
    mqtt_port: int
    link_port: int
    coap_port: int
    coaps_port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def coap(self) -> str:
        """The start of its CoAP URIs."""
        return f"coap://127.0.0.1:{self.coap_port}"

    @property
    def coaps(self) -> str:
        """The start of its CoAP URIs over DTLS."""
        return f"coaps://127.0.0.1:{self.coaps_port}"


@dataclass(slots=True)
class Fleet:
    """The processes of one run; a context manager that leaves none of them behind.

    Args:
        folder: for configuration, state, spool and logs; must exist.

    """

    folder: Path
    psk_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    members: dict[str, Member] = field(default_factory=dict)
    _collector: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Fleet:
        self._secret("tree.key", secrets.token_hex(32))
        self._secret("psk", f"{OPERATOR}:{self.psk_key.hex()}")
        authority = founding.found(self._certificates)
        for site in SITES:
            authority.issue(site.gateway_id)
        authority.issue(COLLECTOR, roles=[COLLECTOR_ROLE])
        discovery_port, *ports = _free_ports(1 + 4 * len(SITES))
        for site in SITES:
            member = Member(site, ports.pop(), ports.pop(), ports.pop(), ports.pop())
            self.members[site.gateway_id] = member
            self.config(site.gateway_id).write_text(self._gateway_config(member, discovery_port))
        neighbours = [f"127.0.0.1:{member.link_port}" for member in self.members.values()]
        self.config(COLLECTOR).write_text(
            _toml(
                {
                    "collector": {
                        "id": COLLECTOR,
                        "spool_dir": str(self.spool_dir),
                        **self._certificate(COLLECTOR),
                        "ca_file": str(self._certificates / "ca.pem"),
                    },
                    "tree": {
                        "key_file": str(self.folder / "tree.key"),
                        "neighbours": neighbours,
                        "discovery": False,
                    },
                }
            )
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        running = [member.process for member in self.members.values()] + [self._collector]
        await asyncio.gather(*(_terminate(process) for process in running if process is not None))

    @property
    def spool_dir(self) -> Path:
        """Return the folder of the collector's spool."""
        return self.folder / "spool"

    def config(self, name: str) -> Path:
        """Return the configuration file of a gateway or the collector."""
        return self.folder / f"{name}.toml"

    def state_dir(self, gateway_id: str) -> Path:
        """Return a gateway's state folder."""
        return self.folder / gateway_id

    # -- processes -------------------------------------------------------------------------------

    async def start_gateway(self, gateway_id: str) -> None:
        """Start a gateway and wait until it listens.

        Raises:
            FleetError: it did not.

        """
        member = self.members[gateway_id]
        listeners = self.state_dir(gateway_id) / listeners_file.NAME
        listeners.unlink(missing_ok=True)
        member.process = await self._spawn(
            gateway_id, "-m", "gateway.tools.cli", "run", "--config", str(self.config(gateway_id))
        )
        await self._wait(gateway_id, member.process, listeners.exists)

    async def start_collector(self) -> None:
        """Start the collector and wait until it is linked to a gateway.

        Raises:
            FleetError: it is not.

        """
        self._collector = await self._spawn(
            COLLECTOR,
            "-m",
            "cloud_ingest.collector.command",
            "--config",
            str(self.config(COLLECTOR)),
        )
        await self._wait(
            COLLECTOR, self._collector, lambda: bool(self.collector_status().get("neighbours"))
        )

    async def stop_collector(self) -> None:
        """Stop the collector; its spool is whole then."""
        if self._collector is not None:
            await _terminate(self._collector)
            self._collector = None

    async def stop_gateway(self, gateway_id: str) -> None:
        """End a gateway as an operator would, with SIGTERM."""
        member = self.members[gateway_id]
        if member.process is not None:
            await _terminate(member.process)
            member.process = None

    async def kill(self, gateway_id: str) -> None:
        """SIGKILL a gateway, as a power cut would end it."""
        process = self.members[gateway_id].process
        assert process is not None, f"{gateway_id} is not running"
        process.kill()
        await process.wait()
        self.members[gateway_id].process = None

    async def _spawn(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        with (self.folder / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_along,
            )

    async def _wait(
        self, name: str, process: asyncio.subprocess.Process, ready: Callable[[], bool]
    ) -> None:
        async def is_ready() -> bool:
            if process.returncode is not None:
                raise FleetError(f"{name} ended with {process.returncode}: {self.tail(name)}")
            return ready()

        try:
            await self.patience().until(is_ready)
        except StalledError as over:
            raise FleetError(f"{name} did not start {over}: {self.tail(name)}") from None

    def patience(self) -> QuietClock:
        """Return how long to wait for what the processes that run have to do."""
        return QuietClock(lambda: processor_delay_s([os.getpid(), *self._running()]))

    def _running(self) -> Iterator[int]:
        """Yield the processes that run now, by their numbers."""
        for process in (*(member.process for member in self.members.values()), self._collector):
            if process is not None and process.returncode is None:
                yield process.pid

    def tail(self, name: str) -> str:
        """Return the last lines that a process logged, or that it logged nothing."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:]) or "it has logged nothing"

    # -- asking ----------------------------------------------------------------------------------

    async def status(self, gateway_id: str) -> dict[str, Any] | None:
        """Return what a gateway says of itself; None if it does not answer."""
        with contextlib.suppress(ClientError):
            answer = await request("GET", f"{self.members[gateway_id].coap}/status", timeout_s=2.0)
            if answer.ok:
                status: dict[str, Any] = json.loads(answer.payload)
                return status
        return None

    async def statuses(self) -> dict[str, dict[str, Any]]:
        """Return the status of every gateway that runs."""
        running = [name for name, member in self.members.items() if member.process is not None]
        answers = await asyncio.gather(*(self.status(name) for name in running))
        return {name: answer for name, answer in zip(running, answers, strict=True) if answer}

    def collector_status(self) -> dict[str, Any]:
        """Return what the collector last wrote of itself; empty before it did."""
        try:
            status: dict[str, Any] = json.loads((self.spool_dir / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return status

    # -- configuration ---------------------------------------------------------------------------

    def _secret(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text + "\n")

    @property
    def _certificates(self) -> Path:
        return self.folder / "certificates"

    def _certificate(self, name: str) -> dict[str, str]:
        own, key = f"{name}.pem", f"{name}.key.pem"
        return {
            "certificate_file": str(self._certificates / own),
            "key_file": str(self._certificates / key),
        }

    def _gateway_config(self, member: Member, discovery_port: int) -> str:
        site = member.site
        return _toml(
            {
                "gateway": {
                    "id": site.gateway_id,
                    "domain": site.domain,
                    "group": site.group,
                    "state_dir": str(self.state_dir(site.gateway_id)),
                },
                "mqtt": {
                    "port": member.mqtt_port,
                    "tls_port": member.link_port,
                    **self._certificate(site.gateway_id),
                    "client_certificate": "optional",
                    "client_ca_file": str(self._certificates / "ca.pem"),
                },
                "coap": {
                    "port": member.coap_port,
                    "dtls_port": member.coaps_port,
                    "psk_file": str(self.folder / "psk"),
                },
                "tree": {
                    "key_file": str(self.folder / "tree.key"),
                    "discovery_port": discovery_port,
                    "capability": site.capability,
                },
                "access": {"anonymous": True},
            }
        ) + "".join(_toml({"[sensors]": sensor}) for sensor in site.sensors)


def _toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return tables of plain values; JSON's notation of those is TOML's too."""
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def _free_ports(count: int) -> list[int]:
    """Return ports that neither TCP nor UDP has, below those that a system gives out by itself:
    until they are opened, no outgoing connection takes one, and another process begins
    elsewhere."""
    found: list[int] = []
    port = _PORTS[os.getpid() * _PORTS_APART % len(_PORTS)]
    while len(found) < count:
        with (
            contextlib.suppress(OSError),
            socket.socket() as stream,
            socket.socket(type=socket.SOCK_DGRAM) as datagrams,
        ):
            stream.bind(("127.0.0.1", port))
            datagrams.bind(("127.0.0.1", port))
            found.append(port)
        port = port + 1 if port + 1 in _PORTS else _PORTS[0]
    return found


def _die_along() -> None:
    """Have the kernel end this process when the one that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


async def _terminate(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()

    async def has_ended() -> bool:
        return process.returncode is not None

    try:
        await QuietClock(lambda: processor_delay_s([process.pid])).until(has_ended)
    except StalledError:
        process.kill()
        await process.wait()
