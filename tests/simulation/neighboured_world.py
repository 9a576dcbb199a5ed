"""A broker with a log in memory and a neighbour that has all that reached it.

Both have the production core of replication. The gateway's disk may lose some of its log, be
another one for a while, or its id be used elsewhere: what comes back from the neighbour then is
handed to the gateway's broker as in the process.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker_client import Client
from broker_world import Published, World
from memory_log import NAME, CrashError, Disk, MachineClocks, MemoryLog

from gateway.broker.hooks import Committed
from gateway.broker.inbound.remote_delivery import HAD_BEFORE
from gateway.log.message_log import LogError
from tree_handler import batch
from tree_handler.batch import Epoch, Flags, Header, Row
from tree_handler.intervals import Intervals
from tree_handler.replication import epoch_order
from tree_handler.replication.answering import answer
from tree_handler.replication.delivery import Deliver, DeliverLogged
from tree_handler.replication.repair import Request, SearchResult, Seek, Summary
from tree_handler.replication.replication import (
    Append,
    Look,
    Lost,
    Push,
    RepairSettings,
    Replication,
    ReplicationAction,
    SendBatch,
    SendRepair,
    SendRequest,
    SendSeek,
    SendSought,
    SendSummary,
    Serve,
)

NEIGHBOUR = "nb"
LINK = 1
ROUND_S = 10.0
"""Between two rounds of what both ends do with time."""
ROUNDS = 12

Frame = tuple[bytes, Header]


class Side:
    """One end of the link: a core of replication, and what is on its way to it."""

    def __init__(self, core: Replication) -> None:
        self.core = core
        self.inbox: deque[tuple[str, bytes]] = deque()
        self.other: Side | None = None
        self.told: list[Lost] = []
        """The losses that it gave up, as it was told of them."""

    def frames(self) -> Iterable[Frame]:
        """Give the frames that its log has."""
        raise NotImplementedError

    def keep(self, frame: bytes, header: Header) -> bool:
        """Append a batch; whether the log took it."""
        raise NotImplementedError

    def deliver(self, rows: list[Row], header: Header) -> None:
        """Hand messages to local clients."""

    def carry_out(self, actions: Iterable[ReplicationAction]) -> None:
        for action in actions:
            match action:
                case Append(frame, header):
                    if self.keep(frame, header):
                        self.carry_out(self.core.appended(action))
                case Deliver(frame, header, first):
                    self._hand_out(frame, header, first)
                case DeliverLogged(stream, first, last):
                    for frame, header in self._read(stream, Intervals([(first, last)])):
                        self._hand_out(frame, header, max(first, header.first))
                case Look(_, number, wanted):
                    self.carry_out(self.core.repair.looked(number, self._serve(wanted)))
                case Serve(_, request):
                    self._serve(request.wanted)
                    self._say("done", b"")
                case Push(_, request):
                    self._serve(request.wanted)
                case Lost():
                    self.told.append(action)
                case _:
                    self._send(action)

    def _send(self, action: ReplicationAction) -> None:
        match action:
            case SendBatch(_, frame):
                self._say("batch", frame)
            case SendRepair(_, frame):
                self._say("repair", frame)
            case SendSummary(_, summary):
                self._say("summary", summary.encode())
            case SendRequest(_, request):
                self._say("request", request.encode())
            case SendSeek(_, seek):
                self._say("seek", seek.encode())
            case SendSought(_, sought):
                self._say("sought", sought.encode())

    def _say(self, kind: str, data: bytes) -> None:
        if self.other is not None:
            self.other.inbox.append((kind, data))

    def _hand_out(self, frame: bytes, header: Header, first: int) -> None:
        if not (header.passed or header.control):
            self.deliver(batch.rows(frame, header)[first - header.first :], header)

    def _read(self, stream: Epoch, numbers: Intervals) -> list[Frame]:
        found = [
            (frame, header)
            for frame, header in self.frames()
            if header.stream == stream
            and numbers.missing(header.first, header.last) != [(header.first, header.last)]
        ]
        return sorted(found, key=lambda row: row[1].first)

    def _serve(self, wanted: dict[Epoch, Intervals]) -> dict[Epoch, Intervals]:
        found: dict[Epoch, Intervals] = {}
        for stream, numbers in wanted.items():
            for frame in answer(self._read(stream, numbers)):
                header = batch.check(frame)
                found.setdefault(stream, Intervals()).add(header.first, header.last)
                self._say("repair", frame)
        return found

    def take_next(self, now: float) -> None:
        """Receive what is next on its way."""
        kind, data = self.inbox.popleft()
        core, repair = self.core, self.core.repair
        match kind:
            case "batch" | "repair":
                actions = core.receive_batch(LINK, data, repair=kind == "repair")
            case "summary":
                actions = repair.receive_summary(LINK, Summary.decode(data), now)
            case "request":
                actions = repair.receive_request(LINK, Request.decode(data))
            case "seek":
                actions = repair.receive_seek(LINK, Seek.decode(data), now)
            case "sought":
                actions = repair.receive_sought(LINK, SearchResult.decode(data), now)
            case _:
                actions = repair.receive_done(LINK, now)
        self.carry_out(actions)


class Neighbour(Side):
    """A gateway that stays, and has no clients of its own but those that a test plays."""

    def __init__(self) -> None:
        super().__init__(Replication(NEIGHBOUR, 1))
        self.log: list[Frame] = []

    def frames(self) -> Iterable[Frame]:
        return self.log

    def keep(self, frame: bytes, header: Header) -> bool:
        self.log.append((frame, header))
        return True

    def publish(self, row: Row) -> None:
        """One of its own clients publishes."""
        self.carry_out(self.core.publish([row], Flags.LOGGED, 0))

    def hear_of_life(self, epoch: int, earlier: Sequence[Epoch], rows: Sequence[Row]) -> None:
        """A gateway under the broker's id ran elsewhere, and this one has its messages."""
        ends = {stream: Intervals([(1, 1)]) for stream in earlier}
        told = epoch_order.statement(NAME, epoch, ends).row()
        control = batch.make(
            NAME, epoch, 1, [told], flags=Flags.LOGGED | Flags.CONTROL, origin_time_us=0
        )
        made = [
            batch.make(NAME, epoch, number, [row], flags=Flags.LOGGED, origin_time_us=0)
            for number, row in enumerate(rows, 1)
        ]
        for frame, header in (control, *made):
            self.keep(frame, header)
            self.carry_out(self.core.appended(Append(frame, header, None)))

    def has(self, payload: bytes) -> bool:
        """Return whether a message reached it."""
        return any(
            row[2] == payload
            for frame, header in self.log
            if header.clients and not header.passed
            for row in batch.rows(frame, header)
        )


