"""Gateways for ``benchmarks.fleet``, each a process: ten of them, in a tree of four layers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.broker_process import StartError
from benchmarks.known_gateways import end, wait_for_all
from benchmarks.query_client import QueryClient

KEY: Final = b"key of the bench"
IDENTITIES: Final = 500
"""Devices that have a key, at every gateway."""
_START_LIMIT_S = 120.0
_LOOK_S = 0.1
_SWITCHES = 10
_CONFIG = """
[gateway]
id = "{id}"
domain = "{domain}"
group = "{group}"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "{folder}/psk"
[coap.limits]
sessions = 1024
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
hello_s = 0.5
capability = {capability}
neighbours = {neighbours}
[log]
durability = "write"
[access]
anonymous = true
"""


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a gateway: its parent's number, its domain and its group."""

    parent: int | None
    domain: str = ""
    group: str = ""

    @property
    def prefix(self) -> str:
        """As a path over ``/q`` names it."""
        return f"{self.domain or '-'}/{self.group or '-'}"


TREE: Final = (
    Spot(None),
    *(Spot(0, "east"), Spot(0, "west")),
    *(Spot(1, "east", "mill"), Spot(1, "east", "yard"), Spot(2, "west", "dock")),
    *(Spot(3, "east", "mill"), Spot(3, "east", "mill")),
    *(Spot(4, "east", "yard"), Spot(5, "west", "dock")),
)
"""One root, two domains, three groups and four gateways below these: row A13."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The resources that a gateway's process takes."""

    cpu_s: float
    rss_mib: float
    threads: int


class BedGateway:
    """One gateway.

    Args:
        folder: for its files.
        number: its own, in `TREE`.
        dials: the addresses at which its parent takes links; none for the root.

    """

    def __init__(self, folder: Path, number: int, dials: Sequence[str]) -> None:
        folder.mkdir(mode=0o700)
        self.id = f"gw-{number}"
        self.spot = TREE[number]
        self.links_at = ""
        self.port = self.dtls_port = 0
        self._folder = folder
        keys = "".join(f"{identity(one)}:{KEY.hex()}\n" for one in range(IDENTITIES))
        for name, secret in (("tree.key", "ab" * 32), ("psk", keys)):
            (folder / name).touch(0o600)
            (folder / name).write_text(secret)
        config = folder / "gateway.toml"
        switches = "".join(
            f'[[sensors]]\ntype = "switch"\nname = "valve-{one}"\n' for one in range(_SWITCHES)
        )
        said = _CONFIG.format(
            id=self.id,
            domain=self.spot.domain,
            group=self.spot.group,
            folder=folder,
            capability=10_000.0 - number,
            neighbours=json.dumps(list(dials)),
        )
        config.write_text(said + switches)
        with (folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
                stderr=log,
            )

    def wait(self) -> None:
        """Wait until it listens.

        Raises:
            StartError: it has ended, or takes too long.

        """
        end_s = time.monotonic() + _START_LIMIT_S
        listeners = self._folder / "state" / "listeners.json"
        while not listeners.exists():
            if self._process.poll() is not None or time.monotonic() > end_s:
                log = (self._folder / "log.txt").read_text()
                raise StartError(f"{self.id} did not start: {log[-500:]}")
            time.sleep(_LOOK_S)
        found = json.loads(listeners.read_text())
        self.links_at = found["mqtt"].rpartition("/")[2]
        self.port, self.dtls_port = (
            int(found[scheme].rpartition(":")[2]) for scheme in ("coap", "coaps")
        )

    def name_of(self, path: str) -> str:
        """Return a resource of its own, as it is called at others."""
        return f"/q/{self.spot.prefix}/{self.id}{path}"

    def taken(self) -> Taken:
        """Measure what it takes now."""
        process = psutil.Process(self._process.pid)
        times = process.cpu_times()
        rss_mib = process.memory_info().rss / (1 << 20)
        return Taken(times.user + times.system, rss_mib, process.num_threads())

    def status(self, client: QueryClient) -> dict[str, Any]:
        """Fetch the status that it gives of itself."""
        return dict(json.loads(client.get(self.port, "/status")))

    def stop(self) -> None:
        """End the process."""
        end(self._process)


def identity(number: int) -> str:
    """Return the identity of a device over DTLS."""
    return f"device-{number}"


@contextmanager
def standing(folder: Path) -> Iterator[list[BedGateway]]:
    """Yield the tree, when all gateways know of each other.

    Raises:
        StartError: it did not come up in time.

    """
    gateways: list[BedGateway] = []
    try:
        for number, spot in enumerate(TREE):
            if spot.parent is None:
                dials: list[str] = []
            else:
                parent = gateways[spot.parent]
                if not parent.links_at:
                    parent.wait()
                dials = [parent.links_at]
            gateways.append(BedGateway(folder / f"gw-{number}", number, dials))
        for gateway in gateways:
            gateway.wait()
        wait_for_all(gateways, _START_LIMIT_S)
        yield gateways
    finally:
        for gateway in gateways:
            gateway.stop()
