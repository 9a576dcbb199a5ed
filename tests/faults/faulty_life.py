"""One gateway's scripted life on a disk that fails: its log, its checkpoints and its clients.

Node, log, broker and SQLite file are the production's; sockets are not needed, and the clock jumps.
Clients do what the standard asks of them over reconnects and note what they were told, so that
`broken` says afterwards which promise does not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker_client import Client, Wire
from failing_calls import CLOCK, SOCKET, FailingCalls
from memory_log import MachineClocks
from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable import Durable
from gateway.broker.durability.lasting_clock import LastingClock
from gateway.broker.durability.opening import open_store
from gateway.broker.durability.store import Store, StoreError
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import NO_LONGER_LOGGED
from gateway.links.handshake import Credentials
from gateway.links.node import TreeNode
from gateway.links.settings import NodeReceiver, NodeSettings
from gateway.log.message_log import LogError, MessageLog
from gateway.mqtt import Connect, PropertyId, Version, Will
from gateway.state_folder.history import LogHistory
from gateway.state_folder.identity import next_boot_epoch
from tree_handler.spanning.spanning_tree import Identity, Parameters

NAME = "gw"
SEGMENT_BYTES = 16 << 10
LONG = "a/" + "x" * 700
"""A topic so long that what waits for an absent client soon stands in the log alone."""
WILL_TOPIC = "a/will"
RETAINED_TOPIC = "a/kept"
ROUNDS = 40
"""So often clients read and answer until all is quiet."""
HELLO_S = 30.0
"""There is no neighbour that would hear one."""
TRIES = 10
"""So often a gateway is started on a disk that refuses it before somebody mends the disk."""
MENDED_S = 35.0
"""After a fault has passed, every pause before another try is over in this time."""


class LosingWire(Wire):
    """A connection that may be lost with what is written to it.

    Args:
        calls: says which write.

    """

    def __init__(self, calls: FailingCalls) -> None:
        super().__init__()
        self._calls = calls

    def write(self, data: Any) -> None:
        """Take what the broker writes, or half of it or nothing, and be lost."""
        fault = self._calls.reached("socket write", SOCKET, is_write=True)
        if fault is None:
            super().write(data)
            return
        if fault.is_partial:
            super().write(bytes(data)[: len(data) // 2])
        self.close()


class LyingClocks(MachineClocks):
    """Clocks of which the wall's may be years off, and the kernel does not call it right then."""

    calls: FailingCalls
    shift_us = 0

    def wall_us(self) -> int:
        """Look at the wall clock."""
        fault = self.calls.reached("wall clock", CLOCK)
        self.shift_us = 0 if fault is None else fault.shift_us
        self.is_right = not self.shift_us
        return super().wall_us() + self.shift_us

    def wall_ahead_s(self) -> float:
        """Tell by how much the wall clock is ahead of the one since boot."""
        return super().wall_ahead_s() + self.shift_us / 1e6


class LastingClient(Client):
    """A client whose session lasts, and that leaves a will where it has one."""

    will: Will | None = None
    calls: FailingCalls

    def connect(self, core: DataPlane) -> None:
        """Open a connection and send CONNECT."""
        self.wire = LosingWire(self.calls)
        self.connection = Connection(core.service)
        self.connection.connection_made(self.wire)
        self.is_accepted = False
        properties = {}
        if self.version is Version.V5:
            properties[PropertyId.SESSION_EXPIRY_INTERVAL] = 3600
        self.send(
            Connect(
                self.version,
                self.name,
                clean_start=False,
                properties=properties,
                will=self.will,
            )
        )


