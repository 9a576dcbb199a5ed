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
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from broker_client import Client, Wire
from memory_log import CrashError, Disk, MachineClocks, MemoryLog
from surroundings import hooks

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.offline_spill import SpillCandidates
from gateway.broker.durability.saved import Checkpoint
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.hooks import Client as Known
from gateway.broker.hooks import DeliveryVerdict, Events
from gateway.broker.limits import NO_LONGER_LOGGED, Limits
from gateway.broker.sessions import backlog
from gateway.broker.sessions.backlog import HEAD_BYTES
from gateway.mqtt import Version
from tree_handler.batch import Entry, Epoch
from tree_handler.intervals import Intervals
from tree_handler.routing.topic_filters import matches, split_share
from tree_handler.sharing.rule import EachGateway, SharedGroups

__all__ = ["Client", "CrashError", "Wire", "World"]

TOPICS = ("a/1", "a/2", "b/1")
GROUP = "$share/g/b/+"
MOST_TURNS = 8
"""So many turns of the loop a job of a thread takes at most."""


class Threads(ThreadPoolExecutor):
    """Carries out what is given to a thread within the loop, so many of its turns later.

    How far the broker comes meanwhile is then the same each time, on whatever machine.

    Args:
        turns: says how many, for each job.

    """

    def __init__(self, turns: Callable[[], int]) -> None:
        super().__init__(1)
        self._turns = turns
        self._loop = asyncio.get_running_loop()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._carry_out(future, partial(fn, *args, **kwargs), self._turns())
        return future

    def _carry_out(self, future: Future[Any], job: Callable[[], Any], turns: int) -> None:
        if turns:
            self._loop.call_soon(self._carry_out, future, job, turns - 1)
        elif future.set_running_or_notify_cancel():
            try:
                future.set_result(job())
            except Exception as error:  # its waiter's, as that of a thread is
                future.set_exception(error)


