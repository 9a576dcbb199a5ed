"""The cost of a gateway's page, and the times of its answers on a gateway that is full.

    python -m benchmarks.page --sensors 500 --clients 200 --topics 10000 --devices 200

It is for people: a machine that does something else gives other times, so nothing is held to them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import psutil
from argon2 import PasswordHasher

from gateway.tools.commands.mqtt_client import Login, MqttClient

START_S: Final = 60.0
REST_S: Final = 4.0
OPEN_S: Final = 20.0
LOOKS: Final = 15
PUBACKS_S: Final = 4.0
ROUNDS: Final = 12
"""All pages have been looked at twice then. Rounds are short, so all see the same machine."""
USER: Final = {"user": "bench", "password": "bench"}
ANSWERS: Final = (
    *("overview", "tree", "members", "clients", "sensors", "sensors?hour=0", "alerts", "log"),
    *("audit", "policy", "directory/endpoints", "directory/resources", "openapi.json", "support"),
    *("retained?filter=%23", "retained?filter=floor1/%23", "retained?filter=%2B/room7/%2B"),
    *("configuration", "configuration/trial", "keys", "device-keys"),
    *("drivers", "drivers/sht3x"),
)
CHECKED: Final = {"set": ["tree.hello_s=1.5"]}
TRIED: Final = {"type": "switch", "name": "tried"}
POSTED: Final[tuple[tuple[str, Any], ...]] = (
    ("configuration/checks", CHECKED),
    ("sensor-trials", TRIED),
)
"""The requests of a form before anything is saved."""
POLICY: Final = """version = 1
[principals]
"console:bench" = ["admin"]
"user:*" = ["operator"]
"stranger" = ["operator"]
"""


class Address(NamedTuple):
    """The addresses of a gateway.

    Attributes:
        page: the root of its page's API.
        mqtt: host and port of its broker.

    """

    page: str
    mqtt: tuple[str, int]


class Measured:
    """A gateway in a process of its own.

    Args:
        folder: for its files.
        sensors: the number of its switches.
        devices: the number of devices that have a pre-shared key.
        web: true if it has a page.
        idle: true if it runs only where nobody else wants the core.

    """

    def __init__(
        self, folder: Path, sensors: int, devices: int = 1, *, web: bool, idle: bool = False
    ) -> None:
        folder.mkdir()
        for name in ("tree.key", "passwords", "psk"):
            (folder / name).touch(mode=0o600)
        (folder / "tree.key").write_text("ab" * 32)
        (folder / "policy.toml").write_text(POLICY)
        (folder / "psk").write_text(
            "".join(f"meter-{number}:{number:032x}\n" for number in range(devices))
        )
        (folder / "passwords").write_text(f"bench:{PasswordHasher().hash('bench')}\n")
        switches = "".join(
            f'[[sensors]]\ntype = "switch"\nname = "s{number}"\n' for number in range(sensors)
        )
        config = folder / "gateway.toml"
        config.write_text(
            f'[gateway]\nid = "gw"\nstate_dir = "{folder}/state"\n[mqtt]\nport = 0\n'
            f'[coap]\nport = 0\ndtls_port = 0\npsk_file = "{folder}/psk"\n'
            f'[tree]\nkey_file = "{folder}/tree.key"\ndiscovery = false\n'
            f'tls = "off"\n[console]\nport = 0\nweb = {str(web).lower()}\n[access]\n'
            f'anonymous = true\npassword_file = "{folder}/passwords"\n'
            f'policy_file = "{folder}/policy.toml"\n{switches}'
        )
        command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)]
        if idle:
            command = ["chrt", "--idle", "0", *command]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        listeners = folder / "state" / "listeners.json"
        end_s = time.monotonic() + START_S
        while not listeners.exists() and time.monotonic() < end_s:
            time.sleep(0.1)
        told = json.loads(listeners.read_text())
        self.address = Address(
            page=f"http://{told['console']}/api/v1",
            mqtt=("127.0.0.1", int(told["mqtt"].rpartition(":")[2])),
        )
        self._seen = psutil.Process(self._process.pid)

    @property
    def memory_mib(self) -> float:
        """Its resident memory."""
        return float(self._seen.memory_info().rss / 2**20)

    @property
    def processor_s(self) -> float:
        """Return the processor time that it has used, in seconds."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


async def client(gateway: Address, name: str) -> MqttClient:
    """Return a client of its broker."""
    made = MqttClient(*await asyncio.open_connection(*gateway.mqtt))
    await made.connect(Login(client_id=name), 0)
    return made


async def look(
    session: aiohttp.ClientSession, gateway: Address, path: str, body: Any = None
) -> tuple[float, int]:
    """Milliseconds and bytes of an answer."""
    begun_s = time.perf_counter()
    method = "GET" if body is None else "POST"
    async with session.request(method, f"{gateway.page}/{path}", json=body) as answer:
        body = await answer.read()
        assert answer.status == 200, (path, body[:200])
    return (time.perf_counter() - begun_s) * 1e3, len(body)


async def pubacks_ms(publisher: MqttClient) -> list[float]:
    """Return how long PUBACKs take, in milliseconds."""
    took: list[float] = []
    end_s = time.monotonic() + PUBACKS_S
    while time.monotonic() < end_s:
        begun_s = time.perf_counter()
        await publisher.publish("load/x", b"y" * 64, 1)
        took.append((time.perf_counter() - begun_s) * 1e3)
        await asyncio.sleep(0.002)
    return took


