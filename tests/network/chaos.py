"""Ten gateways and a collector, to which everything happens at once, for as long as one likes.

Links run inside mutual TLS. Gateways are killed, stopped and paused; edges are reset, cut without
a word in one direction or both, and lose packets; several of these at a time, by a seeded choice.
A publisher and a subscriber with a durable session at each gateway go on meanwhile. At the end all
is healed, and everything that was acknowledged must be at every subscriber and in the collector's
spool: once, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.mesh import network
from benchmarks.mesh.gateways import Gateways
from benchmarks.mesh.network import Network
from benchmarks.mesh.relay import Shape
from benchmarks.mesh.traffic import Traffic
from tree_handler import batch

GATEWAYS = 10
COLLECTOR = GATEWAYS
"""The host of the collector."""
RATE_HZ = 10.0
MAX_FAULTS = 3
"""At a time."""
HEALED_S = 180.0
"""All that was acknowledged is everywhere by then, or is lost."""
SPOOL_CHECK_S = 1.0
COLLECTOR_NAME = "collector"

EDGES = sorted(
    {
        *((i, (i + 1) % GATEWAYS) for i in range(GATEWAYS)),
        *((i, (i + 2) % GATEWAYS) for i in range(GATEWAYS)),
        (0, COLLECTOR),
        (5, COLLECTOR),
    }
)


class ChaosGateways(Gateways):
    """Ten gateways, and on the last host a collector."""

    def __init__(self, net: Network, folder: Path, mode: str) -> None:
        super().__init__(net, folder, tree={"mode": mode})
        assert self.certificates is not None
        own = self.certificates.collector(self.id(COLLECTOR))
        self.config(COLLECTOR).write_text(
            f'[collector]\nid = "{self.id(COLLECTOR)}"\nspool_dir = "{folder}/spool"\n'
            + "".join(f"{key} = {json.dumps(value)}\n" for key, value in own.items())
            + f'[tree]\nkey_file = "{folder}/tree.key"\ndiscovery = false\n'
            f'mode = "{mode}"\nneighbours = {json.dumps(self.neighbours(COLLECTOR))}\n'
        )

    @staticmethod
    def id(host: int) -> str:
        return COLLECTOR_NAME if host == COLLECTOR else Gateways.id(host)

    def program(self, host: int) -> str:
        return "cloud_ingest.collector.command" if host == COLLECTOR else super().program(host)

    def is_up(self, host: int) -> bool:
        return host == COLLECTOR or super().is_up(host)


class Chaos:
    """One run.

    Args:
        folder: for states, logs and ``events.log``.
        seed: of all choices.
        seconds: how long faults go on.
        mode: of the tree.

    """

    def __init__(self, folder: Path, seed: int, seconds: float, mode: str = "flood") -> None:
        self.folder = folder
        self.faults: Counter[str] = Counter()
        self.lost: list[str] = []
        self.doubled = 0
        self.disordered = 0
        self.overtaken = 0
        self.acknowledged = 0
        self.delivered = 0
        self.examples: list[str] = []
        self.lost_sessions: list[str] = []
        self.died: list[str] = []
        self.wrong_spool: list[str] = []
        self._chance = random.Random(seed)
        self._seconds = seconds
        self._mode = mode
        self._busy: set[object] = set()
        self._began_s = time.monotonic()

    async def run(self) -> None:
        """All of it."""
        with network.mesh(GATEWAYS + 1, EDGES, shape=Shape(5.0, 1.5)) as net:
            async with ChaosGateways(net, self.folder, self._mode) as gateways:
                await asyncio.gather(*(gateways.start(host) for host in range(GATEWAYS + 1)))
                levels = [1 + host % 2 for host in range(GATEWAYS)]
                traffic = Traffic(net, rate_hz=RATE_HZ, qos=levels, hosts=range(GATEWAYS))
                traffic.count.keeps_arrivals = False
                try:
                    await traffic.subscribe()
                    spool = Spool(self.folder / "spool")
                    async with asyncio.timeout(HEALED_S):
                        await traffic.known(lambda: spool.heard_all(traffic))
                    traffic.begin()
                    await self._break(net, gateways)
                    self._note("healed")
                    await self._settle(traffic)
                    self.died += gateways.died()
                    await gateways.stop(COLLECTOR)
                    self._judge(traffic)
                finally:
                    await traffic.stop()

    async def _break(self, net: Network, gateways: ChaosGateways) -> None:
        running: set[asyncio.Task[None]] = set()
        end_s = time.monotonic() + self._seconds
        try:
            while time.monotonic() < end_s:
                await asyncio.sleep(self._chance.uniform(0.1, 1.5))
                for task in [task for task in running if task.done()]:
                    running.discard(task)
                    task.result()
                if len(running) < MAX_FAULTS:
                    running.add(asyncio.create_task(self._fault(net, gateways)))
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
        net.heal()

    async def _fault(self, net: Network, gateways: ChaosGateways) -> None:
        chance = self._chance
        kind = chance.choice(("kill", "kill", "stop", "pause", *("edge",) * 4))
        what: object
        happens: Callable[[], Awaitable[None]]
        if kind == "edge":
            a, b = edge = chance.choice(EDGES)
            what, name = edge, chance.choice(("reset", "silent", "silent one way", "lossy"))
            happens = lambda: self._cut(net, name, a, b)  # noqa: E731
        else:
            host = chance.randrange(GATEWAYS + 1)
            what, name = host, kind
            happens = lambda: self._strike(gateways, kind, host)  # noqa: E731
        if what in self._busy:
            return
        self._busy.add(what)
        self.faults[name] += 1
        try:
            await happens()
        finally:
            self._busy.discard(what)

    async def _strike(self, gateways: ChaosGateways, kind: str, host: int) -> None:
        self._note(f"{kind} {host}")
        pause_s = self._chance.uniform(0.0, 4.0)
        if kind == "pause":
            gateways.pause(host)
            await asyncio.sleep(pause_s)
            gateways.resume(host)
        else:
            self.died += gateways.died_of([host])
            await (gateways.kill(host) if kind == "kill" else gateways.stop(host))
            await asyncio.sleep(pause_s)
            await gateways.start(host)
        self._note(f"{kind} {host} is over")

    async def _cut(self, net: Network, kind: str, a: int, b: int) -> None:
        if self._chance.random() < 0.5:
            a, b = b, a
        self._note(f"{kind} {a}-{b}")
        pause_s = self._chance.uniform(0.2, 6.0)
        if kind == "reset":
            net.refuse(a, b)
            await asyncio.sleep(pause_s)
            net.unrefuse(a, b)
        elif kind == "lossy":
            net.shape(a, b, Shape(5.0, 5.0, loss=0.1))
            await asyncio.sleep(pause_s)
            net.shape(a, b, Shape(5.0, 1.5))
        else:
            ways = ((a, b),) if kind == "silent one way" else ((a, b), (b, a))
            for source, to in ways:
                net.silence(source, to)
            await asyncio.sleep(pause_s)
            for source, to in ways:
                net.unsilence(source, to)
        self._note(f"{kind} {a}-{b} is over")

    def _note(self, line: str) -> None:
        with (self.folder / "events.log").open("a") as file:
            wall = time.strftime("%H:%M:%S")
            print(f"{wall} {time.monotonic() - self._began_s:8.2f} {line}", file=file)

    # -- judgement -------------------------------------------------------------------------------

    async def _settle(self, traffic: Traffic) -> None:
        end_s = time.monotonic() + HEALED_S
        await traffic.settle(HEALED_S)
        spool = Spool(self.folder / "spool")
        while time.monotonic() < end_s:
            spool.read(traffic)
            if not traffic.count.lost(COLLECTOR_NAME):
                break
            await asyncio.sleep(SPOOL_CHECK_S)

    def _judge(self, traffic: Traffic) -> None:
        count = traffic.count
        names = [s.client_id for s in traffic.subscribers.values()]
        count.received.pop(COLLECTOR_NAME, None)
        Spool(self.folder / "spool").read(traffic)
        self.lost = count.describe_lost([*names, COLLECTOR_NAME])
        unsettled = {p.client_id: p.unsettled for p in traffic.publishers.values() if p.unsettled}
        if unsettled:
            self.lost.append(f"exchanges that never ended: {unsettled}")
        self.delivered = count.delivered
        self.doubled = count.total("doubled")
        # A spool holds batches as they came; who reads it puts them in order.
        count.received.pop(COLLECTOR_NAME, None)
        self.disordered = count.total("disordered")
        self.overtaken = count.total("overtaken")
        self.acknowledged = count.acknowledged
        self.examples = [line for line in count.examples if COLLECTOR_NAME not in line]
        self.lost_sessions = count.lost_sessions
        told = f"acknowledged {self.acknowledged}, delivered {self.delivered}"
        self._note(f"{told}, faults {dict(self.faults)}")


class Spool:
    """The collector's spool, as any reader of batches finds it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def heard_all(self, traffic: Traffic) -> bool:
        """Return whether it has something of every publisher: from then on all are owed to it."""
        self.read(traffic)
        heard = traffic.count.received[COLLECTOR_NAME]
        return all(stream.number in heard for stream in traffic.streams.values())

    def read(self, traffic: Traffic) -> None:
        """Note all clients' messages in it as arrivals at the collector, counted anew."""
        traffic.count.received.pop(COLLECTOR_NAME, None)
        for segment in sorted(self._folder.glob("*.log")):
            data = b""
            with contextlib.suppress(FileNotFoundError):
                data = segment.read_bytes()
            for at, header in batch.frames(data):
                if header.control or header.passed:
                    continue
                for entry in batch.decode(data[at : at + header.end], header):
                    traffic.count.arrived(COLLECTOR_NAME, entry.payload, 0.0, again=False)
