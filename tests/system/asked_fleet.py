"""Gateways with an actuator that counts, each a process, joined by paths that can fall silent.

They link inside mutual TLS, so each request is signed by the gateway where it was asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections import Counter
from pathlib import Path

import fleet_keys
from brokers import _Process
from ports import free_port

from gateway.tools.commands.placing import rewritten
from tree_handler.members.place import NONE, Place

HELLO_S = 1.0
"""A neighbour of which nothing comes for three of these is dead."""
ACTUATOR = "counted"
_DRIVER = '''
from pathlib import Path

from gateway.sensors.device_resource import ChildResource
from gateway.sensors.sensor import Actuator

EFFECTS = Path(__file__).with_name("effects")


class Job(ChildResource):
    """Ends when it is deleted."""

    def handle_delete(self, call):
        return "ended"


class Counted(Actuator):
    """Notes each value that it is set to in a file, which outlives the process."""

    is_quick = True

    def read(self):
        return self.value

    def begin(self):
        told = EFFECTS.read_text().split() if EFFECTS.exists() else []
        self.value = float(told[-1]) if told else 0.0

    def handle_fetch(self, call):
        return call.text()

    handle_patch = handle_ipatch = handle_fetch

    def handle_post(self, call):
        call.create(call.text(), Job())

    def write(self, value):
        with EFFECTS.open("a") as effects:
            effects.write(f"{value:.0f}\\n")
        self.value = value
'''


class AskedGateway(_Process):
    """One gateway.

    Args:
        folder: of the fleet.
        name: its id.
        place: its domain and group.
        neighbours: ports that it dials.
        capability: the greatest one makes the root of the tree.
        certificates: the folder with those of the fleet.
        hello_s: `tree.hello_s`.

    Attributes:
        place: where it stands.
        coap_port: where it is asked.
        link_port: where it is dialled, for TLS.

    """

    def __init__(
        self,
        folder: Path,
        name: str,
        place: Place,
        neighbours: list[int],
        capability: float,
        certificates: Path,
        hello_s: float = HELLO_S,
    ) -> None:
        self.folder = folder / name
        super().__init__(free_port(), self.folder / "state", " is up: mqtt")
        self.folder.mkdir()
        self.name, self.place = name, place
        self.coap_port, self.link_port = free_port(), free_port()
        (self.folder / "tree.key").write_text("ab" * 32)
        (self.folder / "counting.py").write_text(_DRIVER)
        self.config = self.folder / "gateway.toml"
        dialled = json.dumps([f"127.0.0.1:{port}" for port in neighbours])
        self.config.write_text(
            f"""
[gateway]
id = "{name}"
domain = "{place.domain}"
group = "{place.group}"
state_dir = "state"
[mqtt]
port = {self.port}
tls_port = {self.link_port}
certificate_file = "{certificates}/{name}.pem"
key_file = "{certificates}/{name}.key.pem"
client_certificate = "optional"
client_ca_file = "{certificates}/ca.pem"
client_crl_file = "{certificates}/revoked.pem"
[coap]
port = {self.coap_port}
[tree]
key_file = "tree.key"
discovery = false
dial_back = false
hello_s = {hello_s}
repair_interval_s = 0.5
capability = {capability}
neighbours = {dialled}
[log]
durability = "write"
[access]
anonymous = true
[[sensors]]
type = "counting:Counted"
name = "{ACTUATOR}"
"""
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(self.config)]

    def uri(self, path: str) -> str:
        """Of something that it is asked."""
        return f"coap://127.0.0.1:{self.coap_port}{path}"

    @property
    def path(self) -> str:
        """Of its actuator, at any gateway."""
        domain, group = self.place.domain or NONE, self.place.group or NONE
        return f"/q/{domain}/{group}/{self.name}/sensors/{ACTUATOR}"

    @property
    def effects(self) -> Counter[int]:
        """Counts of the values that its actuator was set to, over all its lives."""
        with contextlib.suppress(FileNotFoundError):
            return Counter(map(int, (self.folder / "effects").read_text().split()))
        return Counter()

    def move(self, place: Place) -> None:
        """Stand elsewhere from now on, while it runs."""
        self.place = place
        self.config.write_text(rewritten(self.config.read_text(), place))
        self.send_signal(signal.SIGHUP)


class SilentPath:
    """A path between two gateways, over which nothing comes while it is silent.

    Args:
        to: the gateway that is dialled over it.

    """

    def __init__(self, to: AskedGateway) -> None:
        self.port = free_port()
        self._to = to
        self._is_silent = False
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._abort()

    def fall_silent(self) -> None:
        """From now on lose what is sent, in both directions, and tell nobody."""
        self._is_silent = True

    def heal(self) -> None:
        """Carry what is sent again; connections of before are at an end."""
        self._is_silent = False
        self._abort()

    def _abort(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = {writer}
        self._open |= both
        try:
            onward = await asyncio.open_connection("127.0.0.1", self._to.link_port)
            both.add(onward[1])
            self._open.add(onward[1])
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, onward[1]))
                group.create_task(self._copy(onward[0], writer))
        except (OSError, ExceptionGroup):
            pass  # one of both has ended
        finally:
            for one in both:
                one.transport.abort()
            self._open -= both

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not self._is_silent:
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError


class AskedFleet:
    """Gateways of which each dials the two before it; the first is the root of their tree.

    Args:
        folder: for their files.
        places: where each stands.
        hello_s: `tree.hello_s` of all.

    """

    def __init__(self, folder: Path, places: list[Place], hello_s: float = HELLO_S) -> None:
        self.gateways: list[AskedGateway] = []
        self._paths: list[tuple[SilentPath, set[str]]] = []
        certificates = folder / "certificates"
        fleet_keys.issue(certificates, *(f"gw-{number}" for number in range(len(places))))
        for number, place in enumerate(places):
            dialled = []
            for other in self.gateways[-2:]:
                path = SilentPath(other)
                self._paths.append((path, {f"gw-{number}", other.name}))
                dialled.append(path.port)
            name, capability = f"gw-{number}", 1000.0 - number
            self.gateways.append(
                AskedGateway(folder, name, place, dialled, capability, certificates, hello_s)
            )

    async def __aenter__(self) -> AskedFleet:
        for path, _ in self._paths:
            await path.start()
        await asyncio.gather(*(one.start() for one in self.gateways))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(one.stop() for one in self.gateways if one.is_running))
        for path, _ in self._paths:
            await path.stop()

    def cut_off(self, gateway: AskedGateway) -> None:
        """Let nothing come to or from one gateway's neighbours."""
        for path, ends in self._paths:
            if gateway.name in ends:
                path.fall_silent()

    def heal(self) -> None:
        """Let all paths carry again."""
        for path, _ in self._paths:
            path.heal()
