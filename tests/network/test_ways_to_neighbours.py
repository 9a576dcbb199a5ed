"""Gateways find each other over real interfaces: multicast, DNS-SD beside Avahi, and static."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority

from benchmarks.mesh.namespaces import Namespace

LIMIT_S = 120
PORT = 8883


class Member:
    """A gateway in a namespace, with a certificate of the fleet."""

    def __init__(
        self, space: Namespace, folder: Path, authority: Authority, name: str, address: str
    ) -> None:
        self.space = space
        self.address = address
        self.log = folder / f"{name}.log"
        self._host = "::" if ":" in address else "0.0.0.0"
        self._folder = folder
        self._name = name
        self._issued = authority.issue(name, is_gateway=True)
        self._authority = authority

    async def start(self, **tree: Any) -> None:
        (self._folder / "tree.key").write_text("ab" * 32)
        tables = {
            "gateway": {
                "id": self._name,
                "state_dir": str(self._folder / self._name),
                "address": self.address,
            },
            "mqtt": {
                "host": self._host,
                "tls_port": PORT,
                "certificate_file": str(self._issued.certificate),
                "key_file": str(self._issued.key),
                "client_certificate": "optional",
                "client_ca_file": str(self._authority.file),
            },
            "coap": {"host": "127.0.0.1"},
            "tree": {"key_file": str(self._folder / "tree.key"), "discovery": False, **tree},
            "console": {"enabled": False},
        }
        config = self._folder / f"{self._name}.toml"
        config.write_text(
            "".join(
                f"[{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in table.items())
                for name, table in tables.items()
            )
        )
        command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)]
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.space.command(*command), stderr=log
            )
        await self.said(f"{self._name} is up")

    async def said(self, text: str) -> None:
        """Wait for a line of its log."""
        async with asyncio.timeout(LIMIT_S):
            while text not in self.log.read_text():
                assert self._process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()


def wire(one: Namespace, other: Namespace, *addresses: tuple[str, str]) -> None:
    """Connect two namespaces by a pair of interfaces with these addresses."""
    here, there = f"to{other.name[-5:]}", f"to{one.name[-5:]}"
    one.ip("link", "add", here, "type", "veth", "peer", there, "netns", other.name)
    for space, device, which in ((one, here, 0), (other, there, 1)):
        for pair in addresses:
            extra = ["nodad"] if ":" in pair[which] else []
            space.ip("address", "add", pair[which], "dev", device, *extra)
        space.ip("link", "set", device, "up")


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    made = [Namespace(f"way{n}") for n in range(3)]
    yield made
    for space in made:
        space.remove()


@contextlib.asynccontextmanager
async def running(*members: tuple[Member, dict[str, Any]]) -> AsyncIterator[None]:
    started = []
    try:
        for member, tree in members:
            await member.start(**tree)
            started.append(member)
        yield
    finally:
        for member in started:
            await member.stop()


async def test_multicast_finds_neighbours_on_several_interfaces_and_over_both_ip_versions(
    spaces: list[Namespace], tmp_path: Path
) -> None:
    hub, four, six = spaces
    wire(hub, four, ("10.67.1.1/24", "10.67.1.2/24"))
    wire(hub, six, ("fd67::1/64", "fd67::2/64"))
    authority = Authority(tmp_path)
    a = Member(hub, tmp_path, authority, "gw-hub", "10.67.1.1")  # takes no links over IPv6
    b = Member(four, tmp_path, authority, "gw-four", "10.67.1.2")
    c = Member(six, tmp_path, authority, "gw-six", "fd67::2")
    async with running(
        (a, {"discovery": True, "discovery_interfaces": ["10.67.1.1", "fd67::1"]}),
        (b, {"discovery": True, "discovery_interface": "10.67.1.2"}),
        (c, {"discovery": True, "discovery_interface": "fd67::2"}),
    ):
        await a.said("to gw-four (")
        await a.said("to gw-six (")
        await b.said("to gw-hub (")
        await c.said("to gw-hub (")


async def test_a_gateway_that_nobody_can_dial_dials_out_to_a_static_neighbour(
    spaces: list[Namespace], tmp_path: Path
) -> None:
    outside, behind, _ = spaces
    wire(outside, behind, ("10.67.1.1/24", "10.67.1.2/24"))
    behind.nft(
        "table inet nat {\n chain input {\n  type filter hook input priority 0;\n"
        '  iifname != "lo" tcp flags & (syn | ack) == syn counter drop\n }\n}\n'
    )
    authority = Authority(tmp_path)
    a = Member(outside, tmp_path, authority, "gw-outside", "10.67.1.1")
    b = Member(behind, tmp_path, authority, "gw-behind", "10.67.1.2")
    async with running((a, {}), (b, {"neighbours": [f"10.67.1.1:{PORT}"]})):
        await a.said("link 1 to gw-behind")
        await b.said("link 1 to gw-outside")


BUS = """<busconfig><type>custom</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/>
<allow user="*"/></policy></busconfig>"""
# The daemon's own folder for its socket and process id is fixed.
AVAHI = (
    "mkdir -p /run/avahi-daemon && mount -t tmpfs tmpfs /run/avahi-daemon && "
    "exec avahi-daemon --no-drop-root --no-chroot --no-rlimits -f {config}"
)


class Avahi:
    """Avahi's daemon in a namespace, on a message bus of its own."""

    def __init__(self, space: Namespace, folder: Path) -> None:
        self._space = space
        self._folder = folder
        self._bus = folder / "bus"
        self._environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self._bus}"}
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        (self._folder / "bus.conf").write_text(BUS.format(path=self._bus))
        config = self._folder / "avahi.conf"
        config.write_text("[server]\nhost-name=printer\nuse-ipv6=no\n[publish]\n[rlimits]\n")
        await self.run("dbus-daemon", "--nofork", f"--config-file={self._folder}/bus.conf")
        async with asyncio.timeout(LIMIT_S):
            while not self._bus.exists():
                await asyncio.sleep(0.02)
        await self.run("unshare", "--mount", "sh", "-c", AVAHI.format(config=config))

    async def run(self, *command: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *self._space.command(*command),
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=(self._folder / "avahi.log").open("ab"),
        )
        self._processes.append(process)
        return process

    async def lists(self, *texts: str) -> str:
        """Wait until avahi-browse shows a service with all this; its line."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                browse = await self.run("avahi-browse", "--parsable", "-trk", "_hedgerow._tcp")
                out, _ = await browse.communicate()
                for line in out.decode().splitlines():
                    if line.startswith("=") and all(text in line for text in texts):
                        return line
                await asyncio.sleep(0.2)

    async def stop(self) -> None:
        for process in reversed(self._processes):
            if process.returncode is None:
                process.terminate()
                await process.wait()


@pytest.mark.peer("dbus-daemon", "dbus-daemon")
@pytest.mark.peer("avahi-daemon", "avahi-daemon")
@pytest.mark.peer("avahi-browse", "avahi-utils")
async def test_avahi_lists_a_gateway_and_a_gateway_dials_what_avahi_lists(
    spaces: list[Namespace], tmp_path: Path
) -> None:
    here, there, _ = spaces
    wire(here, there, ("10.67.1.1/24", "10.67.1.2/24"))
    authority = Authority(tmp_path)
    a = Member(here, tmp_path, authority, "gw-a", "10.67.1.1")
    b = Member(there, tmp_path, authority, "gw-b", "10.67.1.2")
    avahi = Avahi(there, tmp_path)
    await avahi.start()
    try:
        # b itself looks for nobody: Avahi lists it.
        async with running((a, {"dns_sd": True, "discovery_interface": "10.67.1.1"}), (b, {})):
            await avahi.lists("gw-a", "10.67.1.1", str(PORT), '"id=gw-a"', '"tree=hedgerow"')
            txt = ("id=gw-b", "tree=hedgerow")
            await avahi.run("avahi-publish", "-s", "listed", "_hedgerow._tcp", str(PORT), *txt)
            await a.said("to gw-b (")
            await b.said("to gw-a (")
    finally:
        await avahi.stop()
