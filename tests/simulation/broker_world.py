"""One broker, its log in memory and clients that keep their state, in one seeded run with crashes.

The broker is the production core. The crash comes before or after any append, also between two of
one turn. Clients do what the standard asks of them across reconnects, and note what they were told
and what they got, so that `broken` can say afterwards which promise does not hold.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker_client import Client, Wire
from memory_log import CrashError, Disk, MachineClocks, MemoryLog

from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.hooks import Client as Known
from gateway.broker.hooks import Hooks, Verdict
from gateway.broker.server import BrokerCore
from gateway.broker.topics import matches, split_share
from gateway.mqtt import Version

__all__ = ["Client", "CrashError", "Wire", "World"]

TOPICS = ("a/1", "a/2", "b/1")


class FailingStore(Store):
    """Checkpoints that fail when they are told to."""

    is_failing = False

    def save(self, checkpoint: Checkpoint) -> None:
        if self.is_failing:
            raise StoreError("disk I/O error")
        super().save(checkpoint)


@dataclass
class Published:
    """A message, and who was certain to be subscribed to its topic when it was published."""

    topic: str
    qos: int
    retain: bool
    due: dict[str, int]
    """Clients by name, with their QoS; shared subscriptions by ``$share/...``."""
    stays: set[str]
    """Of them, those who have not unsubscribed since."""


class World:
    """One seeded run.

    Args:
        seed: of everything that is drawn; if it is odd, the disk is full at times.
        sync: whether the log loses at a crash what was not synced.

    """

    takes_checkpoints = False
    """Whether a test that asks for a crash wants a checkpoint right before it."""

    def __init__(self, seed: int, *, sync: bool) -> None:
        self.rng = random.Random(seed)
        self.sync = sync
        self.disk_fills = seed % 2 == 1
        self.disk = Disk()
        self.clocks = MachineClocks()
        self.epoch = 0
        self.crashes = 0
        self.may_publish: Callable[[Known, str], Verdict] | None = None
        self.published: dict[bytes, Published] = {}
        self.retained: dict[str, list[bytes]] = defaultdict(list)
        self.clients = [
            Client(f"c{i}", Version.V5 if i % 2 else Version.V311, self.rng) for i in range(5)
        ]
        for client in self.clients[3:]:
            client.group = "$share/g/b/+"
        # In memory where that is to be had: what a disk does is not what is drawn here.
        memory = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(
            prefix="broker-world-", dir=memory if os.access(memory, os.W_OK) else None
        )
        self.store = Path(self._folder.name) / "broker.sqlite3"
        self.core: BrokerCore
        self.log: MemoryLog
        self._open: FailingStore

    # -- lives

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self.epoch += 1
        crash_in = self.rng.randrange(1, 120)
        self.log = MemoryLog(self.disk, self.epoch, crash_in, self.clocks, sync=self.sync)
        self.core = BrokerCore(
            Hooks(
                authenticate=lambda client, password: True,
                commit=self.log.commit,
                carries_unlogged=lambda: False,
                links=lambda transport, first: asyncio.sleep(0),
                may_publish=self.may_publish,
            )
        )
        self._open = FailingStore(self.store)
        found = self.core.recover(self.log, self._open, self._open.load(), self.clocks)
        assert not found.odd, f"{found.odd} records did not fit"

    async def crash(self) -> None:
        self.crashes += 1
        self.log.is_dead = True
        for client in self.clients:
            if self.rng.random() < 0.5:  # what was on its way may still arrive, or not
                client.read(self.rng.randrange(20))
            client.cut()
        self.core.upkeep.stop()
        await self._settled()
        self.disk = self.log.survives()
        self._open.close()
        self.start()

    async def checkpoint(self) -> None:
        """A checkpoint that is made, or that a crash cuts off before or after its commit."""
        kept = self.core.durable
        assert kept is not None
        with suppress(CrashError, OSError):
            await kept.checkpoint()

    @staticmethod
    def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), CrashError):
            loop.default_exception_handler(context)

    async def _settled(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    # -- what happens

    async def step(self) -> None:
        rng = self.rng
        client = rng.choice(self.clients)
        draw = rng.random()
        if client.connection is None:
            client.connect(self.core)
        elif not client.is_accepted or draw < 0.3:
            client.read(rng.randrange(1, 6))
        elif draw < 0.75:
            for _ in range(rng.randrange(1, 4)):
                self.publish(client)
        elif draw < 0.80:
            self.change_subscription(client)
        elif draw < 0.84:
            client.cut()
        elif draw < 0.86:
            await self.checkpoint()
        elif draw < 0.87 and self.disk_fills:
            self.log.is_full = not self.log.is_full
        if rng.random() < 0.6:
            await asyncio.sleep(0)
        if rng.random() < 0.3 and self.sync and not self.log.is_dead:
            self.log.synced()
        if self.log.is_dead or rng.random() < 0.01:
            await self.crash()

    def publish(self, client: Client) -> None:
        if len(client.sent) > 20:
            return
        topic, qos = self.rng.choice(TOPICS), self.rng.choice((1, 2, 2))
        retain = self.rng.random() < 0.1
        due: dict[str, int] = {}
        for other in self.clients:
            for topic_filter, granted in other.subscribed.items():
                share, proper = split_share(topic_filter)
                if topic_filter not in other.unsure and matches(proper, topic):
                    name = topic_filter if share else other.name
                    due[name] = max(due.get(name, 0), min(qos, granted))
        payload = client.publish(topic, qos, retain=retain)
        self.published[payload] = Published(topic, qos, retain, due, set(due))
        if retain:
            self.retained[topic].append(payload)

    def change_subscription(self, client: Client) -> None:
        if client.group:
            if client.group not in client.subscribed:
                client.subscribe(client.group, 2)
            return
        topic_filter = self.rng.choice(("a/1", "a/#", "+/1", "b/1"))
        if topic_filter in client.subscribed:
            client.unsubscribe(topic_filter)
            # What it was due may or may not have come before.
            for message in self.published.values():
                message.stays.discard(client.name)
        else:
            client.subscribe(topic_filter, self.rng.choice((1, 2)))

    async def drain(self) -> None:
        """No more crashes: all come back, read everything, and finish what they began."""
        await self.crash()
        self.log._crash_in = 1 << 60
        for _ in range(400):
            busy = False
            for client in self.clients:
                if client.connection is None:
                    client.connect(self.core)
                    busy = True
                busy |= client.read()
            await asyncio.sleep(0)
            if self.sync:
                self.log.synced()
            await asyncio.sleep(0)
            if not busy and not any(c.wire and c.wire.data for c in self.clients):
                break

    def close(self) -> None:
        self.core.upkeep.stop()
        self._open.close()
        self._folder.cleanup()

    # -- what must hold

    def broken(self) -> list[str]:
        faults = [f"{c.name}: {fault}" for c in self.clients for fault in c.faults]
        faults += [f"{c.name}: {len(c.sent)} exchanges hang" for c in self.clients if c.sent]
        for client in self.clients:
            faults += self._of_client(client)
        faults += self._of_groups()
        faults += self._of_retained()
        return faults

    def _of_client(self, client: Client) -> Iterator[str]:
        live = [p for p in client.got if not p.retain]
        counts = Counter(publish.payload for publish in live)
        for payload, message in self.published.items():
            publisher = payload.split(b":")[0].decode()
            owner = next(c for c in self.clients if c.name == publisher)
            is_due = client.name in message.stays and payload in owner.acknowledged
            if is_due and not counts[payload]:
                yield f"{client.name} never got {payload!r} on {message.topic}"
        for payload, count in counts.items():
            qos = {publish.qos for publish in live if publish.payload == payload}
            if qos == {2} and count > 1:
                yield f"{client.name} got {payload!r} {count} times"
        latest: dict[tuple[bytes, str, int], int] = {}
        seen: set[bytes] = set()
        for publish in live:
            # Who subscribes late may get an old message when its publisher repeats it; so may
            # everybody if the broker had refused it and the publisher did not hear of that.
            due = self.published[publish.payload].due
            if self.disk_fills or publish.payload in seen or client.name not in due:
                continue
            seen.add(publish.payload)
            name, number = publish.payload.split(b":")
            key = (name, publish.topic, self.published[publish.payload].qos)
            if int(number) < latest.get(key, 0):
                yield f"{client.name} got {publish.payload!r} behind a later one"
            latest[key] = max(latest.get(key, 0), int(number))

    def _of_groups(self) -> Iterator[str]:
        got = Counter(
            publish.payload
            for client in self.clients
            if client.group
            for publish in {p.payload: p for p in client.got}.values()
        )
        done = {payload for client in self.clients for payload in client.acknowledged}
        for payload, message in self.published.items():
            if "$share/g/b/+" in message.due and payload in done and not got[payload]:
                yield f"the group never got {payload!r}"
            if message.qos == 2 and got[payload] > 1:
                yield f"{got[payload]} members of the group got {payload!r}"

    def _of_retained(self) -> Iterator[str]:
        done = {payload for client in self.clients for payload in client.acknowledged}
        for topic, payloads in self.retained.items():
            kept = self.core.retained.get(topic)
            if any(payload in done for payload in payloads) and kept is None:
                yield f"nothing is retained on {topic}"