class FailingStore(Store):
    """Checkpoints that fail, or take long, when they are told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_failing = False
        self.raises: Exception | None = None
        self.read = 0
        """Messages that were put by before."""
        self.may_save = threading.Event()
        self.may_save.set()

    def save(self, checkpoint: Checkpoint, needed: SpillCandidates | None = None) -> None:
        self.may_save.wait()
        if self.is_failing:
            raise StoreError("disk I/O error")
        if self.raises is not None:
            raise self.raises
        super().save(checkpoint, needed)

    def spared_numbers(self, key: Epoch) -> Intervals:
        if self.is_failing:
            raise StoreError("disk I/O error")
        return super().spared_numbers(key)

    def spared(self, key: Epoch, first: int, last: int) -> Iterator[tuple[int, Entry]]:
        for one in super().spared(key, first, last):
            self.read += 1
            yield one


@dataclass
class Published:
    """A message, and who was certain to be subscribed to its topic when it was published."""

    topic: str
    qos: int
    retain: bool
    at: int
    """The moment, by the count of what happened."""
    due: dict[str, int]
    """Clients by name, with their QoS; shared subscriptions by ``$share/...``."""
    stays: set[str]
    """Of them, those who have not unsubscribed since."""
    acknowledged_at: int | None = None


class World:
    """One seeded run.

    Args:
        seed: of everything that is drawn; if it is odd, the disk is full at times.
        sync: whether the log loses at a crash what was not synced.
        head_bytes: what a session keeps in memory of the messages that wait for it.
        kept_bytes: of the log; older frames are deleted as soon as the broker allows it. None: all.
        spared_bytes: what is put by for each user before the log lets it go.

    """

    is_damaged = False
    """True if a disk lost what it said that it had."""
    takes_checkpoints = False
    """True if a test that asks for a crash wants a checkpoint right before it."""

    def __init__(
        self,
        seed: int,
        *,
        sync: bool,
        head_bytes: int = HEAD_BYTES,
        kept_bytes: int | None = None,
        spared_bytes: int = Limits().spared_bytes_per_user,
    ) -> None:
        backlog.HEAD_BYTES = head_bytes
        self.kept_bytes = kept_bytes
        self.limits = Limits(spared_bytes_per_user=spared_bytes)
        self.spared = 0
        """Messages that were read from what was put by."""
        self.told_trimmed = 0
        """Messages of which the broker said that the log no longer had them."""
        self._untold: list[str] = []
        self.happened = 0
        self.rng = random.Random(seed)
        self._turns = random.Random(seed)
        self.sync = sync
        self.disk_fills = seed % 2 == 1
        self.disk = Disk()
        self.clocks = MachineClocks()
        self.ahead_s = 0.0
        """The seconds by which the broker's clock is ahead of the loop's: a test need not wait."""
        self.epoch = 0
        self.crashes = 0
        self.may_publish: Callable[[Known, str], DeliveryVerdict] | None = None
        self.may_deliver: Callable[[Known, str], DeliveryVerdict] | None = None
        self.plugin: Events | None = None
        self.groups: SharedGroups = EachGateway()
        self.published: dict[bytes, Published] = {}
        self.retained: dict[str, list[bytes]] = defaultdict(list)
        self.clients = [
            Client(f"c{i}", Version.V5 if i % 2 else Version.V311, self.rng) for i in range(5)
        ]
        for client in self.clients[3:]:
            client.group = GROUP
        self.clients[1].receive_maximum = 3
        for client in self.clients:
            client.on_acknowledged = self._acknowledged
        # In memory where that is to be had: what a disk does is not what is drawn here.
        memory = Path("/dev/shm")
        self._folder = tempfile.TemporaryDirectory(
            prefix="broker-world-", dir=memory if os.access(memory, os.W_OK) else None
        )
        self.store = Path(self._folder.name) / "broker.sqlite3"
        self.core: DataPlane
        self.durable: DurablePersistence
        self.log: MemoryLog
        self.failing_store: FailingStore

    # -- lives

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        if self.epoch == 0:
            loop.set_default_executor(Threads(lambda: self._turns.randrange(MOST_TURNS)))
        self.epoch += 1
        crash_in = max(2, self.rng.randrange(1, 120))  # with the first append a life begins
        self.log = self.make_log(crash_in)

        def now() -> float:
            return loop.time() + self.ahead_s

        self.durable = DurablePersistence(self.log, LastingClock(self.clocks, self.epoch), now)
        around = hooks(
            commit=self.log.commit,
            may_publish=self.may_publish,
            may_deliver=self.may_deliver,
            events=self.plugin,
            groups=self.groups,
        )
        self.core = DataPlane(around, self.limits, self.durable, now=now)
        self.failing_store = FailingStore(self.store)
        found = self.core.recover(
            self.durable, self.log, self.failing_store, self.failing_store.load()
        )
        assert not found.odd or self.is_damaged, f"{found.odd} records did not fit"

    def make_log(self, crash_in: int) -> MemoryLog:
        """The log of a life that ends with so many appends more."""
        return MemoryLog(self.disk, self.epoch, crash_in, self.clocks, sync=self.sync)

    def _acknowledged(self, payload: bytes) -> None:
        self.happened += 1
        self.published[payload].acknowledged_at = self.happened

    def _add_up_trimmed(self) -> None:
        told = self.core.refusals.counts[NO_LONGER_LOGGED]
        self.told_trimmed += told + self.core.budget.trimmed
        self.spared += self.failing_store.read

    async def crash(self) -> None:
        self.crashes += 1
        self._add_up_trimmed()
        self.log.is_dead = True
        for client in self.clients:
            if self.rng.random() < 0.5:  # what was on its way may still arrive, or not
                client.read(self.rng.randrange(20))
            client.cut()
        await self.settled()
        self.core._turns._end = lambda: False  # a process that is gone tries nothing again
        self.disk = self.log.survives()
        self.failing_store.close()
        self.start()

    async def checkpoint(self) -> None:
        """A checkpoint that is made, or that a crash cuts off before or after its commit."""
        kept = self.core.checkpoints
        assert kept is not None
        with suppress(CrashError, OSError):
            await kept.checkpoint()
        self.failing_store.is_failing = False
        if self.kept_bytes is not None:
            self.log.trim(self.kept_bytes)
            with suppress(CrashError, OSError):
                await kept.losses.look()
                self._untold += self._lost_and_untold()

    def _lost_and_untold(self) -> Iterator[str]:
        """Find what still counts as waiting, though it is nowhere any more."""
        kept_from = self.log.kept_from()
        for session in self.core.sessions.values():
            for places in session.outgoing.backlog.places_before(kept_from):
                for run in places.runs():
                    key = run.way[0]
                    last = min(run.last, kept_from.get(key, 0) - 1)
                    if run.first > last:
                        continue
                    for gap in self.failing_store.spared_numbers(key).missing(run.first, last):
                        yield f"{session}: {key} {gap} is gone and counts as waiting"

    @staticmethod
    def _failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), CrashError):
            loop.default_exception_handler(context)

    async def settled(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    # -- what happens

    async def step(self) -> None:
        rng = self.rng
        client = rng.choice(self.clients)
        draw = rng.random()
        if client.connection is None:
            if client.stays_away:
                client.stays_away -= 1
            else:
                client.connect(self.core)
        elif not client.is_accepted or draw < 0.3:
            client.read(rng.randrange(1, 6))
            if client.keeps_back and rng.random() < 0.2:
                client.answer_all()
        elif draw < 0.75:
            for _ in range(rng.randrange(1, 4)):
                self.publish(client)
        elif draw < 0.80:
            self.change_subscription(client)
        elif draw < 0.84:
            client.cut()
            client.stays_away = rng.choice((0, 0, 3, 30))
        elif draw < 0.86:
            self.failing_store.is_failing = rng.random() < 0.4
            await self.checkpoint()
        elif draw < 0.87 and self.disk_fills:
            self.log.is_full = not self.log.is_full
        elif draw < 0.90:
            client.keeps_back = True
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
        self.happened += 1
        made = Published(topic, qos, retain, self.happened, due, set(due))
        made.acknowledged_at = self.published.get(payload, made).acknowledged_at
        self.published[payload] = made
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
        self.log.crash_in = 1 << 60
        for client in self.clients:
            client.answer_all()
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
        self._add_up_trimmed()
        backlog.HEAD_BYTES = HEAD_BYTES
        self.failing_store.close()
        self._folder.cleanup()

    # -- what must hold

    def broken(self) -> list[str]:
        faults = [f"{c.name}: {fault}" for c in self.clients for fault in c.faults]
        faults += self._untold
        missed: list[str] = []
        for client in self.clients:
            faults += self._still_open(client)
            missed += self._missed(client)
            missed += self._disordered(client)  # dropped, and published again later
            faults += self._of_client(client)
        missed += self._missed_by_groups()
        if len(missed) > self.told_trimmed:  # of no other drop it is told
            faults += missed
        keeps_all = self.kept_bytes is None or self.limits.spared_bytes_per_user
        if keeps_all and self.told_trimmed:
            faults.append(f"{self.told_trimmed} messages are said to be trimmed")
        faults += self._of_groups()
        faults += self._of_retained()
        return faults

    def _still_open(self, client: Client) -> Iterator[str]:
        if client.sent or client.unreleased:
            yield f"{client.name}: {len(client.sent) + len(client.unreleased)} exchanges hang"
        session = self.core.sessions.get(client.name)
        if session is not None:
            outgoing = session.outgoing
            hanging = len(outgoing.inflight) + outgoing.backlog.count + len(session.incoming)
            if hanging:
                yield f"{client.name}: {hanging} exchanges hang at the broker"

    def _missed(self, client: Client) -> Iterator[str]:
        got = {publish.payload for publish in client.got if not publish.retain}
        for payload, message in self.published.items():
            is_due = client.name in message.stays and message.acknowledged_at is not None
            if is_due and payload not in got:
                yield f"{client.name} never got {payload!r} on {message.topic}"

    def _of_client(self, client: Client) -> Iterator[str]:
        live = [p for p in client.got if not p.retain]
        counts = Counter(publish.payload for publish in live)
        for payload, count in counts.items():
            qos = {publish.qos for publish in live if publish.payload == payload}
            if qos == {2} and count > 1:
                yield f"{client.name} got {payload!r} {count} times"

    def _disordered(self, client: Client) -> Iterator[str]:
        live = [p for p in client.got if not p.retain]
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

    def _got_by_groups(self) -> Counter[bytes]:
        return Counter(
            publish.payload
            for client in self.clients
            if client.group
            for publish in {p.payload: p for p in client.got}.values()
        )

    def _missed_by_groups(self) -> Iterator[str]:
        got = self._got_by_groups()
        for payload, message in self.published.items():
            is_due = GROUP in message.due and message.acknowledged_at is not None
            if is_due and not got[payload]:
                yield f"the group never got {payload!r}"

    def _of_groups(self) -> Iterator[str]:
        for payload, count in self._got_by_groups().items():
            if self.published[payload].qos == 2 and count > 1:
                yield f"{count} members of the group got {payload!r}"

    def _of_retained(self) -> Iterator[str]:
        for topic, payloads in self.retained.items():
            kept = self.core.retention.get(topic)
            known = [self.published[payload] for payload in payloads]
            acknowledged = [one for one in known if one.acknowledged_at is not None]
            if kept is None:
                if acknowledged:
                    yield f"nothing is retained on {topic}"
                continue
            told_at = self.published[kept.payload].acknowledged_at
            if told_at is not None and any(one.at > told_at for one in acknowledged):
                yield f"{kept.payload!r} is retained on {topic} though a later one was acknowledged"
