"""Clients that publish and subscribe while their broker is killed again and again.

The cast: two publishers at QoS 1 and two at QoS 2; subscribers with exact, wildcard and overlapping
filters, one that is away nearly all the time, one that comes and goes, two shared subscriptions;
one that subscribes and unsubscribes all the time; two that retain and delete; newcomers; and
sessions that wait for their clients to the end. Half of each speaks 3.1.1, half 5.0.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from brokers import BrokerProcess, logged
from durable_client import DurableClient, settled
from ledger import Ledger, Snapshot, Subscription
from raw_packets import V5, V311, Kind

DRAIN_S = 30.0
"""It takes a second or two."""
PACKET_S = 5.0
"""A packet after which the broker is to be killed comes by then, if it comes at all."""
MOMENTS = (
    "in a burst",
    "after PUBREC",
    "while starting",
    "as a file changes",
    "after SUBACK",
    "after PUBREL",
    "at rest",
    "after CONNACK",
    "while starting late",
    "after PUBACK",
    "after UNSUBACK",
    "after PUBCOMP",
    "after PUBLISH",
)
"""Moments at which a broker is killed. The first ones are tried even in the shortest run."""


@dataclass
class Run:
    """One run.

    Args:
        broker: what is killed.
        seed: of all chance.
        waiting_sessions: how many sessions wait for their clients.
        drain_s: all that is owed must have come by then.

    """

    broker: BrokerProcess
    seed: int
    waiting_sessions: int = 50
    drain_s: float = DRAIN_S
    ledger: Ledger = field(default_factory=Ledger)
    ended_sessions: list[str] = field(default_factory=list)
    """Sessions that were ended and came back."""
    undrained: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    unlogged: list[str] = field(default_factory=list)
    """Acknowledged messages that were not in the gateway's log after a kill."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self._armed: tuple[Kind, int] | None = None
        self._killed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._names = itertools.count(1)
        self._is_loading = asyncio.Event()
        make = self._client
        self.publishers = [
            make("p311-1", V311),
            make("p311-2", V311, method="B"),
            make("p5-1", V5),
            make("p5-2", V5),
        ]
        self._qos = dict(zip(self.publishers, (1, 2, 1, 2), strict=True))
        self.keepers = [make("keeper311", V311), make("keeper5", V5)]
        self.churner = make("churner", V5)
        self.idle_publisher = make("post", V5)
        self.subscribers = {
            make("exact", V311): [("k/p311-1/x", 2), ("k/p311-2/x", 2), ("k/p5-2/y", 2)],
            make("wild", V5, method="B"): [("k/#", 2)],
            make("lower", V311): [("k/+/y", 1)],
            make("overlap", V5): [("k/#", 1), ("k/+/x", 2), ("k/p5-2/x", 0)],
            make("overlap311", V311, method="B"): [("k/+/+", 2), ("k/p311-2/#", 1)],
            make("member1", V5): [("$share/g/k/#", 2)],
            make("member2", V311, method="B"): [("$share/g/k/#", 2)],
            make("member3", V5): [("$share/h/k/+/x", 1)],
            make("member4", V5, method="B"): [("$share/h/k/+/x", 1)],
        }
        self.flaky = make("flaky", V5)
        self.away = [make("away311", V311), make("away5", V5, method="B")]
        self.waiters = [make(f"waiter{i}", (V311, V5)[i % 2]) for i in range(self.waiting_sessions)]
        self.newcomers: list[DurableClient] = []

    def _client(self, name: str, level: int, *, method: str = "A") -> DurableClient:
        return DurableClient(name, level, self.ledger, method=method, watch=self._seen)

    # -- acts ------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Everybody connects and subscribes; who is to be away leaves."""
        port = self.broker.port
        await self.broker.start()
        for client, filters in self.subscribers.items():
            client.keep(port)
            for topic_filter, qos in filters:
                await client.subscribe(topic_filter, qos)
        for client in (*self.away, *self.waiters, self.flaky):
            await client.open(port)
        for client in self.away:
            await client.subscribe("k/#", 2)
            await client.leave()
        for client in self.waiters:
            await client.subscribe(f"post/{client.client_id}", 1 + client.packets.level % 2)
            await client.leave()
        await self.flaky.subscribe("k/+/x", 2)
        for client in (*self.publishers, *self.keepers, self.churner, self.idle_publisher):
            client.keep(port)
        works = [self._come_and_go(), self._churn(), self._post()]
        works += [self._publish(client) for client in self.publishers]
        works += [self._retain(client) for client in self.keepers]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def kill(self, moment: str) -> None:
        """Load the broker, kill it at a moment, and start it again."""
        self._killed.clear()
        self._armed = None
        self._is_loading.set()
        await self._past(moment)
        self._armed = None  # a packet that comes late kills nothing that has just begun
        self._killed.set()
        self.broker.kill()
        await self.broker.ended()
        self.kills[moment] += 1
        if moment.startswith("while starting"):
            await self._kill_while_starting(late=moment.endswith("late"))
        taken = [m for m in self.ledger.taken if m.payload]
        await self.broker.start()
        if (self.broker.state / "log").is_dir():
            found = logged(self.broker.state)
            self.unlogged += [f"after {moment}: {m}" for m in taken if m.payload not in found]
        await self._check_retained()

    async def finish(self) -> None:
        """Everybody comes back and gets what is owed; whether all came is noted."""
        self._is_loading.set()
        await self._end_sessions()
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        everybody = [
            *self.publishers,
            *self.keepers,
            self.idle_publisher,
            self.churner,
            self.flaky,
            *self.subscribers,
            *self.away,
            *self.waiters,
            *self.newcomers,
        ]
        for client in everybody:
            if not client.is_kept:
                client.keep(self.broker.port)
        ledger = self.ledger
        if not await ledger.until(lambda: settled(*everybody), self.drain_s):
            self.undrained += [f"{c.client_id}: {c.unsettled}" for c in everybody if c.unsettled]
        probe = self.idle_publisher
        for subscription in {s.topic_filter: s for s in ledger.subscriptions}:
            if subscription.startswith("c/"):
                probe.publish(subscription, b"probe", 2)
        await ledger.until(lambda: settled(probe), self.drain_s)
        await ledger.until(lambda: not ledger.lost(), self.drain_s)
        await self._until_quiet(everybody)
        await self._check_retained()
        for client in everybody:
            client.stop()

    async def _until_quiet(self, clients: list[DurableClient]) -> None:
        """Wait until two pings bring nothing new: a double may come behind what is complete."""
        before = -1
        while (count := sum(map(len, self.ledger.deliveries.values()))) != before:
            before = count
            for _ in range(2):
                with contextlib.suppress(ConnectionError):
                    await asyncio.gather(*(client.ping() for client in clients))

    # -- moments ---------------------------------------------------------------------------------

    async def _past(self, moment: str) -> None:
        chance = self.chance
        await asyncio.sleep(chance.uniform(0.05, 0.5))  # under load
        if moment.startswith("after "):
            self._armed = (Kind[moment.removeprefix("after ")], chance.randint(1, 40))
            if self._armed[0] is Kind.CONNACK:
                self._armed = (Kind.CONNACK, chance.randint(1, 3))
            await self._until_killed()
        elif moment == "in a burst":
            for client in self.publishers:
                for _ in range(chance.randint(5, 60)):
                    self._publish_one(client)
            await asyncio.sleep(10 ** chance.uniform(-5, -1.5))
        elif moment == "as a file changes":
            await self._file_changed(self.broker.state)
            await asyncio.sleep(chance.choice((0, 0, 0.0002, 0.001, 0.003)))
        elif moment == "at rest":
            self._is_loading.clear()
            await self.ledger.until(lambda: settled(*self.publishers), self.drain_s)
        else:
            await asyncio.sleep(chance.uniform(0, 0.05))

    def _seen(self, kind: Kind) -> None:
        """A packet has come; it is not answered yet."""
        if self._armed is None or self._armed[0] is not kind:
            return
        kind, left = self._armed
        self._armed = (kind, left - 1)
        if left <= 1:
            self._armed = None
            self.broker.kill()
            self._killed.set()

    async def _until_killed(self) -> None:
        """Newcomers connect until the packet came after which the broker is killed."""
        with contextlib.suppress(TimeoutError):  # a broker that lost all may never send it
            async with asyncio.timeout(PACKET_S):
                while not self._killed.is_set():
                    with contextlib.suppress(OSError):
                        await self._newcomer()
                    await self.ledger.until(self._killed.is_set, 0.05)

    async def _newcomer(self) -> None:
        number = next(self._names)
        client = self._client(f"new{number}", (V311, V5)[number % 2])
        self.newcomers.append(client)
        await client.open(self.broker.port)
        await client.leave()

    async def _file_changed(self, folder: Path) -> None:
        """Until a file came, went or, but for the log, was written: a segment, a checkpoint."""

        def look() -> set[tuple[str, int]]:
            seen = set()
            for place in (folder, folder / "log"):
                with contextlib.suppress(OSError), os.scandir(place) as entries:
                    for entry in entries:
                        is_of_the_log = entry.name.endswith((".log", ".index"))
                        seen.add((entry.name, 0 if is_of_the_log else entry.stat().st_mtime_ns))
            return seen

        before = look()  # here: threads may not see a mount of the test
        for _ in range(self.chance.randint(1, 3)):
            for _ in range(2_000):  # a broker that writes nothing is killed nevertheless
                now = look()
                if now != before:
                    break
                await asyncio.sleep(0.0005)
            before = now

    async def _kill_while_starting(self, *, late: bool) -> None:
        for _ in range(self.chance.randint(1, 3)):
            await self.broker.start(wait=False)
            if late:  # in recovery, or as the first clients come
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await self._file_changed(self.broker.state)
                await asyncio.sleep(self.chance.uniform(0, 0.3))
            else:
                await asyncio.sleep(self.chance.uniform(0, 0.3))
            self.broker.kill()
            await self.broker.ended()
            self.kills["while starting"] += 1

    # -- work ------------------------------------------------------------------------------------

    def _publish_one(self, client: DurableClient) -> None:
        topic = f"k/{client.client_id}/{self.chance.choice('xy')}"
        client.publish(topic, bytes(self.chance.randint(0, 200)), self._qos[client])

    async def _publish(self, client: DurableClient) -> None:
        while True:
            await self._is_loading.wait()
            if client.unsettled < 40:
                for _ in range(self.chance.randint(1, 8)):
                    self._publish_one(client)
            await asyncio.sleep(self.chance.uniform(0, 0.08))

    async def _retain(self, client: DurableClient) -> None:
        while True:
            await self._is_loading.wait()
            if client.unsettled < 10:
                number = self.chance.randint(0, 9)
                payload = b"" if self.chance.random() < 0.25 else b"kept"
                topic = f"r/{client.client_id}/{number}"  # in order only at the same QoS
                client.publish(topic, payload, 1 + number % 2, retain=True)
            await asyncio.sleep(self.chance.uniform(0, 0.05))

    async def _churn(self) -> None:
        live: dict[int, Subscription] = {}
        while True:
            await self._is_loading.wait()
            number = self.chance.randint(0, 9)
            if number in live:
                await self.churner.unsubscribe(live.pop(number))
            else:
                live[number] = await self.churner.subscribe(f"c/{number}", 2)
            await asyncio.sleep(self.chance.uniform(0, 0.02))

    async def _post(self) -> None:
        while True:
            await self._is_loading.wait()
            if self.idle_publisher.unsettled < 10:
                waiter = self.chance.choice(self.waiters)
                topic = f"post/{waiter.client_id}"
                self.idle_publisher.publish(topic, b"", 2)
            await asyncio.sleep(self.chance.uniform(0, 0.05))

    async def _come_and_go(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                if not self.flaky.is_connected:
                    await self.flaky.open(self.broker.port)
                await asyncio.sleep(self.chance.uniform(0, 0.3))
                if self.chance.random() < 0.5:
                    self.flaky.cut()
                else:
                    await self.flaky.leave()
            await asyncio.sleep(self.chance.uniform(0.01, 0.2))

    # -- checks that need a client of their own --------------------------------------------------

    async def _check_retained(self) -> None:
        """A client without a past subscribes: does it get what was retained last?"""
        found = Snapshot()
        client = DurableClient(f"look{next(self._names)}", V5, found)
        taken = self.ledger.retained_taken()
        await client.open(self.broker.port, clean=True, expiry_s=0)
        await client.subscribe("r/#", 0)
        await client.ping()
        client.stop()
        self.ledger.check_retained(taken, found.got)

    async def _end_sessions(self) -> None:
        """Sessions end in every way there is; then the broker is killed: do they stay ended?"""
        port, ledger = self.broker.port, self.ledger
        clean = self._client("ended-clean-start", V311)
        said = self._client("ended-disconnect", V5)
        live = self._client("ended-no-expiry", V5)
        short = self._client("ended-expiry", V5)
        for client in (clean, said, live, short):
            await client.open(port)
            subscription = await client.subscribe(f"ended/{client.client_id}", 2)
            ledger.subscriptions.remove(subscription)  # nothing is owed to them
        await clean.leave()
        await clean.open(port, clean=True)
        await said.leave(expiry_s=0)
        await live.leave()
        await live.open(port, clean=True, expiry_s=0)
        await short.leave(expiry_s=1)
        await self._newcomer()  # one more turn of the broker, of which an answer is seen
        await self.kill("at rest")
        await asyncio.sleep(3.0)  # what expires is time
        for client in (clean, said, live, short):
            client.stop()
            client.is_session_expected = None
            connack = await client.open(port)
            if connack.session_present:
                self.ended_sessions.append(client.client_id)
            client.stop()


async def soak(run: Run, moments: list[str]) -> Run:
    """The whole of a run."""
    try:
        await run.prepare()
        for moment in moments:
            await run.kill(moment)
        await run.finish()
    finally:
        await run.broker.stop()
    return run


def plan(seed: int, kills: int) -> list[str]:
    """Return the moments of a run's kills: every kind in turn, from a place of chance on."""
    chance = random.Random(seed)
    moments = list(itertools.islice(itertools.cycle(MOMENTS), kills))
    if kills > len(MOMENTS):
        chance.shuffle(moments)
    return moments
