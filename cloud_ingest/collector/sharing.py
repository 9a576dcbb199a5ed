"""Sharing of origins' batches among the spools of a group (decision 49; sans-I/O).

Each member of a group is sent every batch. Its origin has one owner among the members that are
alive, which all find by the same hash (`owner_of`). The owner spools at once. The others hold the
batch in memory until somebody says that it is synced in its spool, and then drop it. What is held
is spooled where its owner is no longer heard of, where nobody has said so for `hold_s`, and where
too much is held. So whatever goes wrong (two that both think they own, none that does, a disk that
takes nothing) ends with a batch that is in two spools, never with one that is in none.

Members tell each other what they have synced (`SpoolStatement`), and how far they know of each
other's, so that what was lost on the way is told again. Whoever begins holds everything until it
knows what the others have, or for `dead_after_s`. Whose spool takes nothing says nothing, so that
it is taken for dead: what it owns would come `hold_s` late, and whoever sent it would look silent.

QoS 0 messages are held for `unlogged_s` and spooled if their owner dies meanwhile: nobody tells of
them. Time is monotonic seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cloud_ingest.collector.ownership import owner_of
from cloud_ingest.collector.spooled import MAX_TOLD_RANGES, MAX_TOLD_ROWS, SpoolStatement
from tree_handler.batch import Epoch, Header
from tree_handler.intervals import Intervals

MAX_KNOWN_STREAMS: Final = 1_000_000
"""Of others' spools; what is told of more is not known, and held batches of them are spooled."""
MAX_OWNERS: Final = 100_000
"""Origins whose owner is remembered and not found anew."""


@dataclass(frozen=True, slots=True)
class SharingLimits:
    """The times and limits of collectors that share one group's messages.

    Attributes:
        say_s: how often the others are told, seconds.
        dead_after_s: who was not heard of for so long is taken for dead.
        hold_s: a batch is held for so long at most.
        unlogged_s: and so long a QoS 0 one.
        held_bytes: beyond it the oldest are spooled.

    """

    say_s: float = 1.0
    dead_after_s: float = 5.0
    hold_s: float = 30.0
    unlogged_s: float = 10.0
    held_bytes: int = 64 << 20


@dataclass(slots=True)
class KeptNumbers:
    """The numbers that a group's spools have, as one member knows: a file keeps it over a restart.

    Attributes:
        mine: logged numbers that this spool has, synced, by stream.
        elsewhere: those that another member said its spool has.

    """

    mine: dict[Epoch, Intervals] = field(default_factory=dict)
    elsewhere: dict[Epoch, Intervals] = field(default_factory=dict)


@dataclass(slots=True)
class SharingCounters:
    """Messages, by what became of them.

    Attributes:
        held: those that another owns.
        confirmed: of these, dropped since another has them.
        known_elsewhere: not held either, for another had them before they came.
        taken_over: held and spooled since their owner is gone.
        aged: since nobody said in time that it has them.
        overflowed: since too much was held.
        unlogged_dropped: QoS 0 messages whose owner stayed alive.
        doubled: in this spool and, as it says, in another's.
        left_out: rows of others that were beyond `MAX_KNOWN_STREAMS`.

    """

    held: int = 0
    confirmed: int = 0
    known_elsewhere: int = 0
    taken_over: int = 0
    aged: int = 0
    overflowed: int = 0
    unlogged_dropped: int = 0
    doubled: int = 0
    left_out: int = 0


@dataclass(slots=True)
class HeldBatch:
    """A batch that is in no spool of which this member knows."""

    frame: bytes
    header: Header
    since: float
    why: str = ""


@dataclass(slots=True)
class OtherMember:
    """The state of another member in its present life."""

    life: int = 0
    number: int = 0
    heard_at: float = -math.inf
    acknowledged: int = 0
    told: int = 0
    is_complete: bool = False