class NeighbouredLog(MemoryLog):
    """The log of one life, written by its core of replication."""

    def __init__(
        self, disk: Disk, epoch: int, crash_in: int, clocks: MachineClocks, *, sync: bool
    ) -> None:
        super().__init__(disk, epoch, crash_in, clocks, sync=sync)
        self.side = Gateway(self, epoch)

    def due(self) -> dict[Epoch, int]:
        core = self.side.core
        return {key: core.handed_out(key) for key in self.disk.have if core.is_clients(key)}

    def lacks(
        self, key: Epoch, first: int, last: int, *, may_wait: bool = False
    ) -> list[tuple[int, int]]:
        return self.side.core.covered(key).missing(first, last)

    def commit(self, logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
        first = self.side.core.next_logged if logged else 0
        try:
            if logged:
                made_us = self._clocks.wall_us()
                self.side.carry_out(self.side.core.publish(logged, Flags.LOGGED, made_us))
                self._next = self.side.core.next_logged
        except LogError as error:
            assert done is not None
            done(0, error)
            return
        if done is not None:
            self._settle(lambda error: done(first, error))

    def keep(self, frame: bytes, header: Header) -> bool:
        self._write(frame)
        return True

    def _take(self, frame: bytes) -> None:
        self.frames.append(frame)
        header = batch.check(frame)
        if header.numbered:
            self.disk.have.setdefault(header.stream, Intervals()).add(header.first, header.last)


class Gateway(Side):
    """The end of the link that is tried."""

    def __init__(self, log: NeighbouredLog, epoch: int) -> None:
        disk = log.disk
        have = {stream: Intervals(numbers) for stream, numbers in disk.have.items()}
        told = [(frame, header) for _, frame, header in disk.whole() if header.control]
        super().__init__(Replication(NAME, epoch, have, RepairSettings(), told))
        self._log = log
        self.publish_batch: Callable[[Sequence[Row], Epoch, int], None] | None = None

    def frames(self) -> Iterable[Frame]:
        return [(frame, header) for _, frame, header in self._log.disk.whole() if header.numbered]

    def keep(self, frame: bytes, header: Header) -> bool:
        return self._log.keep(frame, header)

    def deliver(self, rows: list[Row], header: Header) -> None:
        assert self.publish_batch is not None
        self.publish_batch(rows, header.stream, header.last)


@dataclass
class Card:
    """A card: its log, and the files of its checkpoints."""

    disk: Disk
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Found:
    """The state that a start made of a damaged disk, for one client.

    Attributes:
        is_up_to_date: its client was there, and nothing waited for it, as far as the record goes.
        again: messages that are on their way to it, or wait, though it has had them: those of which
            the journal has lost that they were sent.

    """

    is_up_to_date: bool
    again: set[bytes] = field(default_factory=set)


class NeighbouredWorld(World):
    """One run with a neighbour.

    Args:
        options: see `World`.

    Attributes:
        neighbour: the other gateway.
        is_linked: whether there is a link, or is to be one at the next start.
        at_start: what happens to the card before the next start.
        found: what was found at the last start behind such a thing, by client.
        swapped: whether the card was ever another one.

    """

    def __init__(self, seed: int, *, sync: bool, **options: Any) -> None:
        super().__init__(seed, sync=sync, **options)
        self.neighbour = Neighbour()
        self.is_linked = False
        self.at_start: Callable[[], None] | None = None
        self.found: dict[str, Found] = {}
        self.sent_again: set[bytes] = set()
        self.swapped = False
        self._now_s = 0.0

    @property
    def side(self) -> Gateway:
        assert isinstance(self.log, NeighbouredLog)
        return self.log.side

    def make_log(self, crash_in: int) -> MemoryLog:
        return NeighbouredLog(self.disk, self.epoch, crash_in, self.clocks, sync=self.sync)

    def start(self) -> None:
        self.cut()
        damage, self.at_start = self.at_start, None
        if damage is not None:
            self.is_damaged = True
            damage()
            # What clients had sent and saw no end of, they send again: as another message, if the
            # log has lost it and the neighbour has it.
        if damage is not None or self.sync:
            for client in self.clients:
                self.sent_again |= {sent.publish.payload for sent in client.sent.values()}
        super().start()
        self.side.publish_batch = self.core.remote_delivery.publish_batch
        if damage is not None:
            self._look_at_sessions()

    def _look_at_sessions(self) -> None:
        for client in self.clients:
            session = self.core.sessions.get(client.name)
            if session is None or session.record is None:
                continue
            outgoing = session.outgoing
            kept = [one for one in outgoing.inflight.values() if one is not None]
            payloads = {one[0].payload for one in (*kept, *outgoing.backlog.in_memory())}
            number, ends = session.record.number, self.durable.lacking.saved()
            found = self.found.setdefault(client.name, Found(is_up_to_date=True))
            found.is_up_to_date &= any(lack.session == number for lack in ends)
            found.again |= payloads & {publish.payload for publish in client.got}

    # -- the card, while the gateway is down

    def card(self) -> Card:
        """A copy of what is on the card."""
        files = {path.name: path.read_bytes() for path in self.store.parent.iterdir()}
        return Card(copy.deepcopy(self.disk), files)

    def put_in(self, card: Card) -> None:
        """Another card is there."""
        self.swapped = True
        self.disk = copy.deepcopy(card.disk)
        for path in list(self.store.parent.iterdir()):
            path.unlink()
        for name, data in card.files.items():
            (self.store.parent / name).write_bytes(data)

    def lose_tail(self, count: int) -> None:
        """The log has lost its last frames."""
        for _ in range(min(count, len(self.disk.frames))):
            self.disk.lose_last()

    # -- the link

    def link(self) -> None:
        """Both ends meet."""
        self.is_linked = True
        self.side.other, self.neighbour.other = self.neighbour, self.side
        for side in (self.neighbour, self.side):
            side.carry_out(side.core.repair.link_up(LINK, self._now_s))
            side.carry_out(side.core.repair.forwarding(LINK, forwards=True))
        self.exchange()

    def cut(self) -> None:
        """The link is down; what was on its way is gone."""
        if self.neighbour.other is not None:
            for side in (self.neighbour, self.neighbour.other):
                side.other = None
                side.inbox.clear()
                side.carry_out(side.core.repair.link_down(LINK, self._now_s))

    def exchange(self) -> None:
        """Let all that is on its way arrive; a crash of the gateway ends it."""
        side = self.side
        try:
            while side.inbox or self.neighbour.inbox:
                for one in (side, self.neighbour):
                    if one.inbox:
                        one.take_next(self._now_s)
        except CrashError:
            pass

    def repair(self) -> None:
        """Let so much time pass that both ends have nothing more to ask for."""
        for _ in range(ROUNDS):
            self._now_s += ROUND_S
            for side in (self.side, self.neighbour):
                try:
                    side.carry_out(side.core.repair.handle_timer(self._now_s))
                except CrashError:
                    return
            self.exchange()


class StormyWorld(NeighbouredWorld):
    """One seeded run, in which the card is damaged, and the link comes and goes.

    Clients subscribe once, before anything breaks: who is due what is certain then.

    Args:
        kinds: names of what may happen to the card.
        options: see `NeighbouredWorld`.

    """

    def __init__(self, seed: int, kinds: Sequence[str], *, sync: bool, **options: Any) -> None:
        super().__init__(seed, sync=sync, **options)
        self.disk_fills = False
        self.kinds = kinds
        self.damages = 0
        self.brought = 0
        self.told_had = 0
        """Deliveries that were left out since their sessions had them, as was told."""
        self._put_by: Card | None = None

    async def begin(self) -> None:
        """All are there, and subscribed, and a checkpoint says so."""
        self.log.crash_in = 1 << 60
        self.link()
        await settle(self, *self.clients)
        for at, client in enumerate(self.clients):
            client.subscribe("#", 1 + at % 2)
        await settle(self, *self.clients)
        await self.checkpoint()
        self._put_by = self.card()

    async def step(self) -> None:
        if self.rng.random() < 0.1 and not self.log.is_dead:
            if self.neighbour.other is None:
                self.link()
            else:
                self.cut()
        await super().step()
        if not self.log.is_dead:
            self.exchange()

    def change_subscription(self, client: Client) -> None:
        """The neighbour's clients publish instead."""
        self.brought += 1
        payload = f"{NEIGHBOUR}:{self.brought}".encode()
        qos = self.rng.choice((1, 2))
        due = {one.name: min(qos, 1 + at % 2) for at, one in enumerate(self.clients)}
        self.happened += 1
        made = Published("a/1", qos, False, self.happened, due, set(due), self.happened)
        self.published[payload] = made
        self.neighbour.publish(("a/1", qos, payload))

    def _add_up_trimmed(self) -> None:
        super()._add_up_trimmed()
        self.told_had += self.core.refusals.counts[HAD_BEFORE]

    async def crash(self) -> None:
        if self.rng.random() < 0.5:
            self.at_start = self._damage
        await super().crash()

    def _damage(self) -> None:
        self.damages += 1
        self.clocks.wall += self.rng.choice((0, 10**15, -(10**14)))  # a Pi has no clock of its own
        kind = self.rng.choice(self.kinds)
        if kind == "tail":
            self.lose_tail(self.rng.randrange(1, 30))
        elif kind == "page":
            count = self.rng.randrange(1, 8)
            at = self.rng.randrange(max(1, len(self.disk.frames)))
            self.disk.damage(at, count)
        else:
            there, put_by = self.card(), self._put_by
            self._put_by = there
            if put_by is not None:
                self.put_in(put_by)

    async def drain(self) -> None:
        self.at_start = None
        await World.crash(self)
        self.log.crash_in = 1 << 60
        for client in self.clients:
            client.answer_all()
        self.link()
        for _ in range(3):
            await self._read_all()
            self.repair()
        await self._read_all()

    async def _read_all(self) -> None:
        """Let clients read until there is nothing more, a few messages at a time as some take."""
        quiet = 0
        while quiet < 4:
            is_busy = False
            for client in self.clients:
                if client.connection is None:
                    client.connect(self.core)
                is_busy |= client.read()
            await self.settled()
            self.log.synced()
            self.exchange()
            quiet = 0 if is_busy else quiet + 1

    def unjust(self) -> list[str]:
        """Return the faults that must not be, whatever happened to the card."""
        faults = [f"{c.name}: {fault}" for c in self.clients for fault in c.faults]
        lacks = [fault for client in self.clients for fault in self._lacks(client)]
        if len(lacks) > self.told_had + self.told_trimmed:
            faults += lacks
        for client in self.clients:
            faults += self._hanging(client)
            if not self.swapped:
                faults += self._doubled(client)
        return faults

    def _hanging(self, client: Client) -> Iterator[str]:
        session = self.core.sessions.get(client.name)
        if session is not None:
            outgoing = session.outgoing
            # What a client released may stand among its identifiers again: that record was lost.
            hanging = len(outgoing.inflight) + outgoing.backlog.count
            if hanging:
                yield f"{client.name}: {hanging} exchanges hang at the broker"

    def _lacks(self, client: Client) -> Iterator[str]:
        got = {publish.payload for publish in client.got}
        for payload, message in self.published.items():
            if payload not in got and message.acknowledged_at and self.neighbour.has(payload):
                yield f"{client.name} never got {payload!r}, which the neighbour has"

    def _doubled(self, client: Client) -> Iterator[str]:
        counts = Counter(p.payload for p in client.got if p.qos == 2 and not p.retain)
        found = self.found.get(client.name, Found(is_up_to_date=True))
        for payload, count in counts.items():
            is_own = not payload.startswith(NEIGHBOUR.encode())
            may_be = payload in self.sent_again or payload in found.again
            if count > 1 and is_own and found.is_up_to_date and not may_be:
                yield f"{client.name} got {payload!r} {count} times"


async def settle(world: NeighbouredWorld, *clients: Client) -> None:
    """Let these have their connections, and answer what they get; nothing is on its way then."""
    for _ in range(12):
        for client in clients:
            if client.connection is None:
                client.connect(world.core)
            client.read()
        await world.settled()
        world.log.synced()
        world.exchange()


async def crash(world: NeighbouredWorld) -> None:
    """The gateway is killed, and starts again; the link is not there yet."""
    await world.crash()
    world.log.crash_in = 1 << 60
    await world.settled()