@dataclass
class Life:
    """A gateway that is started, killed and started again in one folder.

    Args:
        folder: its state folder.
        calls: those of its disk.
        cuts_power: whether it ends by a power cut, which takes what was not forced to the disk.

    """

    folder: Path
    calls: FailingCalls
    cuts_power: bool
    is_up: bool = False
    lines: list[str] = field(default_factory=list)
    """What the gateway's starts were refused with."""

    def __post_init__(self) -> None:
        rng = random.Random(0)
        self.clocks = LyingClocks()
        self.clocks.calls = self.calls
        self.publisher = LastingClient("pub", Version.V5, rng)
        self.reader = LastingClient("near", Version.V311, rng)
        self.absent = LastingClient("away", Version.V5, rng)
        self.mortal = LastingClient("mortal", Version.V311, rng)
        self.mortal.will = Will(WILL_TOPIC, b"gone", 1, False, {})
        self.clients = (self.publisher, self.reader, self.absent, self.mortal)
        for client in self.clients:
            client.calls = self.calls
        self.absent_now: set[str] = set()
        self.qos: dict[bytes, int] = {}
        self.due: dict[bytes, set[str]] = {}
        self.kept: list[bytes] = []
        """What was retained on one topic, in order."""
        self.will_was_due: set[str] = set()
        self.told_lost = 0

    # -- the gateway -----------------------------------------------------------------------------

    def start(self) -> bool:
        """Start the gateway; return whether it did, for a disk may refuse that in one line."""
        self.log = MessageLog(self.folder / "log", segment_bytes=SEGMENT_BYTES, max_bytes=1 << 20)
        try:
            epoch = next_boot_epoch(self.folder)
            self.log.open()
            store, saved = open_store(self.folder / "broker.sqlite3")
        except (OSError, ValueError) as error:
            assert isinstance(error, LogError | StoreError | OSError), repr(error)
            self.log.close()
            self.lines.append(str(error))
            return False
        loop = asyncio.get_running_loop()
        own = (NAME, epoch)
        settings = NodeSettings(
            Credentials(NAME, "tree", bytes(32), epoch=epoch),
            Identity(NAME, epoch, 1.0, "127.0.0.1"),
            Parameters(hello_s=HELLO_S),
            sync=True,
        )
        self.node = TreeNode(settings, self.log, NodeReceiver(lambda entry, header: None))
        history = LogHistory(self.node, own)
        durable = Durable(history, LastingClock(self.clocks, epoch), loop.time)
        self.core = DataPlane(hooks(commit=self.node.publish_all), None, durable)
        self.store: Store = store
        try:
            self.core.recover(durable, history, store, saved)
        except OSError as error:
            self.lines.append(str(error))
            self._abandon()
            return False
        self.core.start()
        self.is_up = True
        return True

    def kill(self) -> None:
        """End the process without a word to anybody."""
        if self.is_up:
            self.told_lost += self.core.refusals.counts[NO_LONGER_LOGGED]
            self.is_up = False
            self._abandon()
        if self.cuts_power:
            self.calls.cut_power()
            self.clocks.power_cut(10.0, is_right=self.clocks.is_right)

    async def end(self) -> None:
        """Leave nothing of it behind in this process."""
        self.kill()
        await asyncio.sleep(0)

    def _abandon(self) -> None:
        """Let go of what a dead process would hold no more; nothing is written for it."""
        self.core.tasks.stop()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        for client in self.clients:
            client.connection = client.wire = None
            client.is_accepted = False
            client.asked.clear()
        self.core._turns._end = lambda: False
        self.core._sweeping.stop()
        self.node._schedule.stop()
        with contextlib.suppress(Exception):
            self.store.close()
        self.log._let_go()

    async def start_until_up(self) -> None:
        """Start it as systemd does, again and again; in the end somebody sees to the disk."""
        for attempt in range(2 * TRIES):
            if self.start():
                return
            await asyncio.sleep(1)
            if attempt == TRIES:
                self.calls.mend()
        raise AssertionError(f"it does not start any more: {self.lines[-1]}")

    # -- its clients -----------------------------------------------------------------------------

    async def settle(self, rounds: int = ROUNDS) -> None:
        """Have all clients read, answer and come back until nothing is left to do."""
        quiet = 0
        for _ in range(rounds):
            is_busy = False
            for client in self.clients:
                if client.name in self.absent_now or not self.is_up:
                    continue
                if client.wire is not None and client.wire.is_cut and not client.wire.data:
                    client.cut()
                if client.connection is None:
                    client.connect(self.core)
                    is_busy = True
                is_busy |= client.read()
                for topic_filter, qos in (("a/#", 2), ("a/+", 1)):
                    self._subscribe(client, topic_filter, qos)
            await asyncio.sleep(0.05)
            quiet = 0 if is_busy else quiet + 1
            if quiet == 2:
                return

    def _subscribe(self, client: LastingClient, topic_filter: str, qos: int) -> None:
        wants = {"near": "a/#", "away": "a/+"}.get(client.name)
        if wants != topic_filter or not client.is_accepted:
            return
        if topic_filter not in client.subscribed and not client.asked:
            client.subscribe(topic_filter, qos)

    def publish(self, topic: str, qos: int, *, retain: bool = False) -> None:
        """Publish from one client, and note who is certain to be due it."""
        if not self.publisher.is_accepted or len(self.publisher.sent) > 20:
            return
        due = {c.name for c in (self.reader, self.absent) if c.subscribed}
        payload = self.publisher.publish(topic, qos, retain=retain)
        self.qos[payload], self.due[payload] = qos, due
        if retain:
            self.kept.append(payload)

    # -- the script ------------------------------------------------------------------------------

    def script(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Yield the steps of a life, in their order."""
        yield self.start_until_up
        yield self.settle
        yield self._publish_some
        yield self._go_away
        for _ in range(3):
            yield self._publish_many
        yield self._checkpoint
        yield self._publish_many
        yield self._die
        yield self._come_back
        yield self._restart
        yield self._publish_some
        yield self._checkpoint
        yield self._go_away
        yield self._publish_many
        yield self._restart
        yield self._come_back

    async def _publish_some(self) -> None:
        for qos in (0, 1, 2):
            self.publish("a/1", qos)
        self.publish(RETAINED_TOPIC, 1, retain=True)
        await self.settle()

    async def _publish_many(self) -> None:
        for at in range(12):
            self.publish(LONG, 1 + at % 2)
            if at % 4 == 3:
                await self.settle()

    async def _go_away(self) -> None:
        self.absent_now.add("away")
        self.absent.cut()

    async def _come_back(self) -> None:
        self.absent_now.clear()
        await self.settle()

    async def _die(self) -> None:
        if self.mortal.is_accepted and self.mortal.name not in self.absent_now:
            self.will_was_due = {c.name for c in (self.reader, self.absent) if c.subscribed}
        self.absent_now.add("mortal")
        self.mortal.cut()
        await self.settle()

    async def _checkpoint(self) -> None:
        kept = self.core.checkpoints
        if kept is not None and self.is_up:
            with contextlib.suppress(OSError):
                await kept.checkpoint()
        await asyncio.sleep(1)

    async def _restart(self) -> None:
        self.kill()
        await self.start_until_up()
        await self.settle()

    async def run(self) -> None:
        """Live the whole script, then see on a disk that works again what is left."""
        for step in self.script():
            await step()
        self.calls.mend()
        await self.serves_again()
        self.kill()
        await self.start_until_up()
        self.absent_now = {"mortal"}
        for _ in range(2):
            await self.settle(400)
            await asyncio.sleep(MENDED_S)

    async def serves_again(self) -> None:
        """A disk that works again is used again, without a restart."""
        if not self.is_up:
            await self.start_until_up()
        self.absent_now = {"mortal"}
        await asyncio.sleep(MENDED_S)
        await self.settle(400)
        await asyncio.sleep(MENDED_S)
        self.publish("a/1", 1)
        last = f"{self.publisher.name}:{self.publisher.number}".encode()
        await self.settle(400)
        assert last in self.publisher.acknowledged, (last, self.publisher, self.is_up)
        assert self.core.checkpoints is not None
        await self.core.checkpoints.checkpoint()

    # -- what must hold --------------------------------------------------------------------------

    def broken(self) -> Iterator[str]:
        """Yield each promise that does not hold."""
        for client in self.clients:
            yield from (f"{client.name}: {fault}" for fault in client.faults)
        lost = list(self._lost())
        if self.told_lost:
            yield f"{self.told_lost} messages are said to be trimmed, and none was"
        yield from lost
        for client in (self.reader, self.absent):
            live = [p.payload for p in client.got if not p.retain]
            for payload, count in Counter(live).items():
                if self.qos.get(payload) == 2 and client is self.reader and count > 1:
                    yield f"{client.name} got {payload!r} {count} times"
            if client.unreleased:
                yield f"{client.name}: exchanges hang"
        if self.publisher.sent:
            yield f"the publisher waits for {len(self.publisher.sent)} answers"
        yield from self._retained()

    def _lost(self) -> Iterator[str]:
        for client in (self.reader, self.absent):
            got = {p.payload for p in client.got if not p.retain}
            for payload in self.publisher.acknowledged:
                if client.name in self.due[payload] and payload not in got:
                    yield f"{client.name} never got {payload!r}"
            if client.name in self.will_was_due and b"gone" not in got:
                yield f"{client.name} never got the will"

    def _retained(self) -> Iterator[str]:
        acknowledged = [p for p in self.kept if p in self.publisher.acknowledged]
        if not acknowledged:
            return
        kept = self.core.retention.get(RETAINED_TOPIC)
        if kept is None:
            yield "nothing is retained"
        elif self.kept.index(kept.payload) < self.kept.index(acknowledged[-1]):
            yield f"{kept.payload!r} is retained and {acknowledged[-1]!r} was acknowledged"
