"""A gateway in a process of its own whose alerts are really caused, and a webhook that is told.

The clocks that the process sees are the test's, and so are its kernel's files of the machine where
the test asks for that: they stand over `/sys` in a mount namespace of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from alert_receiver import AlertReceiver
from missing_peer import skip_or_fail_in_ci
from moved_clock import MovedClock
from mqtt_peer import Peer

from gateway.mqtt import Version

PATIENCE_S = 120.0
NAP_S = 50.0
"""The machine sleeps for so long at once: of a longer sleep a gateway counts a minute."""
ONCE = {"raised": 1, "cleared": 1}


class CausedGateway:
    """One gateway with its webhook.

    Args:
        folder: of all its files.
        receiver: the webhook.
        clock: of another gateway that it shares; None for one of its own.

    Attributes:
        clock: all that the process knows of the time.
        id: of the gateway.
        port: of its broker; 0: any.
        neighbours: that it dials.
        access: of its configuration, in the section of that name ...
        tree: ... and likewise.
        more: of its configuration, behind the section of alerts.
        machine: a folder with `sys`, to be seen in place of the machine's own; None for that one.

    """

    def __init__(
        self, folder: Path, receiver: AlertReceiver, clock: MovedClock | None = None
    ) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.config = folder / "gateway.toml"
        self.receiver = receiver
        self.clock = clock or MovedClock(folder)
        self.id, self.port, self.neighbours = "gw", 0, list[str]()
        self.access = self.tree = self.more = ""
        self.machine: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start it, and wait until it has looked at itself."""
        key = self.folder / "tree.key"
        key.write_text("ab" * 32)
        self.config.write_text(
            f"""
[gateway]
id = "{self.id}"
domain = "campus"
state_dir = "{self.state}"
status_interval_s = 0
[mqtt]
port = {self.port}
[coap]
port = 0
[console]
port = 0
[tree]
key_file = "{key}"
tls = "off"
discovery = false
neighbours = {self.neighbours}
{self.tree}
[access]
anonymous = true
{self.access}
[alerts]
look_s = 0.1
gather_s = 0
off = ["disk-full"]
webhook = {{url = "{self.receiver.url}"}}
mqtt = {{}}
{self.more}
"""
        )
        (self.state / "listeners.json").unlink(missing_ok=True)  # of the life before
        command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(self.config)]
        with (self.folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._on_its_machine(), *command],
                env={**os.environ, **self.clock.environment},
                stdout=log,
                stderr=log,
            )
        panel = await self.client("panel")
        await panel.subscribe(f"campus/-/{self.id}/alerts")
        assert json.loads((await panel.next()).payload)["problem"] in {"ON", "OFF"}
        panel.close()

    async def status(self) -> dict[str, Any]:
        """Return what `hedgerow status` says of it."""
        command = [sys.executable, "-m", "gateway.tools.cli", "status", "--json", "--config"]
        process = await asyncio.create_subprocess_exec(
            *command, str(self.config), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        found: dict[str, Any] = json.loads(said)
        return found

    def metric(self, name: str) -> float | None:
        """Return a figure that its console tells; None while it does not."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            console = json.loads((self.state / "listeners.json").read_bytes())["console"]
            with urllib.request.urlopen(f"http://{console}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
            found = (line.rpartition(" ") for line in lines)
            return next((float(value) for whose, _, value in found if whose == name), None)
        return None

    def stop(self) -> None:
        """End it in good order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def reload(self) -> None:
        """Have it read its configuration again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    async def client(self, name: str, **fields: Any) -> Peer:
        """Connect a client, with these fields of CONNECT, as soon as the gateway serves."""
        peer = await self._reached()
        assert await peer.connect(name, **fields) == 0
        return peer

    async def refuses(self, name: str, **fields: Any) -> bool:
        """Return whether a client with these fields of CONNECT is not let in."""
        peer = await self._reached()
        code = await peer.connect(name, **fields)
        peer.close()
        return code != 0

    async def _reached(self) -> Peer:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                assert self._process is not None
                assert self._process.poll() is None, (self.folder / "gateway.log").read_text()
                with contextlib.suppress(OSError, ValueError, KeyError):
                    told = json.loads((self.state / "listeners.json").read_bytes())
                    host, _, port = told["mqtt"].rpartition(":")
                    return Peer(*await asyncio.open_connection(host, int(port)), Version.V5)
                await asyncio.sleep(0.05)

    async def told(self, rule: str, change: str, *, nap_s: float = 0.0) -> None:
        """Wait until the webhook is told of a rule.

        Args:
            rule: of the alert.
            change: ``raised`` or ``cleared``.
            nap_s: the machine sleeps for so long again and again meanwhile.

        """
        await until(
            lambda: self.receiver.changes(rule)[change] > 0,
            f"{rule} is {change}",
            lambda: self.clock.sleep(nap_s),
        )

    def _on_its_machine(self) -> list[str]:
        if self.machine is None:
            return []
        alone = ["unshare", "--mount", "--propagation", "private"]
        if os.geteuid() != 0:
            alone += ["--user", "--map-root-user"]
        if subprocess.run([*alone, "mount", "--bind", "/sys", "/sys"], check=False).returncode:
            why = "a machine of its own needs the right to mount in a namespace"
            skip_or_fail_in_ci(why)
        script = 'mount --bind "$0" /sys && exec "$@"'
        return [*alone, "sh", "-c", script, str(self.machine / "sys")]


@contextlib.contextmanager
def caused_gateway(folder: Path) -> Iterator[CausedGateway]:
    """Make a gateway for a fixture, with a webhook that takes all; it is killed in the end."""
    receiver = AlertReceiver(refuses_every=0)
    with receiver.serving():
        made = CausedGateway(folder, receiver)
        try:
            yield made
        finally:
            made.kill()


async def until(
    holds: Callable[[], bool], what: str, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Wait for something that the gateway does."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                meanwhile()
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S} s: {what}") from None