class Sharing:
    """One member of a group.

    Args:
        own: its id, and its boot epoch.
        group: ids of all members.
        kept: what was known before; kept up to date from now on.
        limits: how long and how much.
        now: the time.

    """

    def __init__(
        self,
        own: tuple[str, int],
        group: Sequence[str],
        kept: KeptNumbers,
        limits: SharingLimits,
        now: float,
    ) -> None:
        self.own_id, self._life = own
        self.kept = kept
        self.counters = SharingCounters()
        self.held_bytes = 0
        self._limits = limits
        self._others = {name: OtherMember() for name in group if name != self.own_id}
        self._began_at = now
        self._is_settled = not self._others
        self._live = frozenset((self.own_id,))
        self._owners: dict[str, str] = {}
        # A version each, in their order: who was told a part is told the next one after it.
        self._changed = {stream: version for version, stream in enumerate(kept.mine, 1)}
        self._version = max(1, len(self._changed))
        self._number = 0
        self._held: dict[tuple[Epoch, bool, int], HeldBatch] = {}
        self._of_stream: dict[Epoch, dict[tuple[Epoch, bool, int], None]] = {}
        self._has_moved = False
        self._refused_at = -math.inf

    @property
    def live(self) -> frozenset[str]:
        """The members that are alive, this one among them."""
        return self._live

    @property
    def others(self) -> Sequence[str]:
        """The other members, alive or not."""
        return tuple(self._others)

    @property
    def held(self) -> int:
        """Batches that are held."""
        return len(self._held)

    @property
    def is_settled(self) -> bool:
        """Return whether it knows who is alive, and what those have."""
        return self._is_settled

    def owner(self, origin: str) -> str:
        """Return who is to keep an origin's batches now."""
        found = self._owners.get(origin)
        if found is None:
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
            found = self._owners[origin] = owner_of(origin, self._live)
        return found

    # -- batches -------------------------------------------------------------------------------

    def takes(self, frame: bytes, header: Header, now: float) -> bool:
        """Return whether a batch of clients is to be spooled at once.

        If not, it is held or not needed.
        """
        if header.logged and self._is_elsewhere(header):
            self.counters.known_elsewhere += header.count
            return False
        if self._is_settled and self.owner(header.origin) == self.own_id:
            return True
        key = (header.stream, header.logged, header.first)
        if len(frame) > self._limits.held_bytes or key in self._held:
            return True
        self._held[key] = HeldBatch(frame, header, now)
        self._of_stream.setdefault(header.stream, {})[key] = None
        self.held_bytes += len(frame)
        self.counters.held += header.count
        return False

    def due(self, now: float) -> list[HeldBatch]:
        """Return what has to be spooled now; each stays held until `spooled` says that it is."""
        limits = self._limits
        excess = self.held_bytes - limits.held_bytes
        moved, self._has_moved = self._has_moved, False
        found: list[HeldBatch] = []
        for held in list(self._held.values()):
            age = now - held.since
            if self._is_settled and self.owner(held.header.origin) == self.own_id:
                held.why = "taken_over"
            elif excess > 0:
                held.why = "overflowed"
            elif not held.header.logged and age >= limits.unlogged_s:
                self.counters.unlogged_dropped += held.header.count
                self._let_go(held)
                continue
            elif age >= limits.hold_s:
                held.why = "aged"
            elif moved or not held.header.logged or age >= limits.unlogged_s:
                continue
            else:
                break  # all behind it came later, and nobody's owner is another one now
            excess -= len(held.frame)
            found.append(held)
        return found

    def spooled(self, held: HeldBatch) -> None:
        """The spool has taken one that was `due`."""
        if held.why == "taken_over":
            self.counters.taken_over += held.header.count
        elif held.why == "aged":
            self.counters.aged += held.header.count
        else:
            self.counters.overflowed += held.header.count
        self._let_go(held)

    def all_held(self) -> list[HeldBatch]:
        """Return all that is held, for an end of this life: nobody has said that it has it."""
        found = [held for held in self._held.values() if held.header.logged]
        for held in found:
            held.why = "aged"
        return found

    def refused(self, now: float) -> None:
        """The spool did not take a batch: what is due is asked for again."""
        self._refused_at = now
        self._has_moved = True

    def speaks(self, now: float) -> bool:
        """Return whether the others are to be told: not while the spool takes nothing."""
        return now - self._refused_at >= self._limits.hold_s

    def synced(self, header: Header) -> None:
        """The spool has a batch of clients on disk."""
        self._refused_at = -math.inf
        if not header.logged:
            return
        stream, first, last = header.stream, header.first, header.last
        new = self.kept.mine.setdefault(stream, Intervals()).add(first, last)
        self._version += 1
        self._changed.pop(stream, None)
        self._changed[stream] = self._version
        if new and (theirs := self.kept.elsewhere.get(stream)) is not None:
            self.counters.doubled += Intervals([(first, last)]).common(theirs).count()

    def _is_elsewhere(self, header: Header) -> bool:
        theirs = self.kept.elsewhere.get(header.stream)
        return theirs is not None and theirs.covers(header.first, header.last)

    def _let_go(self, held: HeldBatch) -> None:
        header = held.header
        key = (header.stream, header.logged, header.first)
        if self._held.pop(key, None) is not None:
            self.held_bytes -= len(held.frame)
            of_stream = self._of_stream[header.stream]
            del of_stream[key]
            if not of_stream:
                del self._of_stream[header.stream]

    # -- the others ----------------------------------------------------------------------------

    def handle_timer(self, now: float) -> None:
        """Look who is alive; call it now and then."""
        limits = self._limits
        live = {self.own_id}
        live |= {
            name
            for name, other in self._others.items()
            if now - other.heard_at < limits.dead_after_s
        }
        if live != self._live:
            self._live = frozenset(live)
            self._owners.clear()
            self._has_moved = True
        if not self._is_settled and (
            now - self._began_at >= limits.dead_after_s
            or all(other.is_complete for other in self._others.values())
        ):
            self._is_settled = self._has_moved = True

    def tell(self, receiver: str) -> SpoolStatement:
        """Return what another member is to be told now."""
        other = self._others[receiver]
        since = other.acknowledged
        rows: dict[Epoch, Intervals] = {}
        upto, ranges = self._version, 0
        for stream, version in self._news(since):
            numbers = list(self.kept.mine[stream])[-MAX_TOLD_RANGES:]
            ranges += len(numbers)
            if len(rows) == MAX_TOLD_ROWS or (rows and ranges > MAX_TOLD_RANGES):
                upto = version - 1
                break
            rows[stream] = Intervals(numbers)
        self._number += 1
        return SpoolStatement(
            self.own_id,
            self._life,
            receiver,
            self._number,
            (other.life, other.told),
            since,
            upto,
            completes=upto == self._version,
            rows=rows,
        )

    def _news(self, since: int) -> Iterator[tuple[Epoch, int]]:
        found = []
        for stream in reversed(self._changed):
            version = self._changed[stream]
            if version <= since:
                break
            found.append((stream, version))
        return reversed(found)

    def receive(self, told: SpoolStatement, now: float) -> tuple[dict[Epoch, Intervals], bool]:
        """Take what another member tells.

        Returns:
            What it has, and whether it is to be told more at once.

        """
        other = self._others.get(told.sender)
        if other is None or told.receiver != self.own_id or told.life < other.life:
            return {}, False
        if told.life > other.life:
            self._others[told.sender] = other = OtherMember(told.life)
        if told.number <= other.number:
            return {}, False
        other.number, other.heard_at = told.number, now
        if told.since <= other.told:
            other.told = max(other.told, told.upto)
            other.is_complete |= told.completes
        life, version = told.acknowledges
        knows_more = life == self._life and version > other.acknowledged
        if knows_more:
            other.acknowledged = min(version, self._version)
        known = {stream: numbers for stream, numbers in told.rows.items() if self._has(stream)}
        for stream, numbers in known.items():
            self._learn(stream, numbers)
        self.handle_timer(now)
        return known, knows_more and self._has_much_for(other)

    def _has(self, stream: Epoch) -> bool:
        if stream in self.kept.elsewhere or len(self.kept.elsewhere) < MAX_KNOWN_STREAMS:
            return True
        self.counters.left_out += 1
        return False

    def _has_much_for(self, other: OtherMember) -> bool:
        return sum(1 for _ in self._news(other.acknowledged)) >= MAX_TOLD_ROWS

    def _learn(self, stream: Epoch, numbers: Intervals) -> None:
        theirs = self.kept.elsewhere.setdefault(stream, Intervals())
        if (mine := self.kept.mine.get(stream)) is not None:
            self.counters.doubled += numbers.without(theirs).common(mine).count()
        theirs.update(numbers)
        for key in list(self._of_stream.get(stream, ())):
            held = self._held[key]
            if held.header.logged and self._is_elsewhere(held.header):
                self.counters.confirmed += held.header.count
                self._let_go(held)

    def forget(self, is_over: Callable[[Epoch], bool]) -> None:
        """Drop what is known of streams that are over."""
        for numbers in (self.kept.mine, self.kept.elsewhere):
            for stream in [stream for stream in numbers if is_over(stream)]:
                del numbers[stream]
        for stream in [stream for stream in self._changed if stream not in self.kept.mine]:
            del self._changed[stream]
