"""One broker, its log in memory and clients that keep their state, in one seeded run with crashes.

The broker is the production core. Its log loses, at a crash, what was not synced (durability
sync) or nothing (write); the crash comes before or after any append, also between two of one
turn. Clients do what the standard asks of them across reconnects, and note what they were told
and what they got, so that `broken` can say afterwards which promise does not hold.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.broker.durability.store import Store
from gateway.broker.hooks import Client as Known
from gateway.broker.hooks import Committed, Hooks, Verdict
from gateway.broker.inbound.connection import Connection
from gateway.broker.server import BrokerCore
from gateway.broker.topics import matches, split_share
from gateway.log.message_log import Done, LogError
from gateway.mqtt import (
    ConnAck,
    Connect,
    Packet,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    SubscriptionRequest,
    UnsubAck,
    Unsubscribe,
    Version,
    decode,
    encode,
    packet_end,
)
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header, Row
from tree_handler.intervals import Intervals
from tree_handler.replication.epoch_order import note
from tree_handler.retained.hybrid_clock import EARLIEST_US

NAME = "gw"
TOPICS = ("a/1", "a/2", "b/1")


class CrashError(Exception):
    """The process is killed here."""


@dataclass
class MachineClocks:
    """The clocks of a machine, which go on when they are told to: a `Clocks`."""

    boot: int = 1
    wall: int = EARLIEST_US + 10**12
    since_boot: int = 0
    is_right: bool = True
    passed_s: float = 0.0
    """While the machine was up, over all its boots."""

    def boot_us(self) -> int:
        return self.since_boot

    def wall_us(self) -> int:
        return self.wall

    def wall_ahead_s(self) -> float:
        return (self.wall - self.since_boot) / 1e6

    def is_synchronised(self) -> bool:
        return self.is_right

    def pass_s(self, passed_s: float) -> None:
        """Time passes while the machine is up."""
        self.passed_s += passed_s
        self.since_boot += int(passed_s * 1e6)
        self.wall += int(passed_s * 1e6)

    def power_cut(self, off_s: float, *, is_right: bool = True) -> None:
        """The machine is off for a while; afterwards its wall clock is right, or stood still."""
        self.boot += 1
        self.since_boot = 0
        self.is_right = is_right
        if is_right:
            self.wall += int(off_s * 1e6)


class MemoryLog:
    """The log of one life of the broker, over what the lives before left."""

    def __init__(
        self, frames: list[bytes], epoch: int, crash_in: int, clocks: MachineClocks, *, sync: bool
    ) -> None:
        self._clocks = clocks
        self.own: Epoch = (NAME, epoch)
        self.frames = frames
        self.is_dead = False
        self.is_full = False
        self._synced = len(frames)
        self._sync = sync
        self._crash_in = crash_in
        self._next = 1
        self._waiting: list[Done] = []

    # -- durable.History

    @property
    def position(self) -> int:
        return sum(map(len, self.frames))

    def remember(self, frame: bytes, done: Done) -> None:
        self._append([("", 0, frame)], Flags.LOCAL)
        self._settle(done)

    def read_from(self, position: int) -> Iterator[tuple[bytes, Header]]:
        at = 0
        for frame in list(self.frames):
            if at >= position:
                yield frame, batch.check(frame)
            at += len(frame)

    def read(self, key: Epoch, first: int, last: int) -> Iterator[tuple[bytes, Header]]:
        found = [(frame, batch.check(frame)) for frame in self.frames]
        for frame, header in sorted(found, key=lambda one: one[1].first):
            is_meant = header.logged and header.stream == key
            if is_meant and header.first <= last and header.last >= first:
                yield frame, header

    def due(self) -> dict[Epoch, int]:
        found: dict[Epoch, Intervals] = {}
        for frame in self.frames:
            header = batch.check(frame)
            if header.logged:
                found.setdefault(header.stream, Intervals()).add(header.first, header.last)
        return {key: numbers.contiguous_from(1) for key, numbers in reversed(found.items())}

    def start_sync(self) -> Callable[[], None]:
        length = len(self.frames)

        def finish() -> None:
            self._synced = max(self._synced, length)

        return finish

    def may_trim(self, before: int) -> None:
        pass

    # -- hooks.Commit

    def commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        first = self._next if logged else 0
        try:
            if logged:
                self._append(logged, Flags.LOGGED)
        except LogError as error:
            assert done is not None
            done(0, error)
            return
        if done is not None:
            self._settle(lambda error: done(first, error))

    def receive(self, stream: Epoch, first: int, row: Row) -> None:
        """Another gateway's message comes; that one's clock stands at 1970."""
        frame, _ = batch.make(*stream, first, [row], flags=Flags.LOGGED, origin_time_us=0)
        self.frames.append(frame)

    def open(self, stream: Epoch) -> None:
        """From now on messages of another gateway's epoch are given out."""
        self.frames.append(note(*stream)[0])

    # -- disk

    def synced(self) -> None:
        """All that was appended is on the disk."""
        self._synced = len(self.frames)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)

    def survives(self) -> list[bytes]:
        """What the next life finds."""
        return self.frames[: self._synced] if self._sync else list(self.frames)

    def _append(self, rows: Sequence[Row], flags: int) -> None:
        if self.is_dead:
            raise CrashError
        if self.is_full:
            raise LogError("no space left")
        self._crash_in -= 1
        made_us = self._clocks.wall_us()
        frame, _ = batch.make(*self.own, self._next, rows, flags=flags, origin_time_us=made_us)
        if self._crash_in != 0:
            self.frames.append(frame)
            if flags & Flags.LOGGED:
                self._next += len(rows)
        if self._crash_in in (0, -1):  # before it is written, or right after
            self.is_dead = True
            raise CrashError

    def _settle(self, done: Done) -> None:
        if self._sync:
            self._waiting.append(done)
        else:
            done(None)


