"""Collectors of a group, in memory: cores, disks that a power cut takes the unsynced of, and words
on their way between them. Gateways keep all that they accepted."""

from __future__ import annotations

from dataclasses import dataclass, field

from cloud_ingest.collector.sharing import KeptNumbers, Sharing, SharingLimits
from cloud_ingest.collector.spooled import SpoolStatement
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers, unpack_numbers

LIMITS = SharingLimits()
Batch = tuple[bytes, Header]


def made(origin: str, first: int, count: int = 2) -> Batch:
    entries = [Entry("t", b"%d" % n, 1) for n in range(first, first + count)]
    frame = batch.encode(origin, 1, first, entries, flags=Flags.LOGGED, origin_time_us=1)
    return frame, batch.check(frame)


@dataclass
class Member:
    """One collector over its lives; ``core`` is None while it is dead."""

    name: str
    group: list[str]
    limits: SharingLimits = LIMITS
    life: int = 0
    core: Sharing | None = None
    synced: list[Header] = field(default_factory=list)
    unsynced: list[Header] = field(default_factory=list)
    file: tuple[bytes, bytes] = (b"\x90", b"\x90")
    have: dict[Epoch, Intervals] = field(default_factory=dict)
    is_disk_full: bool = False

    def start(self, now: float) -> None:
        mine, elsewhere = map(unpack_numbers, self.file)
        self.life += 1
        self.core = Sharing(
            (self.name, self.life), self.group, KeptNumbers(mine, elsewhere), self.limits, now
        )
        self.have = {stream: Intervals(numbers) for stream, numbers in elsewhere.items()}
        for header in self.synced:
            self._has(header)

    def kill(self, survivors: int = 0) -> None:
        """The first few of what was written and not synced may be on the disk even so."""
        self.synced += self.unsynced[:survivors]
        self.unsynced = []
        self.core = None

    def _has(self, header: Header) -> None:
        self.have.setdefault(header.stream, Intervals()).add(header.first, header.last)

    def lacks(self, header: Header) -> bool:
        have = self.have.get(header.stream)
        return have is None or not have.covers(header.first, header.last)

    def deliver(self, one: Batch, now: float) -> None:
        frame, header = one
        assert self.core is not None
        if not self.lacks(header):
            return
        if self.core.takes(frame, header, now):
            if self.is_disk_full:
                self.core.refused(now)
                return
            self.unsynced.append(header)
        self._has(header)

    def turn(self, now: float) -> None:
        assert self.core is not None
        self.core.handle_timer(now)
        for held in self.core.due(now):
            if self.is_disk_full:
                self.core.refused(now)
                return
            self.unsynced.append(held.header)
            self.core.spooled(held)

    def sync(self) -> None:
        assert self.core is not None
        done, self.unsynced = self.unsynced, []
        self.synced += done
        for header in done:
            self.core.synced(header)

    def write(self) -> None:
        assert self.core is not None
        kept = self.core.kept
        self.file = pack_numbers(kept.mine), pack_numbers(kept.elsewhere)

    def hear(self, told: SpoolStatement, now: float) -> None:
        if self.core is None:
            return
        known, _ = self.core.receive(SpoolStatement.decode(told.encode()), now)
        for stream, numbers in known.items():
            self.have.setdefault(stream, Intervals()).update(numbers)


class Group:
    """Collectors, and what gateways accepted."""

    def __init__(self, count: int, limits: SharingLimits = LIMITS) -> None:
        names = [f"c{number}" for number in range(count)]
        self.now = 0.0
        self.members = {name: Member(name, names, limits) for name in names}
        self.accepted: list[Batch] = []
        self.words: list[SpoolStatement] = []
        for member in self.members.values():
            member.start(self.now)

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members.values() if member.core is not None]

    def publish(self, origin: str) -> Batch:
        first = 1 + sum(header.count for _, header in self.accepted if header.origin == origin)
        self.accepted.append(made(origin, first))
        return self.accepted[-1]

    def say(self, member: Member) -> None:
        assert member.core is not None
        if not member.core.speaks(self.now):
            return
        self.words += [member.core.tell(name) for name in member.core.others]

    def hear(self, told: SpoolStatement) -> None:
        self.members[told.receiver].hear(told, self.now)

    def pass_time(self, seconds: float) -> None:
        """Nothing goes wrong meanwhile: links bring all, and each turn is synced."""
        for _ in range(round(seconds)):
            self.now += 1.0
            for member in self.alive:
                for one in self.accepted:
                    member.deliver(one, self.now)
            for member in self.alive:
                member.turn(self.now)
                member.sync()
                self.say(member)
            words, self.words = self.words, []
            for told in words:
                self.hear(told)

    def copies(self, header: Header) -> int:
        return sum(member.synced.count(header) for member in self.members.values())