def percentiles(took_ms: Sequence[float]) -> str:
    """Return the median, the 99th percentile and how many were measured."""
    parts = statistics.quantiles(took_ms, n=100)
    return f"median {parts[49]:6.2f} ms, p99 {parts[98]:6.2f} ms of {len(took_ms)}"


class Way(NamedTuple):
    """A way of looking at a gateway's pages.

    Attributes:
        pages: the paths that are asked at once, step by step, and then from the beginning.
        pause_s: after each step.

    """

    pages: Sequence[Sequence[str]]
    pause_s: float


OPEN_PAGES: Final = Way([("overview", "sensors?hour=0", "clients")], 3.0)
ALL_PAGES: Final = Way([(path,) for path in ANSWERS], 1.0)
LOOKING: Final[Mapping[str, Way]] = {
    "three open elsewhere": OPEN_PAGES,
    "three open": OPEN_PAGES,
    "all elsewhere": ALL_PAGES,
    "all by turns": ALL_PAGES,
}
"""A browser with these pages open; somebody who goes through all pages.

Elsewhere: of another gateway, which gives way to this one as the browser does. So a difference from
it is what this gateway's own event loop pays, and not what two cores share.
"""


async def logged_in(session: aiohttp.ClientSession, gateway: Address) -> None:
    """Log in, and send with each request what a page sends."""
    async with session.post(f"{gateway.page}/login", json=USER) as answer:
        assert answer.status == 200, await answer.text()
        session.headers["X-Hedgerow-CSRF"] = (await answer.json())["csrf"]


async def view(gateway: Address, what: str, lap: int, looks: Event) -> None:
    """Log in, say so by `looks`, and look until the process is ended.

    Args:
        gateway: the one that has the pages.
        what: the way of looking.
        lap: the number of rounds before this one, which goes on where they ended.
        looks: is set once it looks.

    """
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        await logged_in(session, gateway)
        looks.set()
        pages, pause_s = LOOKING[what]
        begin = lap * int(PUBACKS_S / pause_s) % len(pages)
        for step in itertools.chain(pages[begin:], itertools.cycle(pages)):
            for path in step:
                await look(session, gateway, path)
            await asyncio.sleep(pause_s)


def viewer(gateway: Address, what: str, lap: int, looks: Event) -> None:
    """Be a browser: a process of its own, which runs only where nobody else wants the core.

    A browser is on another machine, so its work must not be measured with the publisher's.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(view(gateway, what, lap, looks))


@contextlib.contextmanager
def browser(gateway: Address, what: str, lap: int) -> Iterator[None]:
    """Have somebody look, if it is a way of looking."""
    if what not in LOOKING:
        yield
        return
    context = multiprocessing.get_context("spawn")
    looks = context.Event()
    process = context.Process(target=viewer, args=(gateway, what, lap, looks), daemon=True)
    process.start()
    assert looks.wait(START_S), "the browser did not log in"
    try:
        yield
    finally:
        process.terminate()
        process.join()


async def filled(gateway: Address, options: argparse.Namespace) -> list[MqttClient]:
    """Give it clients, which are returned, and retained messages."""
    publishers = [await client(gateway, f"c{number}") for number in range(options.clients)]
    for number in range(options.topics):
        topic = f"floor{number % 10}/room{number % 100}/device{number}"
        publisher = publishers[number % len(publishers)]
        await publisher.publish(topic, b'{"v": 1}', 1, retain=True)
    return publishers


async def measure(gateway: Measured, other: Measured, options: argparse.Namespace) -> None:
    """Fill both, and look at the first; the other is looked at for comparison."""
    address = gateway.address
    connected = [await filled(each.address, options) for each in (gateway, other)]
    publisher = connected[0][0]
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        await logged_in(session, address)
        for path, body in [*((path, None) for path in ANSWERS), *POSTED]:
            found: list[Any] = []
            for _ in range(LOOKS):
                found.append(await look(session, address, path, body))
                await asyncio.sleep(0.1)
            took = sorted(ms for ms, _ in found)
            print(f"{path:32} {took[LOOKS // 2]:7.1f} ms, {took[-1]:7.1f} at most, {found[0][1]} B")
        of_all: dict[str, list[float]] = {}
        for lap in range(ROUNDS):
            for what in ("without", *LOOKING):
                looked_at = other.address if "elsewhere" in what else address
                with browser(looked_at, what, lap):
                    took_ms = await pubacks_ms(publisher)
                of_all.setdefault(what, []).extend(took_ms)
                print(f"PUBACK, {what:20} {percentiles(took_ms)}")
        for what, took_ms in of_all.items():
            print(f"all {ROUNDS} rounds, {what:20} {percentiles(took_ms)}")
        with browser(address, "three open", 0):
            used_s = gateway.processor_s
            await asyncio.sleep(OPEN_S)
            used = (gateway.processor_s - used_s) / OPEN_S
        print(f"open pages take {used * 100:.2f} % of a core, {gateway.memory_mib:.1f} MiB in all")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    counts = (("sensors", 500), ("clients", 200), ("topics", 10_000), ("devices", 200))
    for name, count in counts:
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for web in (False, True):
            gateway = Measured(Path(folder) / f"web-{web}", 0, web=web)
            time.sleep(REST_S)
            print(f"{'with' if web else 'without'} a page: {gateway.memory_mib:.1f} MiB")
            gateway.stop()
        full = (options.sensors, options.devices)
        gateway = Measured(Path(folder) / "full", *full, web=True)
        other = Measured(Path(folder) / "other", *full, web=True, idle=True)
        try:
            asyncio.run(measure(gateway, other, options))
        finally:
            gateway.stop()
            other.stop()


if __name__ == "__main__":
    main()
