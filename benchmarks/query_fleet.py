"""Gateways for ``benchmarks.query``, each a process: four in a line, the others at the first."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.broker_process import StartError
from benchmarks.known_gateways import end, wait_for_all
from benchmarks.query_client import QueryClient

LINE = 4
"""Gateways in a line: ``gw-0`` to ``gw-3``, one to three hops from the first."""
START_LIMIT_S = 60.0
_LOOK_S = 0.1
_CONFIG = """
[gateway]
id = "gw-{number}"
domain = "bench"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
[coap.limits]
address_observations = 4096
observations = 4096
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
hello_s = 0.2
neighbours = {neighbours}
[log]
durability = "write"
[access]
anonymous = true
"""
_SENSORS = """
[[sensors]]
type = "host"
interval_s = 10.0
[[sensors]]
type = "switch"
name = "valve"
"""


@dataclass(frozen=True, slots=True)
class GatewayKind:
    """The program that runs as a gateway, and its sensors.

    Attributes:
        module: with the arguments of ``hedgerow``.
        sensors: tables of its configuration.

    """

    module: str = "gateway.tools.cli"
    sensors: str = _SENSORS


PLAIN = GatewayKind()


class QueryGateway:
    """One gateway.

    Args:
        folder: for its files.
        number: its own.
        neighbours: the addresses that it dials.
        kind: of it.

    """

    def __init__(
        self, folder: Path, number: int, neighbours: Sequence[str], kind: GatewayKind = PLAIN
    ) -> None:
        folder.mkdir(mode=0o700)
        self._state = folder / "state"
        key = folder / "tree.key"
        key.touch(0o600)
        key.write_text("ab" * 32)
        config = folder / "gateway.toml"
        said = _CONFIG.format(number=number, folder=folder, neighbours=json.dumps(list(neighbours)))
        config.write_text(said + kind.sensors)
        self._log = folder / "log.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", kind.module, "run", "--config", str(config)], stderr=log
            )
        self.links_at, self.port = self._listeners()

    def status(self, client: QueryClient) -> dict[str, Any]:
        """Fetch the status that it gives of itself."""
        return dict(json.loads(client.get(self.port, "/status")))

    def cpu_s(self) -> float:
        """Return the processor time that its threads have taken."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks.iterdir()) / 1e9

    def stop(self) -> None:
        """End the process."""
        end(self._process)

    def _listeners(self) -> tuple[str, int]:
        end_s = time.monotonic() + START_LIMIT_S
        listeners = self._state / "listeners.json"
        while not listeners.exists():
            if self._process.poll() is not None or time.monotonic() > end_s:
                self._process.kill()
                raise StartError(f"a gateway did not start: {self._log.read_text()[-500:]}")
            time.sleep(_LOOK_S)
        found = json.loads(listeners.read_text())
        return found["mqtt"].rpartition("/")[2], int(found["coap"].rpartition(":")[2])


@contextmanager
def running(
    folder: Path, count: int, kind: GatewayKind = PLAIN, line: int = LINE
) -> Iterator[list[QueryGateway]]:
    """So many gateways that all know of each other.

    Args:
        folder: for their files.
        count: their number.
        kind: of all of them.
        line: so many stand in a line, the others at the first.

    Raises:
        StartError: they did not come up in time.

    """
    gateways: list[QueryGateway] = []
    try:
        for number in range(count):
            before = [] if not number else [gateways[number - 1 if number < line else 0].links_at]
            gateways.append(QueryGateway(folder / f"gw-{number}", number, before, kind))
        wait_for_all(gateways, START_LIMIT_S)
        yield gateways
    finally:
        for gateway in gateways:
            gateway.stop()