class Wire(asyncio.Transport):
    """What the broker writes, until the client reads it or the broker dies."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.is_cut = False

    def write(self, data: Any) -> None:
        if not self.is_cut:
            self.data += data

    def close(self) -> None:
        self.is_cut = True

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


@dataclass(slots=True)
class Sent:
    """A message of a client that is on its way to the broker."""

    publish: Publish
    is_released: bool = False


@dataclass(eq=False)
class Client:
    """A client that keeps its state across reconnects (MQTT, section 4.1)."""

    name: str
    version: Version
    rng: random.Random
    group: str = ""
    lasts: bool = True
    """Whether its session outlives its connections."""
    wire: Wire | None = None
    connection: Connection | None = None
    is_accepted: bool = False
    was_accepted: bool = False
    sent: dict[int, Sent] = field(default_factory=dict)
    unreleased: set[int] = field(default_factory=set)
    subscribed: dict[str, int] = field(default_factory=dict)
    """Filters of which it is certain, with the QoS."""
    unsure: set[str] = field(default_factory=set)
    asked: dict[int, Packet] = field(default_factory=dict)
    got: list[Publish] = field(default_factory=list)
    acknowledged: list[bytes] = field(default_factory=list)
    refused: set[bytes] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    number: int = 0

    # -- to the broker

    def connect(self, core: BrokerCore) -> None:
        self.wire = Wire()
        self.connection = Connection(core)
        self.connection.connection_made(self.wire)
        properties = {}
        if self.version is Version.V5 and self.lasts:
            properties = {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}
        self.is_accepted = False
        self.send(Connect(self.version, self.name, clean_start=False, properties=properties))

    def cut(self) -> None:
        """The connection is gone, and what it had not read."""
        if self.connection is not None:
            connection, self.connection, self.wire = self.connection, None, None
            self.is_accepted = False
            for packet in self.asked.values():
                if isinstance(packet, Subscribe):
                    self.unsure |= {request.filter for request in packet.requests}
                elif isinstance(packet, Unsubscribe):
                    self.unsure |= set(packet.filters)
            self.asked.clear()
            with suppress(CrashError):
                connection.connection_lost(None)

    def send(self, *packets: Packet) -> None:
        if self.connection is not None:
            data = b"".join(encode(packet, self.version) for packet in packets)
            with suppress(CrashError):
                self.connection.data_received(data)

    def free_id(self) -> int:
        return next(i for i in range(1, 100) if i not in self.sent and i not in self.asked)

    def publish(self, topic: str, qos: int, *, retain: bool = False) -> bytes:
        self.number += 1
        payload = f"{self.name}:{self.number}".encode()
        publish = Publish(topic, payload, qos, retain, packet_id=self.free_id() if qos else None)
        if publish.packet_id is not None:
            self.sent[publish.packet_id] = Sent(publish)
        self.send(publish)
        return payload

    def subscribe(self, topic_filter: str, qos: int) -> None:
        packet = Subscribe(self.free_id(), [SubscriptionRequest(topic_filter, qos)], {})
        self.asked[packet.packet_id] = packet
        self.send(packet)

    def unsubscribe(self, topic_filter: str) -> None:
        self.subscribed.pop(topic_filter, None)
        packet = Unsubscribe(self.free_id(), [topic_filter], {})
        self.asked[packet.packet_id] = packet
        self.send(packet)

    # -- from the broker

    def read(self, packets_max: int = 1 << 30) -> bool:
        """Handle some of what the broker wrote; whether there was anything."""
        if self.wire is None:
            return False
        did = False
        for _ in range(packets_max):
            if self.wire is None:
                break
            data = self.wire.data
            found = packet_end(bytes(data), 0, 1 << 24)
            if found is None:
                if self.wire.is_cut:
                    self.cut()
                break
            packet = decode(data[0], bytes(data[found[0] : found[1]]), self.version)
            del data[: found[1]]
            did = True
            self.handle(packet)
        return did

    def handle(self, packet: Packet) -> None:
        match packet:
            case ConnAck() if packet.reason:
                self.cut()  # it comes again
            case ConnAck():
                if self.lasts and self.was_accepted and not packet.session_present:
                    self.faults.append("its session is gone")
                self.is_accepted = self.was_accepted = True
                for sent in self.sent.values():
                    if sent.is_released:
                        self.send(PubRel(sent.publish.packet_id or 0))
                    else:
                        sent.publish.dup = True
                        self.send(sent.publish)
            case Publish():
                if packet.qos == 2:
                    if packet.packet_id not in self.unreleased:
                        self.unreleased.add(packet.packet_id or 0)
                        self.got.append(packet)
                    self.send(PubRec(packet.packet_id or 0))
                else:
                    self.got.append(packet)
                    if packet.qos == 1:
                        self.send(PubAck(packet.packet_id or 0))
            case PubRel():
                self.unreleased.discard(packet.packet_id)
                self.send(PubComp(packet.packet_id))
            case PubAck() | PubRec():
                sent = self.sent.get(packet.packet_id)
                if sent is None:
                    return
                if packet.reason >= 0x80:
                    self.refused.add(sent.publish.payload)
                    del self.sent[packet.packet_id]
                    return
                self.acknowledged.append(sent.publish.payload)
                if isinstance(packet, PubRec):
                    sent.is_released = True
                    self.send(PubRel(packet.packet_id))
                else:
                    del self.sent[packet.packet_id]
            case PubComp():
                self.sent.pop(packet.packet_id, None)
            case SubAck():
                asked = self.asked.pop(packet.packet_id)
                assert isinstance(asked, Subscribe)
                for request, reason in zip(asked.requests, packet.reasons, strict=True):
                    if reason < 0x80:
                        self.subscribed[request.filter] = reason
            case UnsubAck():
                self.asked.pop(packet.packet_id)
            case _:
                pass


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
        self.frames: list[bytes] = []
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
        self._open: Store

    # -- lives

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._failed)
        self.epoch += 1
        crash_in = self.rng.randrange(1, 120)
        self.log = MemoryLog(self.frames, self.epoch, crash_in, self.clocks, sync=self.sync)
        self.core = BrokerCore(
            Hooks(
                authenticate=lambda client, password: True,
                commit=self.log.commit,
                carries_unlogged=lambda: False,
                links=lambda transport, first: asyncio.sleep(0),
                may_publish=self.may_publish,
            )
        )
        self._open = Store(self.store)
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
        self.frames = self.log.survives()
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
