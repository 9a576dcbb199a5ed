"""A gateway in one folder, started, killed and started again, on calls that fail.

Node, links, log, broker and SQLite file are the production's; the clock jumps.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

from failing_calls import CLOCK, FailingCalls
from failing_sockets import HOST, PORTS_FROM, Network
from failing_tls import failing
from memory_log import MachineClocks
from surroundings import hooks
from threads_in_turn import ThreadsInTurn
from virtual_loop import VirtualLoop

from gateway.base.lasting_clock import LastingClock
from gateway.broker.data_plane import DataPlane
from gateway.broker.durability.durable_persistence import DurablePersistence
from gateway.broker.durability.opening import open_store
from gateway.broker.durability.store import StoreError
from gateway.broker.limits import NO_LONGER_LOGGED
from gateway.broker.listeners.listener import Listener, Listeners
from gateway.broker.listeners.websocket_rules import WebSocketRules
from gateway.log.message_log import LogError, MessageLog
from gateway.node.links.handshake import Credentials
from gateway.node.links.neighbours import Neighbours
from gateway.node.links.node import TreeNode
from gateway.node.links.retained_part import RetainedPart
from gateway.node.links.settings import NodeReceiver, NodeSettings
from gateway.node.links.tcp import TcpAddress, TcpLinks
from gateway.process.state_folder.history import LogHistory
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.trust.tls.context import TlsFiles
from tree_handler.batch import Header, Row
from tree_handler.spanning.spanning_tree import Identity, Parameters

SEGMENT_BYTES = 16 << 10
HELLO_S = 5.0
REPAIR_S = 2.0
KEY = bytes(32)
TRIES = 10
"""So often a gateway is started on a disk that refuses it before somebody mends the disk."""


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


class World:
    """The surroundings that all gateways of a life share.

    Attributes:
        calls: those that may fail.
        loop: where they run.
        threads: in which their calls may take long.
        network: over which they are reached.
        cuts_power: whether their lives end by power cuts, which take what was not forced to the
            disk.
        certificates: of gateways that listen with TLS and for websockets too; None for others.

    """

    certificates: TlsFiles | None = None

    def __init__(
        self, calls: FailingCalls, loop: VirtualLoop, threads: ThreadsInTurn, *, cuts_power: bool
    ) -> None:
        self.calls = calls
        self.loop = loop
        self.threads = threads
        self.network = Network(calls, loop)
        self.cuts_power = cuts_power
        calls.wait, calls.look = threads.wait, threads.look


class FaultyGateway:
    """One gateway, over all its lives.

    Args:
        name: its id.
        folder: its state folder.
        world: around it.
        port: where it listens.
        neighbour: the port of the gateway that it dials; None for none.

    Attributes:
        is_up: it runs.
        lines: what its starts were refused with.
        told_lost: how many messages it said that its clients will not get.
        failed_syncs: how often its disk failed after the log was written.

    """

    def __init__(
        self, name: str, folder: Path, world: World, port: int, neighbour: int | None = None
    ) -> None:
        self.name = name
        self.port = port
        self.is_up = False
        self.lines: list[str] = []
        self.told_lost = self.failed_syncs = 0
        self._folder = folder
        self._world = world
        self._neighbour = neighbour
        self.clocks = LyingClocks()
        self.clocks.calls = world.calls
        self._process: object = None

    async def start_until_up(self) -> None:
        """Start it as systemd does, again and again; in the end somebody sees to the disk."""
        for attempt in range(2 * TRIES):
            if await self.start():
                return
            await asyncio.sleep(1)
            if attempt == TRIES:
                self._world.calls.mend()
        raise AssertionError(f"{self.name} does not start any more: {self.lines[-1]}")

    async def start(self) -> bool:
        """Start it; return whether it did, for a disk may refuse that in one line."""
        self._process = object()
        self.is_up = await self._world.loop.run_in(self._process, self._start())
        if not self.is_up:
            self._abandon()
        return self.is_up

    async def _start(self) -> bool:
        threads = self._world.threads
        with threads.locks():
            self.log = MessageLog(
                self._folder / "log",
                segment_bytes=SEGMENT_BYTES,
                max_bytes=1 << 20,
                now=self._world.loop.time,
            )
        try:
            epoch = next_boot_epoch(self._folder)
            self.log.open()
            with threads.locks():
                self.store, saved = open_store(self._folder / "broker.sqlite3")
        except (OSError, ValueError) as error:
            assert isinstance(error, LogError | StoreError | OSError), repr(error)
            self.lines.append(str(error))
            return False
        try:
            self._make(epoch)
            self.core.recover(self._durable, self._history, self.store, saved)
        except OSError as error:
            self.lines.append(str(error))
            return False
        self.node.add_part(RetainedPart(self.node, self.core.shared_retention))
        self.core.start()
        await self._listen()
        self.node.listens_at(self.port)
        chance = random.Random(0)
        neighbours = Neighbours(
            self.name, self.node.dial, self.node.is_linked, self.node.link_ends, chance
        )
        if self._neighbour is not None:
            neighbours.add_static(TcpAddress(HOST, self._neighbour))
        return True

    async def _listen(self) -> None:
        tls = None
        if self._world.certificates is not None:
            tls = failing(self._world.certificates, self._world.calls)
        self._listeners = Listeners(self.core.service, tls, WebSocketRules())
        for scheme in ("mqtt",) if tls is None else PORTS_FROM:
            await self._listeners.open(Listener(scheme, (HOST,), self.port + PORTS_FROM[scheme]))

    def _make(self, epoch: int) -> None:
        settings = NodeSettings(
            Credentials(self.name, "tree", KEY, epoch=epoch),
            Identity(self.name, epoch, 1.0, HOST),
            Parameters(hello_s=HELLO_S),
            sync=True,
            repair_interval_s=REPAIR_S,
        )
        self.node = TreeNode(settings, self.log, NodeReceiver(_control, self._deliver))
        self._history = LogHistory(self.node, (self.name, epoch))
        now = self._world.loop.time
        self._durable = DurablePersistence(self._history, LastingClock(self.clocks, epoch), now)
        around = hooks(commit=self.node.origin.publish_all, links=TcpLinks(self.node).accept)
        self.core = DataPlane(around, None, self._durable)

    def _deliver(self, rows: list[Row], header: Header) -> None:
        last = header.last if header.logged else 0
        self.core.remote_delivery.publish_batch(rows, header.stream, last)

    def kill(self) -> None:
        """End the process without a word to anybody."""
        if self.is_up:
            self.told_lost += self.core.refusals.counts[NO_LONGER_LOGGED]
            self.failed_syncs += self.node.commit.refusals.counts["sync of the log that failed"]
            self.is_up = False
            self._abandon()
        if self._world.cuts_power:
            self._world.calls.cut_power(self._folder)
            self.clocks.power_cut(10.0, is_right=self.clocks.is_right)

    def _abandon(self) -> None:
        """Let go of what a dead process would hold no more; nothing is written for it."""
        world = self._world
        world.threads.kill(self._process)
        world.loop.kill(self._process)
        world.network.kill(self._process)
        with contextlib.suppress(Exception):
            self.store.close()
        self.log._let_go()

    async def checkpoint(self) -> None:
        """Make a checkpoint, as the gateway does now and then."""
        kept = self.core.checkpoints
        if kept is not None and self.is_up:
            await self._world.loop.run_in(self._process, _checkpoint(kept))


async def _checkpoint(kept: Any) -> None:
    await kept.settle()
    await kept.checkpoint()


def _control(*_: object) -> None:
    """Take what gateways tell each other."""
