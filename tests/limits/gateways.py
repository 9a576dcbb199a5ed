"""Gateways with small limits, as processes of their own, met from outside with raw sockets."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from raw_client import Broker

START_S = 180.0
WAIT_S = 60.0
RELOADED = "are read again"
PORTS = (
    ("mqtt", "port", "mqtt"),
    ("mqtt", "tls_port", "mqtts"),
    ("coap", "port", "coap"),
    ("coap", "dtls_port", "coaps"),
)
"""Sections and keys of ports, and the schemes that the gateway tells them by."""


class Gateway:
    """A running gateway.

    Args:
        folder: for its files.
        sections: further TOML.
        tree: further keys of [tree].
        coap: further keys of [coap].
        access: the keys of [access].
        name: its id.
        mqtt: further keys of [mqtt].
        command: begins it; the gateway's own command follows.

    """

    def __init__(
        self,
        folder: Path,
        sections: str,
        tree: str = "",
        coap: str = "",
        *,
        access: str = "anonymous = true",
        name: str = "gw",
        mqtt: str = "",
        command: Sequence[str] = (),
    ) -> None:
        self._before = command
        (folder / "tree.key").write_text("ab" * 32)
        self._config = folder / "gateway.toml"
        self._config.write_text(
            f"""
[gateway]
id = "{name}"
state_dir = "{folder}/state"
status_interval_s = 0
[mqtt]
port = 0
{mqtt}
[coap]
port = 0
{coap}
[tree]
key_file = "{folder}/tree.key"
discovery = false
{tree}
[access]
{access}
{sections}
"""
        )
        self._log = folder / "log.txt"
        self._log.write_bytes(b"")
        self._told = folder / "state" / "listeners.json"
        self._clients: list[Broker] = []
        self.process: subprocess.Popen[bytes]
        self.listeners: dict[str, Any]
        self._start()

    def _start(self) -> None:
        own = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(self._config)]
        command = [*self._before, *own]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log)
        self.wait_for(self._told.exists, START_S)
        self.listeners = json.loads(self._told.read_text())
        self.console = self.listeners["console"]
        host, _, port = self.listeners["mqtt"].rpartition(":")
        self.address = (host, int(port))

    def kill_and_start(self) -> float:
        """SIGKILL, and the next start on the ports that it had; how many seconds that took."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)
        self._keep_ports()
        self._told.unlink()
        begun_s = time.monotonic()
        self._start()
        return time.monotonic() - begun_s

    def _keep_ports(self) -> None:
        text = self._config.read_text()
        for section, key, scheme in PORTS:
            if address := self.listeners.get(scheme):
                before, head, behind = text.partition(f"[{section}]")
                port = address.rpartition(":")[2]
                behind = behind.replace(f"\n{key} = 0\n", f"\n{key} = {port}\n", 1)
                text = before + head + behind
        self._config.write_text(text)

    def reload(self) -> None:
        """SIGHUP, and wait until its files are read again."""
        before = self._log.read_text().count(RELOADED)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: self._log.read_text().count(RELOADED) > before)

    def links(self) -> dict[str, str]:
        """Its neighbours' connections, by id: one that was lost and made anew is another."""
        command = [
            sys.executable,
            "-m",
            "gateway.tools.cli",
            "status",
            "--json",
            self.listeners["coap"],
        ]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {one["id"]: one["address"] for one in json.loads(told)["neighbours"]}

    def broker(self, level: int = 4) -> Broker:
        """The broker, spoken to at a protocol level."""
        made = Broker(self.address, level)
        self._clients.append(made)
        return made

    def get(self, path: str) -> str:
        """A page of the console."""
        with urllib.request.urlopen(f"http://{self.console}{path}", timeout=WAIT_S) as answer:
            return str(answer.read().decode())

    def metric(self, sample: str) -> float:
        """The value of a sample, as ``name`` or ``name{label="value"}``; 0 if it is not there."""
        for line in self.get("/metrics").splitlines():
            if line.startswith(f"{sample} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def refused(self, kind: str) -> float:
        """Return how often something was refused or dropped."""
        return self.metric(f'hedgerow_mqtt_refusals_total{{kind="{kind}"}}')

    def log(self) -> str:
        """All that it has logged."""
        return self._log.read_text()

    def await_refusal(self, kind: str, least: int = 1) -> None:
        """Wait until so many were counted, and see that the log has at most a line a second."""
        self.wait_for(lambda: self.refused(kind) >= least)
        stamps = [
            line[:19]
            for line in self._log.read_text().splitlines()
            if re.search(rf": {re.escape(kind)} \(\d+ so far\)$", line)
        ]
        assert stamps, f"no line in the log about: {kind}"
        # A second on the loop's clock may begin and end in the same two seconds of the wall's.
        assert all(stamps.count(stamp) <= 2 for stamp in stamps), stamps

    def rss_bytes(self) -> int:
        """Its resident memory, the mapped pages of libraries and other files among it."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def own_bytes(self) -> int:
        """Its own resident memory: what grows with what it holds.

        Code that it runs for the first time since its start adds to what is mapped of libraries.
        """
        memory = psutil.Process(self.process.pid).memory_info()
        return int(memory.rss - memory.shared)

    def open_files(self) -> int:
        """Return how many files and sockets it has open."""
        return int(psutil.Process(self.process.pid).num_fds())

    def wait_for(self, holds: Callable[[], Any], limit_s: float = WAIT_S) -> None:
        """Wait until something holds; the gateway must run on meanwhile."""
        end_s = time.monotonic() + limit_s
        while not holds():
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            assert time.monotonic() < end_s, "did not come about"
            time.sleep(0.02)

    def others_are_served(self) -> None:
        """A message of one client reaches another."""
        broker = self.broker()
        topic = broker.topic()
        subscriber = broker.subscriber((topic, 1))
        broker.connect().publish(topic, b"still here", qos=1)
        subscriber.acknowledge(subscriber.expect_publish(topic, b"still here", 1))

    def stop(self) -> None:
        """Stop it; it must not have broken anything."""
        for broker in self._clients:
            broker.close()
        self.process.terminate()
        self.process.wait(WAIT_S)
        _, broken, told = self._log.read_text().partition("Traceback")
        assert not broken, told[:3000]


Start = Callable[..., Gateway]
